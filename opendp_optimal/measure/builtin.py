"""The built-in noise, as the plugin it is."""

from __future__ import annotations

from collections.abc import Callable

from opendp_optimal.hookspecs import hookimpl


@hookimpl
def opendp_optimal_register_mechanisms(register: Callable[..., None]) -> None:
    """Register ``optimal`` for the Context API."""
    from opendp_optimal.measure.context import make_optimal

    register(make_optimal, name="optimal")
