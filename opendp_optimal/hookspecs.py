"""Every hook a plugin may implement, in one place.

A plugin is a module or object named in the entry-point group ``opendp_optimal``
of an installed distribution. Each hook receives a ``register`` callable: the host
owns storage and validation, and names the owner of whatever goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pluggy

PROJECT = "opendp_optimal"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def opendp_optimal_register_mechanisms(register: Callable[..., None]) -> None:
    """Add measurement constructors: ``register(make_function, *, name=None)``.

    ``make_function`` is called ``make_<name>`` and takes ``(input_domain, input_metric, ...)``.
    """


@hookspec
def opendp_optimal_register_losses(register: Callable[..., None]) -> None:
    """Add named losses, usable as ``loss="<name>"``: ``register(loss)`` with a ``Loss``.

    ``register(make, name="<name>")`` adds one that ``make()`` makes when it is asked for, and
    ``register(make, name="<name>:")`` a family: ``loss="<name>:<text>"`` is ``make("<text>")``.
    """


@hookspec
def opendp_optimal_register_tables(register: Callable[..., None]) -> None:
    """Add folders of precomputed tables: ``register(directory)``.

    ``directory`` is a path or an ``importlib.resources`` traversable holding table files.
    """


@hookspec
def opendp_optimal_register_commands(register: Callable[[Any], None]) -> None:
    """Add commands to ``opendp-optimal``: ``register(command)`` with a ``click.Command``."""


@hookspec
def opendp_optimal_register_candidates(register: Callable[..., None]) -> None:
    """Add candidates to ``opendp_optimal.advise``: ``register(propose, *, name=None)``.

    ``propose`` takes an ``opendp_optimal.extend.Request`` and yields ``Candidate``, ``Bound`` and
    ``Remark`` objects: mechanisms that satisfy it with their expected losses, proved lower bounds,
    and what could not be compared. It yields nothing where it has nothing to offer, and is asked
    for single numbers under epsilon and delta only.
    """
