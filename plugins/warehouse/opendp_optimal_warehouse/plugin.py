"""The hooks of this plugin, named in the entry-point group ``opendp_optimal``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opendp_optimal import hookimpl


@hookimpl
def opendp_optimal_register_commands(register: Callable[[Any], None]) -> None:
    """Add ``opendp-optimal warehouse``.

    :param register: given by the host
    """
    from opendp_optimal_warehouse.commands import warehouse

    register(warehouse)
