"""A ring client that can be run: exact integer weights on ``n`` points, an exact privacy map.

Values are points ``0..n-1`` of a ring with ``n`` points, ``2 pi / n`` apart. The weights of the
noise are integers whose neighbouring ratios are compared with ``exp`` of the loss per step in
exact arithmetic, and draws are exact: a uniform integer below the total picks the weight.
"""

from __future__ import annotations

import itertools
import math
import secrets
from bisect import bisect_right
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np
import opendp.prelude as dp

from opendp_optimal.extend import (
    Floats,
    exp_down,
    float_down,
    float_up,
    make_measurement,
    positive,
    record_text,
    space_of,
    to_then,
    whole,
)
from opendp_optimal_select.ring.certificate import envelope, raised
from opendp_optimal_select.ring.shape import PI_LOWER, lightest

ClientKind = Literal["optimal", "laplace"]
MAX_SHAPES = 5000
_TOTAL_BITS = 62
_BITS = 140
"""Of the bound on the ratio of neighbouring weights."""
LARGEST_STEP = 600.0
"""Privacy loss from a point to the next: its exponential is a float."""


@dataclass(frozen=True)
class RingNoise:
    """Noise on a ring of points, and the answers that go with it.

    The privacy of the weights is checked, exactly, when the object is made.

    :param step_epsilon: privacy loss between neighbouring points
    :param weights: integer weight of each displacement ``0..n-1``
    :param answers: the answers, as displacements from the signal
    """

    step_epsilon: float
    weights: tuple[int, ...]
    answers: tuple[int, ...]
    _cumulative: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the weights exactly."""
        object.__setattr__(self, "step_epsilon", positive("step_epsilon", self.step_epsilon))
        object.__setattr__(self, "weights", tuple(self.weights))
        object.__setattr__(self, "answers", tuple(self.answers))
        n = len(self.weights)
        if n < 3 or any(type(w) is not int or w < 1 for w in self.weights):
            raise ValueError("weights must be three or more integers above 0")
        if len(set(self.answers)) != len(self.answers) or not self.answers:
            raise ValueError(f"answers ({self.answers}) must be distinct")
        if any(type(a) is not int or not 0 <= a < n for a in self.answers):
            raise ValueError(f"answers ({self.answers}) must be integers from 0 to {n - 1}")
        bound = exp_down(Fraction(min(self.step_epsilon, 64.0)), _BITS)  # a lower bound, too
        for i in range(n):
            low, high = sorted((self.weights[i - 1], self.weights[i]))
            if high * bound.denominator > low * bound.numerator:
                raise ValueError(
                    f"weights (between {(i - 1) % n} and {i}) must differ by a factor of at most "
                    f"exp({self.step_epsilon})"
                )
        object.__setattr__(self, "_cumulative", tuple(itertools.accumulate(self.weights)))

    @property
    def points(self) -> int:
        """Number of points of the ring."""
        return len(self.weights)

    @property
    def cost(self) -> float:
        """Expected arc to the nearest answer, in radians."""
        n = self.points
        arcs = zip(self.weights, _costs(self.answers, n), strict=True)
        total = sum(weight * int(arc) for weight, arc in arcs)
        return 2.0 * math.pi / n * (total / self._cumulative[-1])

    def draw(self) -> int:
        """Return one exact draw of the displacement, from the system's secure source."""
        return bisect_right(self._cumulative, secrets.randbelow(self._cumulative[-1]))

    def loss(self, distance: int) -> float:
        """Return the privacy loss between values ``distance`` apart, rounded up.

        :param distance: number of points between them
        """
        if not distance >= 0:
            raise ValueError(f"distance ({distance}) must not be negative")
        steps = math.ceil(min(distance, self.points // 2))
        return float_up(Fraction(self.step_epsilon) * steps)


def design_ring(
    epsilon: float, k: int, points: int, *, client: ClientKind = "optimal"
) -> RingNoise:
    """Return the best noise and answers on a ring of ``points`` points.

    Compared with the continuous ring, rounding values and answers to the points costs at most half
    a step each, ``pi / points``.

    :param epsilon: privacy loss per radian
    :param k: number of answers
    :param points: number of points of the ring
    :param client: ``"optimal"`` solves a linear programme per shape of answers; ``"laplace"``
        keeps the density ``exp(-epsilon * distance)`` and optimises the answers only

    >>> design_ring(0.375, 2, 24).answers
    (0, 11)
    """
    step = _step(epsilon, points)
    _, masses, answers = _best_shape(step, k, points, client, 0.0)
    return RingNoise(step, _integers(masses, step), answers)


def grid_cost(
    epsilon: float, k: int, points: int, *, client: ClientKind = "optimal", halfway: bool = False
) -> float:
    """Return the smallest cost, in radians, when values and answers are confined to a grid.

    For comparing with coarse computations: this is what a linear programme on the grid finds, with
    an error of up to half a step that :func:`optimal_ring` does not
    have.

    :param epsilon: privacy loss per radian
    :param k: number of answers
    :param points: number of points of the ring
    :param client: ``"optimal"`` or ``"laplace"``
    :param halfway: let the answers lie half-way between the points instead of on them

    >>> round(grid_cost(0.375, 2, 10, halfway=True), 2)
    0.72
    """
    step = _step(epsilon, points)
    shift = 0.5 if halfway else 0.0
    return 2.0 * math.pi / points * _best_shape(step, k, points, client, shift)[0]


def _step(epsilon: float, points: int) -> float:
    epsilon = positive("epsilon", epsilon)
    points = whole("points", points, least=3, most=100_000)
    step = float_down(2 * PI_LOWER * Fraction(epsilon) / points)
    if step <= 0.0:
        raise ValueError(f"epsilon ({epsilon}) must be larger with {points} points")
    if step > LARGEST_STEP:
        raise ValueError(
            f"epsilon ({epsilon:g}) must be at most {LARGEST_STEP * points / (2.0 * math.pi):.6g} "
            f"with {points} points"
        )
    return step


def _best_shape(
    step: float, k: int, points: int, client: ClientKind, shift: float
) -> tuple[float, Floats, tuple[int, ...]]:
    """Return cost in steps, masses of the noise and answers of the best shape on the grid."""
    k = whole("k", k, most=points)
    if client not in ("optimal", "laplace"):
        raise ValueError(f"client ({client!r}) must be 'optimal' or 'laplace'")
    count = math.comb(points - 1, k - 1)
    if count > MAX_SHAPES:
        raise ValueError(
            f"points ({points}) and k ({k}) must leave at most {MAX_SHAPES} shapes, not {count}"
        )
    best: tuple[float, Floats, tuple[int, ...]] = math.inf, np.empty(0), ()
    for shape in itertools.combinations(range(1, points), k - 1):
        answers = (0, *shape)
        gaps = [b - a for a, b in itertools.pairwise(answers)]
        if points - answers[-1] < max(gaps, default=0):
            continue  # the last gap is the largest: each shape has a rotation for which it is
        costs = _costs(answers, points, shift)
        # Laplace noise is a candidate for the optimum too: with strong signals the solver's
        # tolerance is larger than what is left to gain.
        candidates = [_laplace(costs, step, answers)]
        if client == "optimal":
            candidates.append((_optimal(costs, step), answers))
        for masses, turned in candidates:
            value = float(masses @ _costs(turned, points, shift))
            if value < best[0] * (1.0 - 1e-9):
                best = value, masses, turned
    return best


def make_ring_selection(
    input_domain: dp.Domain, input_metric: dp.Metric, noise: RingNoise
) -> dp.Measurement:
    """Return a measurement that releases ``k`` points of a ring around a noisy one.

    Integers are taken modulo the number of points. Between values ``d_in`` apart it loses
    ``step_epsilon * min(d_in, points // 2)``, rounded up.

    :param input_domain: an atom domain of integers
    :param input_metric: the absolute distance
    :param noise: from :func:`design_ring`
    :returns: a measurement whose release is a list of ``k`` distinct points

    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    >>> meas = make_ring_selection(*space, design_ring(0.375, 2, 24))
    >>> len(set(meas(5))), meas.map(100) == meas.map(12)
    (2, True)
    """
    space = space_of(input_domain, input_metric)
    if space.vector or not space.integer:
        raise ValueError(f"input_domain ({input_domain}) must hold single integers")
    if not isinstance(noise, RingNoise):
        raise ValueError(f"noise (a {type(noise).__name__}) must be a RingNoise")
    # Checked again, and without what a subclass may say of itself.
    noise = RingNoise(noise.step_epsilon, noise.weights, noise.answers)
    n = noise.points

    def release(value: int) -> list[int]:
        signal = value + noise.draw()
        return [(signal + a) % n for a in noise.answers]

    record = record_text("make_ring_selection", noise.step_epsilon, noise.weights, noise.answers)
    return make_measurement(
        *(input_domain, input_metric, dp.max_divergence(), release, noise.loss),
        TO="Vec<i32>",
        record=record,
    )


then_ring_selection = to_then(make_ring_selection)


def _costs(answers: tuple[int, ...], n: int, shift: float = 0.0) -> Floats:
    """Return the distance to the nearest answer for each displacement of the signal, in steps."""
    around = (np.arange(n)[:, None] + np.array(answers) + shift) % n
    return np.asarray(np.minimum(around, n - around).min(axis=1))


def _laplace(
    costs: Floats, step: float, answers: tuple[int, ...]
) -> tuple[Floats, tuple[int, ...]]:
    n = costs.size
    masses = np.exp(-step * _costs((0,), n))
    masses /= masses.sum()
    turn = int(np.argmin([float(masses @ np.roll(costs, -t)) for t in range(n)]))
    return masses, tuple((a + turn) % n for a in answers)


def _optimal(costs: Floats, step: float) -> Floats:
    """Return the cheapest masses that keep the ratio ``exp(step)`` to about a rounding error."""
    ratios = np.full(costs.size, math.exp(step))
    masses = lightest(costs, ratios, ratios, np.ones(costs.size))[0].clip(0.0)
    repaired = np.exp(envelope(masses, np.full(masses.size, step)))
    return np.asarray(repaired / repaired.sum())


def _integers(masses: Floats, step: float) -> tuple[int, ...]:
    """Return integer weights close to ``masses`` that keep the ratio ``exp(step)`` exactly."""
    bound = exp_down(Fraction(step), _BITS)
    weights = [max(1, math.floor(float(m) * 2.0**_TOTAL_BITS)) for m in masses]
    # Raise each weight to what its neighbours need. A solver's tail may be a little too thin, or
    # zero; lowering the neighbours instead would flatten everything.
    return tuple(raised(weights, lambda w, _: -(-w * bound.denominator // bound.numerator)))
