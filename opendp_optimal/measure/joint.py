"""Several queries asked together: one release with noise in a norm of all their answers.

A change of the data moves answer i by at most D_i, all at once. Each answer is put on a grid of its
own with the same number of steps in D_i, exactly, in fractions. On the grids the answers together
are one vector of integers, and noise in a norm hides it: a box (linf) where every answer is a
number, the l2 norm, or Laplace noise on the l1 norm, whichever has the least expected loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from opendp.mod import UnknownTypeException

from opendp_optimal.arrays import Integers
from opendp_optimal.budget.events import Profile
from opendp_optimal.checks import positive
from opendp_optimal.errors import SolverError
from opendp_optimal.exact.numbers import exactly, exp_down, exp_up, float_down, float_up
from opendp_optimal.known import Geometric
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import make_measurement, require_features
from opendp_optimal.measure.facts import Facts, remember
from opendp_optimal.measure.noise import target_of
from opendp_optimal.measure.release import LARGEST
from opendp_optimal.measure.space import INTEGER_RANGES, Space, space_of
from opendp_optimal.problem.noise import MAX_EPSILON, MIN_DELTA, MIN_EPSILON
from opendp_optimal.sample.integers import laplace_integers
from opendp_optimal.search.radial import solve_radial
from opendp_optimal.table.radial import RadialTable

__all__ = ["joint", "make_joint"]

_STEPS = 1 << 27
"""Grid steps in the largest move of each answer, at least."""
_LARGEST_EPSILON = 60.0


@dataclass(frozen=True)
class _Part:
    """One answer: its space, its length (0 where it is not fixed) and how far it moves."""

    space: Space
    size: int
    distance: Fraction

    @property
    def square(self) -> int:
        """The square of its largest move in the l2 norm, in units of its distance."""
        return self.size if self.space.norm == "linf" else 1

    @property
    def total(self) -> Fraction:
        """Its largest move in the l1 norm, in units of its distance, rounded up."""
        if self.space.norm == "linf":
            return Fraction(self.size)
        root = Fraction(math.isqrt(self.size << 80) + 1, 1 << 40)
        return root if self.space.norm == "l2" else Fraction(1)


@dataclass(frozen=True)
class JointGuarantee:
    """What a joint release is and costs.

    :param parts: the answers
    :param steps: of each answer's grid in its largest move
    :param reach: how far all answers together move, in the norm of the noise, in grid steps
    :param epsilon: privacy loss at the distance of the design
    :param delta: probability of a larger loss there
    :param d_in: the distance of the design
    :param chosen: which noise won
    :param expected_losses: the mean square of each answer's error, over the square of its move
    """

    parts: tuple[_Part, ...]
    steps: int
    reach: int
    epsilon: float
    delta: float
    d_in: Any
    chosen: str
    expected_losses: tuple[float, ...]
    table: RadialTable | None
    rate: float

    @property
    def size(self) -> int:
        """Numbers in all answers together."""
        return sum(part.size for part in self.parts)

    def draw(self) -> Integers:
        """The noise of one release, in grid steps."""
        if self.table is None:
            return laplace_integers(self.rate, self.size)
        drawn: Integers = self.table.draw(1, self.reach)[0]
        return drawn

    def group(self, times: int) -> tuple[float, float]:
        """What a change of so many times the designed distance costs."""
        if times <= 1:
            return (self.epsilon, self.delta) if times else (0.0, 0.0)
        epsilon = float_up(times * Fraction(self.epsilon))
        if self.delta == 0 or epsilon > _LARGEST_EPSILON:
            return epsilon, 1.0 if self.delta else 0.0
        one = Fraction(self.epsilon)
        spread = (exp_up(times * one) - 1) / (exp_down(one) - 1)
        return epsilon, min(1.0, float_up(Fraction(self.delta) * spread))


def make_joint(
    transformations: Sequence[dp.Transformation],
    d_in: Any,
    d_out: float | tuple[float, float],
    *,
    weights: Sequence[float] | None = None,
    cache: bool = True,
) -> dp.Measurement:
    """Make one measurement that answers several queries at once, with noise for all of them.

    The sum of squared errors is minimised, each in units of how far its answer can move. The
    release is the list of answers, in the order of the queries, and costs ``d_out`` once.

    :param transformations: from one input space to numbers (absolute distance) or to vectors (l1,
        l2 or linf distance); where lengths are not fixed, the noise is designed when they are seen
    :param d_in: the largest distance between neighbours
    :param d_out: an epsilon, or ``(epsilon, delta)``
    :param weights: what the squared error of each query counts; all the same by default
    :param cache: whether tables are kept on disk
    :raises ValueError: naming what does not fit

    >>> import opendp.prelude as dp
    >>> from opendp_optimal import make_joint
    >>> dp.enable_features("contrib")
    >>> space = dp.vector_domain(dp.atom_domain(bounds=(0, 9))), dp.symmetric_distance()
    >>> queries = [space >> dp.t.then_sum(), space >> dp.t.then_count()]
    >>> meas = make_joint(queries, 1, (1.0, 1e-6))
    >>> meas.map(1), len(meas([3, 4, 5]))
    ((1.0, 1e-06), 2)
    """
    require_features("contrib")
    steps = list(transformations)
    if not steps or not all(isinstance(step, dp.Transformation) for step in steps):
        raise ValueError("transformations must be one transformation or more")
    first = steps[0]
    for step in steps[1:]:
        same = str(step.input_domain) == str(first.input_domain)
        if not same or str(step.input_metric) != str(first.input_metric):
            raise ValueError("transformations must start from the same domain and metric")
    epsilon, delta = target_of(d_out)
    if epsilon < MIN_EPSILON:
        raise ValueError(f"d_out: epsilon ({epsilon!r}) must be at least {MIN_EPSILON}")
    parts = tuple(_part(step, d_in, i) for i, step in enumerate(steps))
    weighed = [1.0] * len(parts) if weights is None else [positive("weights", w) for w in weights]
    if len(weighed) != len(parts):
        raise ValueError(f"weights ({weights!r}) must have one number for each query")

    @lru_cache(maxsize=64)
    def designed(sizes: tuple[int, ...]) -> JointGuarantee:
        known = tuple(replace(p, size=n) for p, n in zip(parts, sizes, strict=True))
        return _best(known, epsilon, delta, d_in, weighed, cache)

    fixed = all(part.size for part in parts)
    guarantee = designed(tuple(part.size or 1 for part in parts))
    distances = [part.distance for part in parts]

    def pair(d: Any) -> tuple[float, float]:
        moved = [exactly(step.map(d)) for step in steps]
        times = [math.ceil(m / most) for m, most in zip(moved, distances, strict=True)]
        return guarantee.group(max(times))

    approximate = isinstance(d_out, tuple)
    measure = dp.approximate(dp.max_divergence()) if approximate else dp.max_divergence()

    def release(data: Any) -> list[Any]:
        answers = [step(data) for step in steps]
        sizes = [p.size or max(1, len(a)) for p, a in zip(parts, answers, strict=True)]
        chosen = designed(tuple(sizes))
        noise = chosen.draw()
        out, at = [], 0
        for part, answer, size in zip(parts, answers, sizes, strict=True):
            here = noise[at : at + size].tolist()
            at += size
            noisy = _noisy(part, chosen.steps, answer, here)
            out.append(noisy if part.size else noisy[: len(answer)])
        return out

    made = make_measurement(
        first.input_domain,
        first.input_metric,
        measure,
        release,
        pair if approximate else lambda d: pair(d)[0],
        TO="ExtrinsicObject",
    )
    made.guarantee = guarantee if fixed else None
    made.table = guarantee.table if fixed else None

    def event(d: Any) -> Profile:
        stated = pair(d_in if d is None else d)
        table = guarantee.table if fixed and stated == (epsilon, delta) else None
        if table is not None:  # the noise hides every move of the design
            return Profile(*stated, guarantee, d, table.delta_at, 1 << 14)
        return Profile(*stated, guarantee, d, lambda e: stated[1] if e >= stated[0] else 1.0, 1)

    # Without a record a ledger takes every release for a new question.
    return remember(made, Facts(None, None, event))


def _part(step: dp.Transformation, d_in: Any, number: int) -> _Part:
    try:
        space = space_of(*step.output_space)
    except ValueError as error:
        raise ValueError(f"transformations[{number}]: {error}") from None
    try:
        distance = exactly(step.map(d_in))
    except (dp.OpenDPException, UnknownTypeException, TypeError) as error:
        raise ValueError(f"d_in ({d_in!r}) must be a distance of {step.input_metric}") from error
    if distance <= 0:
        raise ValueError(f"d_in ({d_in!r}) does not move the answer of transformations[{number}]")
    return _Part(space, (space.size or 0) if space.vector else 1, distance)


def _best(
    parts: tuple[_Part, ...],
    epsilon: float,
    delta: float,
    d_in: Any,
    weights: list[float],
    cache: bool,
) -> JointGuarantee:
    """The noise of least weighed loss."""
    size = sum(part.size for part in parts)
    found = [_laplace(parts, epsilon, delta, d_in)]
    norms = ["l2"]
    if all(part.size == 1 or part.space.norm == "linf" for part in parts):
        norms.append("linf")
    bounded, small = min(epsilon, MAX_EPSILON), delta if delta >= MIN_DELTA else 0.0
    for norm in norms:
        try:
            table = solve_radial(bounded, small, size, norm=norm, loss="l2", cache=cache)
        except (SolverError, ValueError):
            continue
        lattice = getattr(table.law, "step", 1)
        steps = max(_STEPS, table.least_grid, lattice << 16)
        square = sum(part.square for part in parts) if norm == "l2" else 1
        # Rounding to the grid moves each number by up to a step more.
        moved = math.isqrt(steps * steps * square) + 1 + math.isqrt(size) + 1
        reach = -(-moved // lattice) * lattice
        each = table.upper * (reach / steps) ** 2 / size
        found.append(
            JointGuarantee(
                parts,
                steps,
                reach,
                epsilon,
                delta,
                d_in,
                f"{table.shape} in the {norm} norm",
                tuple(each * part.size for part in parts),
                table,
                0.0,
            )
        )

    def weighed(guarantee: JointGuarantee) -> float:
        return sum(w * e for w, e in zip(weights, guarantee.expected_losses, strict=True))

    return min(found, key=weighed)


def _laplace(parts: tuple[_Part, ...], epsilon: float, delta: float, d_in: Any) -> JointGuarantee:
    size = sum(part.size for part in parts)
    total = sum((part.total for part in parts), Fraction(0))
    steps = 1 << max(12, math.ceil(math.log2(2.0**24 * epsilon / total)))
    reach = math.ceil(steps * total) + size
    rate = float_down(Fraction(epsilon) / reach)
    square = Geometric(rate).moment(2) / steps**2
    losses = tuple(square * part.size for part in parts)
    name = "Laplace noise"
    return JointGuarantee(parts, steps, reach, epsilon, delta, d_in, name, losses, None, rate)


def _noisy(part: _Part, steps: int, answer: Any, noise: list[int]) -> Any:
    """An answer with noise, in its own type: on the grid, exactly, and rounded once."""
    values = list(answer) if part.space.vector else [answer]
    values = (values + [0] * len(noise))[: len(noise)]
    unit = part.distance / steps
    out = [_one(part.space, unit, v, n) for v, n in zip(values, noise, strict=True)]
    return out if part.space.vector else out[0]


def _one(space: Space, unit: Fraction, value: Any, noise: int) -> Any:
    if space.integer:
        low, high = INTEGER_RANGES[space.carrier]
        return min(max(round((round(int(value) / unit) + noise) * unit), low), high)
    largest = LARGEST[space.carrier]
    plain = 0.0 if value != value else min(max(float(value), -largest), largest)
    total = (round(Fraction(plain) / unit) + noise) * unit
    near = largest if abs(total) >= Fraction(largest) else float(abs(total))
    near = near if total >= 0 else -near
    return float(np.float32(near)) if space.carrier == "f32" else near


def joint(*queries: dp.Query, weights: Sequence[float] | None = None) -> dp.Query:
    """Ask several queries of a context at once, for the budget of one.

    All of them must be begun by ``context.query(...)`` of one context with the same budget, and
    must not have their noise yet. ``release()`` gives the list of answers and pays once.

    :param queries: that end in a number or in a vector
    :param weights: as for :func:`make_joint`

    >>> import opendp.prelude as dp
    >>> import opendp_optimal
    >>> dp.enable_features("contrib")
    >>> context = dp.Context.compositor(
    ...     data=[3, 4, 5], privacy_unit=dp.unit_of(contributions=1),
    ...     privacy_loss=dp.loss_of(epsilon=1.0), split_evenly_over=1)
    >>> query = context.query().clamp((0, 9))
    >>> len(opendp_optimal.joint(query.sum(), query.count()).release())
    2
    """
    if not queries or not all(isinstance(query, dp.Query) for query in queries):
        raise ValueError("queries must be one query of a context or more")
    first = queries[0]
    for query in queries:
        if query._context is not first._context or query._d_out != first._d_out:
            raise ValueError("queries must be of one context, with the same budget")
        if not isinstance(query._chain, dp.Transformation):
            raise ValueError("queries must end in a number or a vector, without noise")
    if first._d_in is None or first._d_out is None:
        raise ValueError("queries must have a budget: begin them by context.query(...)")
    kind = str(first._output_measure.type)
    if kind not in ("MaxDivergence", "Approximate<MaxDivergence>"):
        raise ValueError(f"the context's measure ({kind}) must be pure or approximate")
    chains = [chain for query in queries if isinstance(chain := query._chain, dp.Transformation)]
    measurement = make_joint(chains, first._d_in, first._d_out, weights=weights)
    return dp.Query(
        chain=measurement,
        output_measure=first._output_measure,
        d_in=first._d_in,
        d_out=first._d_out,
        context=first._context,
    )
