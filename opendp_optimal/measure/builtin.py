"""The built-in noise, as the plugin it is."""

from __future__ import annotations

from collections.abc import Callable

from opendp_optimal.hookspecs import hookimpl


@hookimpl
def opendp_optimal_register_mechanisms(register: Callable[..., None]) -> None:
    """Register ``optimal`` and ``optimal_bounded`` for the Context API."""
    from opendp_optimal.measure.bounded import make_optimal_bounded
    from opendp_optimal.measure.waiting import make_optimal

    register(make_optimal, name="optimal")
    register(make_optimal_bounded, name="optimal_bounded")
