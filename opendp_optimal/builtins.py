"""What comes with the package, by the same hooks as any plugin: one visible list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opendp_optimal.hookspecs import hookimpl
from opendp_optimal.lazy import late

MECHANISMS = {
    "optimal": "opendp_optimal.measure.noise:make_optimal",
    "optimal_bounded": "opendp_optimal.measure.bounded:make_optimal_bounded",
    "exact_gaussian": "opendp_optimal.measure.gaussian:make_waiting_gaussian",
    "optimal_mean": "opendp_optimal.measure.mean:make_mean",
    "optimal_means": "opendp_optimal.measure.mean:make_means",
    "optimal_moments": "opendp_optimal.measure.mean:make_moments",
    "optimal_quantiles": "opendp_optimal.measure.quantiles:make_quantiles",
    "optimal_threshold": "opendp_optimal.measure.keys:make_threshold",
    "grid_gaussian": "opendp_optimal.measure.gaussian:make_grid_gaussian",
    "grid_laplace": "opendp_optimal.measure.gaussian:make_grid_laplace",
    "frame_count": "opendp_optimal.measure.frames.aggregates:make_frame_count",
    "frame_sum": "opendp_optimal.measure.frames.aggregates:make_frame_sum",
    "frame_histogram": "opendp_optimal.measure.frames.aggregates:make_frame_histogram",
}
LOSSES = {
    "l1": "opendp_optimal.losses.l1:L1",
    "l2": "opendp_optimal.losses.l2:L2",
    "pinball:": "opendp_optimal.losses.pinball:pinball",
}
COMMANDS = (
    *("advise", "budget", "cache", "compare", "demo", "keys"),
    *("plugins", "show", "solve", "verify", "warm"),
)
"""Each is a module of ``cli`` and the command in it."""


@hookimpl
def opendp_optimal_register_mechanisms(register: Callable[..., None]) -> None:
    """Add noise and transformations to the Context API."""
    for name, place in MECHANISMS.items():
        register(late(place), name=name)


@hookimpl
def opendp_optimal_register_losses(register: Callable[..., None]) -> None:
    """Add the losses that are known by their names."""
    for name, place in LOSSES.items():
        register(late(place), name=name)


@hookimpl
def opendp_optimal_register_commands(register: Callable[[Any], None]) -> None:
    """Add the commands of the core distribution."""
    for name in COMMANDS:
        register(late(f"opendp_optimal.cli.{name}:{name}").found)


@hookimpl
def opendp_optimal_register_candidates(register: Callable[..., None]) -> None:
    """Propose additive noise, and noise that depends on the answer."""
    from opendp_optimal.advisor.additive import additive_candidates
    from opendp_optimal.advisor.bounded import data_dependent

    register(additive_candidates, name="additive")
    register(data_dependent)
