"""From a privacy target to certified noise for vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction

import numpy as np

from opendp_optimal.certify.decay import LEAST_GRID, Decay, decay_delta_up
from opendp_optimal.certify.radial import Staircase
from opendp_optimal.certify.radial_bound import MOST_COORDINATES, RadialPrices
from opendp_optimal.certify.radial_smooth import SmoothPrices
from opendp_optimal.certify.steps import Steps, steps_delta_up
from opendp_optimal.errors import CertificateError, SolverError
from opendp_optimal.exact.numbers import float_down
from opendp_optimal.known.gaussian import gaussian_sigma
from opendp_optimal.known.radial import best_decay, best_staircase, decay_delta, near_density
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.problem.radial import RadialProblem
from opendp_optimal.round.radial import (
    rounded_course,
    rounded_prices,
    rounded_staircase,
    rounded_steps,
)
from opendp_optimal.sample.balls import LONGEST
from opendp_optimal.table import store as tables
from opendp_optimal.table.radial import RadialTable

_LATTICE = 1 << 10
"""Lattice units in the first step of a staircase, at least."""
_FINEST = 1 << 26
"""Lattice units in a sensitivity, at most."""
_STEPLESS = 0.02
"""Below this epsilon a staircase is hardly better than a decay, and long."""
_BOXLESS = 0.005
"""Where coordinates weigh differently it is better, but takes seconds to prove below this."""
_LIGHTEST = 1e-9
"""Coordinates that weigh less, beside the heaviest, gain nothing by that."""
_SCALE = 1 << 26
"""Grid steps over which a decay falls by a factor e, at least."""
_STEP = 1 << 20
"""Lattice units in a sensitivity, for steps."""
_UNUSED = 1 - 2.0**-36
"""Of epsilon, so that rounding steps does not spend delta."""
_MOST_STEPPED = 256
"""Longer vectors are hardly better served by steps than by a decay."""
_ATTEMPTS = 8
_LOOSE = 0.05
"""A bound from one event that is farther away is sought again."""
_MANY = 128
"""For longer vectors an event is sought by the likelihoods of decays first."""
_TIGHT = 2e-3
"""A bound that is closer to them is not sought again in another way."""
_TURNS = (16, 12, 20)
"""How many values a curve has that is sought for it."""
_FARTHEST = 180.0
"""For noise that is longer on average, in sensitivities, the event of a bound is sought without
corners: it would have too many knots, the more so for long vectors."""


def solve_radial(
    epsilon: float,
    delta: float,
    size: int,
    *,
    norm: str = "l2",
    loss: str | Loss = "l2",
    integer_sensitivity: int | None = None,
    weights: Sequence[float] | None = None,
    bound: bool = True,
    cache: bool = True,
    compute: bool = True,
) -> RadialTable:
    """The noise for vectors, falling with a norm, of least expected loss that was found.

    Neighbours are at most a sensitivity of 1 apart in the norm. Pure noise is a staircase in the
    norm; under l2 with a delta it may be exp(-c r - k r^2) in the length r, which has spherical
    Laplace noise and Gaussian noise as its ends, or fall in steps that a linear programme chose.
    Where coordinates weigh differently under linf, those that weigh less have larger noise.
    Under l2, for the squared error, ``table.lower`` is a bound below that of every additive noise;
    elsewhere it is 0.

    :param epsilon: privacy parameter; the guarantee holds for exactly this float
    :param delta: privacy parameter; 0 gives pure noise
    :param size: length of the vectors
    :param norm: "l1", "l2" or "linf"
    :param loss: "l1" or "l2": the sum over coordinates counts
    :param integer_sensitivity: n for integers that move by up to n each (linf)
    :param weights: what the loss of each coordinate counts (linf); all the same by default
    :param bound: False if ``table.lower`` is not needed, which saves a second or two
    :param cache: look for the table on disk first, and keep it there
    :param compute: False to take only what is stored; a ``LookupError`` says that there is none

    >>> table = solve_radial(1.0, 1e-6, 10)
    >>> round(table.upper, 1), table.shape, table.gap < 5e-3
    (92.0, 'decay', True)
    >>> table.verify()
    """
    problem = RadialProblem(
        epsilon=epsilon,
        delta=delta,
        size=size,
        norm=norm,
        loss=loss_of(loss),
        integer_sensitivity=integer_sensitivity,
        weights=None if weights is None else tuple(weights),
    )
    stored: RadialTable | None = tables.load(problem, math.inf) if cache or not compute else None
    if stored is not None and (_has_bound(stored) or not bound or not compute):
        return stored
    if not compute:
        raise LookupError(f"no table is stored for {problem.describe()}")
    best = _best(problem) if stored is None else stored
    table = _bounded(best) if bound else best
    if cache and table is not stored:
        tables.keep(table)
    return table


def even_weights(weights: Sequence[float]) -> tuple[float, ...] | None:
    """Weights of coordinates as parts of the heaviest, in few digits; None where all are the same.

    Tables for weights that hardly differ are the same table.

    :param weights: at least 0, not all 0

    >>> even_weights([2.0, 1.0, 2.0]), even_weights([0.3, 0.3])
    ((1.0, 0.5, 1.0), None)
    """
    most = max(weights)
    parts = tuple(float(f"{max(weight / most, _LIGHTEST):.4g}") for weight in weights)
    return None if set(parts) == {1.0} else parts


def _has_bound(table: RadialTable) -> bool:
    """Whether a table has a bound, and beside a staircase a close one, from two events."""
    prices = table.prices
    alone = isinstance(prices, RadialPrices) and prices.further is None
    loose = alone and not isinstance(table.law, Decay) and table.gap > _LOOSE
    return prices is not None and not loose


def _best(problem: RadialProblem) -> RadialTable:
    """The table of least loss."""
    ways = [_decay]
    if RadialTable.can_draw(problem.norm, problem.size):
        ways += [_staircase, _pure_decay, _steps]
    found = [table for make in ways if (table := make(problem))]
    if not found:
        raise SolverError(f"no certified table at {problem.describe()}: the vectors are too long")
    return min(found, key=lambda table: table.upper)


def _proved(problem: RadialProblem, law: Staircase | Steps | Decay) -> RadialTable | None:
    try:
        return RadialTable.proved(problem, law)
    except CertificateError:
        return None


def _bounded(table: RadialTable) -> RadialTable:
    """The same table with a bound below every additive noise, where one is found."""
    problem = table.problem
    if not problem.has_bound:
        return table
    size = min(problem.size, MOST_COORDINATES)
    decay = None
    if size > _MANY and problem.delta > 0:
        decay = best_decay(problem.epsilon, problem.delta, size, 2)
    found = [table]
    for prices in _prices(table, size, decay):
        with suppress(CertificateError):
            found.append(RadialTable.proved(problem, table.law, prices))
        if decay and found[-1].lower * size > (1 - _TIGHT) * decay[0] * problem.size:
            break
    return max(found, key=lambda table: table.lower)


def _prices(
    table: RadialTable, size: int, decay: tuple[float, float, float] | None
) -> Iterator[RadialPrices | SmoothPrices]:
    """What may prove a bound.

    :param table: that it is for
    :param size: of the vectors that it is about, which may be shorter
    :param decay: for many coordinates, loss and rates of noise that is all but the best
    """
    # Loaded only when needed.
    from opendp_optimal.solvers.radial_prices import radial_prices
    from opendp_optimal.solvers.radial_ratio import ratio_prices
    from opendp_optimal.solvers.radial_smooth import smooth_prices

    problem, law = table.problem, table.law
    epsilon, delta = problem.epsilon, problem.delta
    shorter = size if size < problem.size else 0
    upper = table.upper * size / problem.size
    if decay:
        for turns in _TURNS:
            course = ratio_prices(size, epsilon, delta, *decay, turns=turns)
            if course is not None:
                yield rounded_course(*course, shorter)
    asked = size, epsilon, delta, upper
    if shorter or math.sqrt(upper) > _FARTHEST / (1 + size / 100):
        yield rounded_course(*smooth_prices(*asked), shorter)
        return
    firsts: list[float | None] = [None]
    if not isinstance(law, Decay):
        firsts.insert(0, best_staircase(problem.epsilon, problem.size, 2)[1])
    for first in firsts:
        prices = None
        for event in reversed(radial_prices(*asked, first) or []):
            prices = rounded_prices(*event, prices)
        if prices is not None:
            yield prices


def _staircase(problem: RadialProblem) -> RadialTable | None:
    """The staircase with the best first step, and with the best boxes."""
    whole = problem.integer_sensitivity
    least = _STEPLESS if len(problem.runs) == 1 else _BOXLESS
    if problem.epsilon < least and whole is None:
        return None
    _, gamma = best_staircase(problem.epsilon, problem.size, problem.power)
    if whole is None:
        step = min(_FINEST, _LATTICE << max(0, math.ceil(-math.log2(gamma))))
        tried = [(max(1, round(gamma * step)), ())]
    else:
        step, near = 2 * whole, math.floor(gamma * whole)
        firsts = {2 * min(max(t, 0), whole - 1) + 1 for t in (near - 1, near, near + 1, 0)}
        tried = [(first, ()) for first in sorted(firsts)]
    found = []
    for first, offsets in [*tried, *_boxes(problem, step)]:
        try:
            law = rounded_staircase(problem.epsilon, problem.size, first, step, offsets)
        except CertificateError:
            continue
        found.append(_proved(problem, law))
    return min((t for t in found if t), key=lambda table: table.upper, default=None)


def _boxes(problem: RadialProblem, step: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """First radii and offsets, where coordinates weigh differently."""
    if len(problem.runs) == 1 or problem.weights is None:
        return
    from opendp_optimal.solvers.radial_boxes import best_halves  # loaded only when needed

    halves = best_halves(problem.epsilon, problem.runs, problem.power)
    near = halves - max(0, math.ceil(halves.min()) - 1)  # box 0 is the first of all
    whole = problem.integer_sensitivity
    if whole is None:
        found = [np.maximum(np.rint(near * step), 1.0)]
    else:
        shifted = (np.rint(near * whole + shift) for shift in (-1.0, -0.5, 0.0))
        found = [2 * np.maximum(places, 0.0) + 1 for places in shifted]
    for sides in found:
        first = int(sides.min())
        farther = {w: int(side) - first for (w, _), side in zip(problem.runs, sides, strict=True)}
        most = step if whole is None else step - 1
        yield min(first, most), tuple(farther[w] for w in problem.weights)


def _fine(c: float, k: float, size: int) -> int:
    """Grid steps in a sensitivity, so that a radius falls by e over many of them."""
    steep = c + math.sqrt(2 * k * size)
    return max(LEAST_GRID, 1 << math.ceil(math.log2(_SCALE * steep)))


def _pure_decay(problem: RadialProblem) -> RadialTable | None:
    """exp(-epsilon r), where a staircase would have too many steps."""
    if problem.kind == "integer":
        return None
    law = Decay(problem.epsilon, 0.0, _fine(problem.epsilon, 0.0, problem.size))
    return _proved(problem, law)


def _decay(problem: RadialProblem) -> RadialTable | None:
    """exp(-c r - k r^2), stretched until its proved delta fits."""
    epsilon, delta, size = problem.epsilon, problem.delta, problem.size
    if delta == 0 or problem.norm != "l2" or size < 2 or size > LONGEST:
        return _gaussian(problem) if delta > 0 and problem.norm == "l2" else None
    _, c, k = best_decay(epsilon, delta, size, problem.power)
    target = delta
    for _ in range(_ATTEMPTS):
        stretch = _stretch(c, k, size, epsilon, target)
        law = Decay(c / stretch, k / stretch**2, _fine(c, k, size))
        try:
            spent = decay_delta_up(law, size, epsilon)
        except CertificateError:
            return None
        if spent <= Fraction(delta):
            return _proved(problem, law)
        target = float_down(Fraction(target) * Fraction(delta) / spent) * (1 - 1e-7)
    return None


def _steps(problem: RadialProblem) -> RadialTable | None:
    """Steps of a linear programme, stretched until their proved delta fits."""
    epsilon, delta, size = problem.epsilon, problem.delta, problem.size
    if delta == 0 or problem.norm != "l2" or not 2 <= size <= _MOST_STEPPED:
        return None
    from opendp_optimal.solvers.radial_steps import radial_steps  # loaded only when needed

    near = near_density(epsilon, delta, size, problem.power)
    found = radial_steps(size, epsilon * _UNUSED, delta, problem.power, near)
    if found is None:
        return None
    for attempt in range(_ATTEMPTS):
        law = rounded_steps(size, *found, _STEP, _STEP - 4**attempt + 1)
        if steps_delta_up(law, size, epsilon) <= Fraction(delta):
            return _proved(problem, law)
    return None


def _gaussian(problem: RadialProblem) -> RadialTable | None:
    """Gaussian noise, for vectors of any length."""
    sigma = gaussian_sigma(problem.epsilon, problem.delta)
    for margin in (2.0**-40, 2.0**-30, 2.0**-20):
        k = 0.5 / (sigma * (1 + margin)) ** 2
        table = _proved(problem, Decay(0.0, k, _fine(0.0, k, 1)))
        if table is not None:
            return table
    return None


def _stretch(c: float, k: float, size: int, epsilon: float, delta: float) -> float:
    """By how much noise must be stretched to spend so much, about."""
    low, high = 1.0, 1.0 + 1e-9
    while decay_delta(c / high, k / high**2, size, epsilon) > delta:
        low, high = high, 1 + 4 * (high - 1)
    for _ in range(30):
        middle = (low + high) / 2
        fits = decay_delta(c / middle, k / middle**2, size, epsilon) <= delta
        low, high = (low, middle) if fits else (middle, high)
    return high
