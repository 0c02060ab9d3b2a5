"""Solvers: a programme in, floats out, all of them in one table. Nothing they say is trusted.

The only place that imports highspy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from opendp_optimal.arrays import Progress
from opendp_optimal.errors import SolverError
from opendp_optimal.model.channel import ChannelProgram, ChannelSolution, on_a_line
from opendp_optimal.model.noise import LatticeProgram, LatticeSolution
from opendp_optimal.model.pair import PairProgram, PairSolution
from opendp_optimal.model.work import Work

Check = Callable[[Any], bool]

_SMALL_LATTICE = 20_000
"""Up to so many terms HiGHS is a good second where the interior-point method finds no start."""
_SMALL_CHANNEL = 400
"""Weights up to which HiGHS, which finds vertices, is as fast on a line."""
_LEAST_COST, _MOST_COST = 1e-6, 1e15
"""Costs of lattice programmes that are solved as they are; others are scaled."""
_PENALTIES = (1e2, 1e4)
"""What raising the caps costs, in units of the largest cost: first, and where caps are raised."""
_RAISED = 1e-6


def _always(_: Any) -> bool:
    return True


def _never(_: Any) -> bool:
    return False


def _plain(program: LatticeProgram) -> bool:
    return not program.monotone and program.tail_budget is None


def _within(gap: float) -> Check:
    """Whether a solution is optimal, or ends with a duality gap of at most so much."""
    return lambda s: s.status == "optimal" or abs(s.primal - s.dual) <= gap * abs(s.primal)


@dataclass(frozen=True)
class Solver:
    """One row of the table.

    :param kind: of programme: "noise" (a ``LatticeProgram``), "channel" or "pair"
    :param method: what it is asked for by
    :param place: module and function, which takes a programme, and by keyword the options it knows
    :param serves: whether it can solve a programme
    :param when: the same in words
    :param suits: whether "auto" tries it on a programme that it serves
    :param settles: whether "auto" is content with its answer, or goes on to the next row
    """

    kind: str
    method: str
    place: str
    serves: Check = _always
    when: str = "always"
    suits: Check = _always
    settles: Check = _always


SOLVERS = (
    Solver("noise", "interior", "noise_interior:solve_interior"),
    Solver(
        *("noise", "highs", "noise_highs:solve_highs"),
        suits=lambda program: len(program.shifts) * program.points <= _SMALL_LATTICE,
    ),
    Solver(
        *("noise", "cutting-planes", "noise_cuts:solve_events"),
        serves=_plain,
        when="for noise that is neither monotone nor bounded in what is impossible",
        suits=_never,
    ),
    Solver(
        *("noise", "partition-cuts", "partition_cuts:solve_lattice"),
        serves=_plain,
        when="for noise that is neither monotone nor bounded in what is impossible",
        suits=_never,
    ),
    Solver(
        *("channel", "interior", "channel_interior:solve_interior"),
        serves=lambda program: program.delta > 0,
        when="with a positive delta",
        settles=_within(1e-2),
    ),
    Solver(
        *("channel", "interior", "channel_line:solve_line"),
        serves=on_a_line,
        when="for inputs on a line",
        suits=lambda program: program.cost.size >= _SMALL_CHANNEL,
        settles=_within(1e-6),
    ),
    Solver("channel", "highs", "channel_highs:solve_highs"),
    Solver("pair", "interior", "pair_interior:solve_pairs"),
)
"""In the order in which "auto" tries them."""


def run_noise(
    program: LatticeProgram,
    *,
    method: str,
    outward_only: bool,
    gap: float,
    work: Work | None = None,
) -> LatticeSolution:
    """Solve a lattice programme, with costs of any size.

    :param program: what to solve
    :param method: one of the table's, or "auto"
    :param outward_only: leave out terms that cannot bind for noise that falls outwards
    :param gap: the relative gap that is wanted in the end
    :param work: what may be done, no limit if None
    """
    options = {"outward_only": outward_only, "tolerance": min(5e-3, gap / 20), "work": work}
    largest = float(np.abs(program.cost).max())
    usual = largest == 0 or _LEAST_COST <= largest <= _MOST_COST
    unit = 1.0 if usual else 2.0 ** math.frexp(largest)[1]
    scaled = replace(program, cost=program.cost / unit, atom_cost=program.atom_cost / unit)
    found: LatticeSolution = _first("noise", scaled, method, options)
    return replace(
        found,
        budget_price=found.budget_price * unit,
        slack_price=found.slack_price * unit,
        order_price=found.order_price * unit,
        tail_price=found.tail_price * unit,
        primal=found.primal * unit,
        dual=found.dual * unit,
    )


def run_channel(
    program: ChannelProgram,
    *,
    method: str = "auto",
    tolerance: float = 1e-5,
    progress: Progress | None = None,
    work: Work | None = None,
) -> ChannelSolution:
    """Solve a channel programme.

    :param program: what to solve
    :param method: one of the table's, or "auto"
    :param tolerance: relative duality gap at which the interior-point method stops
    :param progress: called with a line of text at every step
    :param work: what may be done, no limit if None
    """
    # Rows add up to one, so that taking a constant from a row's costs changes nothing else; and
    # costs are to be of order one, whatever the prior and the units.
    least = program.cost.min(axis=1, keepdims=True)
    cost = program.cost - least
    unit = float(cost.max()) or 1.0
    lifted = replace(program, cost=cost / unit, caps=program.caps / unit, cap=program.cap / unit)
    options = {"tolerance": tolerance, "progress": progress, "work": work}
    found: ChannelSolution
    for penalty in _PENALTIES:
        found = _first("channel", lifted, method, {**options, "penalty": penalty})
        if found.excess * unit <= _RAISED * max(program.cap, 1e-300):
            break
    base = float(least.sum())
    return replace(
        found,
        budget_price=found.budget_price * unit,
        slack_price=found.slack_price * unit,
        primal=found.primal * unit + base,
        dual=found.dual * unit + base,
        excess=found.excess * unit,
    )


def run_pair(program: PairProgram, *, outward_only: bool, gap: float) -> PairSolution:
    """Solve a programme of pairs.

    :param program: what to solve
    :param outward_only: leave out terms that cannot bind for noise that falls outwards
    :param gap: the relative gap that is wanted in the end
    """
    options = {"outward_only": outward_only, "tolerance": min(1e-3, gap / 50)}
    found: PairSolution = _first("pair", program, "auto", options)
    return found


@cache
def _threads() -> ThreadpoolController:
    """Looking for the BLAS libraries takes longer than many a solve: do it once."""
    return ThreadpoolController()


def _first(kind: str, program: Any, method: str, options: dict[str, Any]) -> Any:
    """The answer of the first solver that is asked for, serves, and settles the matter."""
    asked = [s for s in SOLVERS if s.kind == kind and method in ("auto", s.method)]
    when = " or ".join(s.when for s in asked)
    failure: SolverError | None = SolverError(f"the method {method!r} serves only {when}")
    for solver in asked:
        if not solver.serves(program) or (method == "auto" and not solver.suits(program)):
            continue
        failure = None
        module, _, name = solver.place.partition(":")
        function = getattr(import_module(f"{__name__}.{module}"), name)
        known = signature(function).parameters
        try:
            # Matrices are small: one thread is faster than several.
            with _threads().limit(limits=1, user_api="blas"):
                found = function(program, **{k: v for k, v in options.items() if k in known})
        except SolverError as error:
            failure = error
            continue
        if solver.settles(found):
            break
    if failure is not None:
        raise failure
    return found
