"""The hooks: what this distribution adds to opendp-optimal.

Each hook receives a ``register`` function and calls it once for everything it adds. Imports that
are only needed for one hook belong inside it, so that the others stay quick; ``late`` names a
function without importing it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from opendp_optimal import hookimpl
from opendp_optimal.extend import late


@hookimpl
def opendp_optimal_register_mechanisms(register: Callable[..., None]) -> None:
    """Add ``sized_mean`` to the Context API."""
    register(late("opendp_optimal_example.mean:make_sized_mean"))


@hookimpl
def opendp_optimal_register_losses(register: Callable[..., None]) -> None:
    """Add the loss "huber"."""
    from opendp_optimal_example.huber import HUBER

    register(HUBER)


@hookimpl
def opendp_optimal_register_tables(register: Callable[..., None]) -> None:
    """Add the tables that ship in this package."""
    register(files("opendp_optimal_example") / "tables")


@hookimpl
def opendp_optimal_register_commands(register: Callable[[Any], None]) -> None:
    """Add the command ``opendp-optimal quote``."""
    from opendp_optimal_example.quote import quote

    register(quote)
