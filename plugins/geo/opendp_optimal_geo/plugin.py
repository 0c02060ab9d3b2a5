"""The hooks of this plugin, named in the entry-point group ``opendp_optimal``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opendp_optimal import hookimpl
from opendp_optimal.extend import late


@hookimpl
def opendp_optimal_register_mechanisms(register: Callable[..., None]) -> None:
    """Add ``distance_to_point``, ``signed_distance`` and ``projection``.

    :param register: given by the host
    """
    for name in ("distance_to_point", "signed_distance", "projection"):
        register(late(f"opendp_optimal_geo.transform:make_{name}"), name=name)


@hookimpl
def opendp_optimal_register_commands(register: Callable[[Any], None]) -> None:
    """Add ``opendp-optimal geo``.

    :param register: given by the host
    """
    from opendp_optimal_geo.commands import geo

    register(geo)
