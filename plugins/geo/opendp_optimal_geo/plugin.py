"""The hooks of this plugin, named in the entry-point group ``opendp_optimal``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opendp_optimal.hookspecs import hookimpl


@hookimpl
def opendp_optimal_register_mechanisms(register: Callable[..., None]) -> None:
    """Add ``grid_gaussian`` and ``grid_laplace``.

    :param register: given by the host
    """
    from opendp_optimal.measure.gaussian import make_grid_gaussian, make_grid_laplace

    register(make_grid_gaussian)
    register(make_grid_laplace)


@hookimpl
def opendp_optimal_register_commands(register: Callable[[Any], None]) -> None:
    """Add ``opendp-optimal geo``.

    :param register: given by the host
    """
    from opendp_optimal_geo.commands import geo

    register(geo)
