"""The one predictor-corrector loop: primal-dual path following on any Newton system.

Mehrotra's predictor and corrector, then one of Gondzio's centrality correctors. Every iterate is
strictly feasible for both problems, but for equations that a start may miss, so that stopping
early still yields a mechanism and a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError
from threadpoolctl import ThreadpoolController

Floats = NDArray[np.float64]
Progress = Callable[[str], None]

_LOW, _HIGH = 0.1, 10.0
"""Complementarity products are pulled into this part of their mean."""
_END = 1e-3
"""Relative gaps from which on steps that lead nowhere are put down to rounding."""
_BEYOND = 0.3
"""How far beyond a step the centrality corrector looks."""


@dataclass
class Iterate:
    """A primal-dual pair: parts that stay positive, two by two, and the prices of equations."""

    PAIRS: ClassVar[tuple[tuple[str, str], ...]]
    """Names of each primal part and of its dual one."""

    def primal(self) -> tuple[Floats, ...]:
        """Primal parts, in the order of :meth:`dual`."""
        return tuple(getattr(self, name) for name, _ in self.PAIRS)

    def dual(self) -> tuple[Floats, ...]:
        """Dual parts, in the order of :meth:`primal`."""
        return tuple(getattr(self, name) for _, name in self.PAIRS)

    def moved(self, step: Self, along_primal: float, along_dual: float) -> Self:
        """Some way along a step."""
        primal = {name for name, _ in self.PAIRS}
        out = {}
        for f in fields(self):
            along = along_primal if f.name in primal else along_dual
            out[f.name] = getattr(self, f.name) + along * getattr(step, f.name)
        return type(self)(**out)


X = TypeVar("X", bound=Iterate)


class NewtonSystem(Protocol[X]):
    """What the loop needs of a programme."""

    def factor(self, x: X) -> None:
        """Factor the Newton matrix at an iterate."""

    def direction(self, x: X, target: tuple[Floats, ...]) -> X:
        """The Newton step that changes the complementarity products by ``target``."""

    def value(self, x: X) -> float:
        """The primal value."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How boldly to go, and when to stop.

    :param to_boundary: part of the way to the boundary that a step takes
    :param centring: the least part of the mean product that is aimed at
    :param limit: steps, at most
    :param patience: steps without progress, at most
    :param progress: the gap must fall to this part of the best for a step to count as progress
    :param again: after two steps without progress, solve every Newton system a second time, for
        what rounding left missing (where starts meet all equations)
    """

    to_boundary: float
    centring: float
    limit: int
    patience: int
    progress: float
    again: bool = False


def _dot(left: tuple[Floats, ...], right: tuple[Floats, ...]) -> float:
    return float(sum(np.vdot(a, b) for a, b in zip(left, right, strict=True)))


def _reach(parts: tuple[Floats, ...], steps: tuple[Floats, ...]) -> float:
    """The largest multiple of the step, up to 1, that keeps every part non-negative."""
    worst = max(float((-d / x).max(initial=0.0)) for x, d in zip(parts, steps, strict=True))
    return min(1.0, 1 / worst) if worst > 0 else 1.0


def _direction(newton: NewtonSystem[X], x: X, target: tuple[Floats, ...], careful: bool) -> X:
    """The Newton step; a careful one is solved a second time, for what the first one misses.

    Near the end some parts have huge weights in the Newton matrix, and rounding spoils the step.
    """
    step = newton.direction(x, target)
    if not careful:
        return step
    parts = zip(target, x.primal(), x.dual(), step.primal(), step.dual(), strict=True)
    missing = tuple(wanted - a * db - b * da for wanted, a, b, da, db in parts)
    return step.moved(newton.direction(x, missing), 1.0, 1.0)


def _step(newton: NewtonSystem[X], x: X, pace: Pace, careful: bool) -> X:
    """One step of the method."""
    primal, dual = x.primal(), x.dual()
    products = _dot(primal, dual)
    mean = products / sum(part.size for part in primal)
    newton.factor(x)
    guess = _direction(newton, x, tuple(-a * b for a, b in zip(primal, dual, strict=True)), careful)
    along_p, along_d = _reach(primal, guess.primal()), _reach(dual, guess.dual())
    ahead = x.moved(guess, along_p, along_d)
    centring = (_dot(ahead.primal(), ahead.dual()) / products) ** 3
    aim = max(centring, pace.centring) * mean
    trust = along_p * along_d  # the corrector is only as good as the step it looks along
    corrected = tuple(
        aim - a * b - trust * da * db
        for a, b, da, db in zip(primal, dual, guess.primal(), guess.dual(), strict=True)
    )
    step = _direction(newton, x, corrected, careful)
    along_p, along_d = _reach(primal, step.primal()), _reach(dual, step.dual())
    # Look a little beyond the step and pull outlying products back towards the mean.
    ahead = x.moved(step, min(1.0, along_p + _BEYOND), min(1.0, along_d + _BEYOND))
    pulled = []
    for old, a, b in zip(corrected, ahead.primal(), ahead.dual(), strict=True):
        change = np.clip(a * b, _LOW * aim, _HIGH * aim) - a * b
        pulled.append(old + np.maximum(change, -_HIGH * aim))
    other = _direction(newton, x, tuple(pulled), careful)
    other_p, other_d = _reach(primal, other.primal()), _reach(dual, other.dual())
    if other_p + other_d > along_p + along_d:
        step, along_p, along_d = other, other_p, other_d
    return x.moved(step, pace.to_boundary * along_p, pace.to_boundary * along_d)


def follow(
    newton: NewtonSystem[X],
    x: X,
    tolerance: float,
    pace: Pace,
    progress: Progress | None = None,
) -> tuple[X, str, int]:
    """Take steps from a start until the gap is closed, or cannot be.

    :param newton: the programme and its Newton systems
    :param x: where to start, with all parts positive
    :param tolerance: relative duality gap at which to stop
    :param pace: how boldly to go
    :param progress: called with a line of text at every step
    :returns: the last iterate, a status ("optimal", "stalled", "breakdown" or "limit") and the
        number of steps
    """
    best, stalled, careful = np.inf, 0, False
    for iteration in range(pace.limit):
        relative = _dot(x.primal(), x.dual()) / max(abs(newton.value(x)), 1e-300)
        if relative < tolerance:
            return x, "optimal", iteration
        stalled = 0 if relative < pace.progress * best else stalled + 1
        best = min(best, relative)
        careful = careful or (pace.again and stalled > 1 and relative < _END)
        if stalled > pace.patience:
            return x, "stalled", iteration
        if progress is not None:
            progress(f"step {iteration}: gap {relative:.1e}")
        try:
            with np.errstate(all="ignore"):
                following = _step(newton, x, pace, careful)
        except (LinAlgError, ValueError):
            return x, "breakdown", iteration
        if not all(bool(np.all(part > 0)) for part in following.primal() + following.dual()):
            return x, "breakdown", iteration
        x = following
    return x, "limit", pace.limit


@cache
def _threads() -> ThreadpoolController:
    """Looking for the BLAS libraries takes longer than many a solve: do it once."""
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Within it, BLAS uses one thread: the matrices are small."""
    limited: AbstractContextManager[Any] = _threads().limit(limits=1, user_api="blas")
    return limited
