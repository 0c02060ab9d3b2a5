"""The built-in commands and the advisor's candidates, as the plugin they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opendp_optimal.hookspecs import hookimpl


@hookimpl
def opendp_optimal_register_commands(register: Callable[[Any], None]) -> None:
    """Register the commands of the core distribution."""
    from opendp_optimal.cli.advise import advise
    from opendp_optimal.cli.cache import cache
    from opendp_optimal.cli.compare import compare
    from opendp_optimal.cli.demo import demo
    from opendp_optimal.cli.plugins import plugins
    from opendp_optimal.cli.show import show
    from opendp_optimal.cli.solve import solve
    from opendp_optimal.cli.verify import verify
    from opendp_optimal.cli.warm import warm

    for command in (advise, cache, compare, demo, plugins, show, solve, verify, warm):
        register(command)


@hookimpl
def opendp_optimal_register_candidates(register: Callable[..., None]) -> None:
    """Propose additive noise, and noise that depends on the answer."""
    from opendp_optimal.advisor.additive import additive, data_dependent

    register(additive)
    register(data_dependent)
