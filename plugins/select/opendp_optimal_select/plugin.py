"""The hooks of this plugin, named in the entry-point group ``opendp_optimal``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opendp_optimal import hookimpl
from opendp_optimal.extend import late


@hookimpl
def opendp_optimal_register_mechanisms(register: Callable[..., None]) -> None:
    """Add ``multi_selection``.

    :param register: given by the host
    """
    register(late("opendp_optimal_select.measure:make_multi_selection"))


@hookimpl
def opendp_optimal_register_commands(register: Callable[[Any], None]) -> None:
    """Add ``opendp-optimal select``.

    :param register: given by the host
    """
    from opendp_optimal_select.commands import select

    register(select)
