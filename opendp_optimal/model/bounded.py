"""From a bounded problem and a lattice to the channel problems above and below its optimum.

*Above*, equal bins of width b: draw u uniformly from [0, b). The answer lies in one of the cells
[u + (x - 1) b, u + x b), x = 0..K; draw y from P(.|x) and release the middle of cell y. Answers
at most k b apart lie at most k cells apart, whatever u is.
If delta is positive, the answer itself can be released too, with a chance of at most delta: by two
revealing outputs, the first and the last, so that the mirror image of a channel is one.

*Above*, unequal bins: round the answer at random, without bias, to one of the two ends of its bin;
release the end that the channel draws.

*Below*, equal bins: use any mechanism at x_j + u with the same uniform u for all j, subtract u,
round at random to the lattice. That is as private as the mechanism, for pairs at most k bins
apart with k b within the sensitivity, and costs no more where the chords of the costs lie nowhere
above the loss. Outputs outside the range are moved to its ends, which costs nothing either.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np

from opendp_optimal.arrays import Integers
from opendp_optimal.errors import CertificateError
from opendp_optimal.problem.bounded import BoundedProblem
from opendp_optimal.problem.channel import CapRow, ChannelProblem

_BITS = 62
MOST_WEIGHTS = 6_600
"""Weights of a programme, at most: its Newton system then takes about a gigabyte."""
Rows = list[list[Fraction]]
Caps = list[tuple[tuple[int, ...], Rows]]


@dataclass(frozen=True)
class Lattice:
    """Equal bins: ``bins`` of width ``step``, the sensitivity being ``cells`` of them.

    >>> Lattice(8, 4, Fraction(1, 2)).pairs(3).tolist()
    [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]
    """

    bins: int
    cells: int
    step: Fraction

    def pairs(self, inputs: int) -> Integers:
        """Ordered pairs of inputs that are at most ``cells`` apart."""
        x = np.arange(inputs)
        apart = np.abs(x[:, None] - x[None, :])
        return np.argwhere((apart > 0) & (apart <= self.cells)).astype(np.int64)


def lattice_above(problem: BoundedProblem, cells: int, bins: int) -> Lattice:
    """Bins that cover the range, so many of which cover the sensitivity."""
    return Lattice(bins, cells, max(problem.reach / cells, problem.width / bins))


def lattice_below(problem: BoundedProblem, cells: int, bins: int) -> Lattice:
    """Bins within the range, so many of which are within the sensitivity."""
    return Lattice(bins, cells, min(problem.reach / cells, problem.width / bins))


def check_size(problem: BoundedProblem, inputs: int, name: str, value: object) -> None:
    """Refuse a programme that is too large, before it is built."""
    weights = inputs * inputs
    if weights <= MOST_WEIGHTS:
        return
    memory = Decimal(24 * weights**2) / 2**30
    size = inputs if inputs < 10**9 else f"{Decimal(inputs):.3g}"
    total = weights if inputs < 10**9 else f"{Decimal(weights):.3g}"
    raise ValueError(
        f"{name} ({value}) makes a programme of {size} x {size} = {total} weights, whose "
        f"matrices take {memory:.3g} GB: it must have at most {MOST_WEIGHTS} weights "
        f"({math.isqrt(MOST_WEIGHTS)} x {math.isqrt(MOST_WEIGHTS)})"
    )


def _bin_weights(
    problem: BoundedProblem, lattice: Lattice, choose: Callable[..., Fraction]
) -> list[Fraction]:
    """The largest or least prior density in each bin, times its width."""
    bins, b = lattice.bins, lattice.step
    # Centred, so that a mirror symmetry of the problem stays one.
    start = Fraction(problem.low) + (problem.width - bins * b) / 2
    starts = [start + j * b for j in range(bins + 1)]
    # Outside of the range the density is 0.
    before = (starts[0], Fraction(problem.low), Fraction(0))
    after = (Fraction(problem.high), starts[-1], Fraction(0))
    parts = [before, *problem.densities(), after]
    return [
        b * choose(density for s, e, density in parts if s < last and e > first)
        for first, last in itertools.pairwise(starts)
    ]


def above(problem: BoundedProblem, lattice: Lattice) -> ChannelProblem:
    """The channel problem of the shifting mechanism on equal bins."""
    bins, b = lattice.bins, lattice.step
    if bins * b < problem.width or lattice.cells * b < problem.reach:
        raise ValueError("the lattice does not cover the range or the sensitivity")
    weight = [Fraction(0), *_bin_weights(problem, lattice, max), Fraction(0)]
    parts = {d: problem.loss.halves((d + Fraction(1, 2)) * b, b) for d in range(-bins, bins + 1)}
    cost = [
        [weight[x] * parts[y - x][0] + weight[x + 1] * parts[y - x][1] for y in range(bins + 1)]
        for x in range(bins + 1)
    ]
    cost = _revealed(problem, cost, [(a + b) / 2 for a, b in itertools.pairwise(weight)])
    caps = _shifting_caps(problem, lattice) if problem.cap is not None else []
    return _exact(problem, cost, lattice.pairs(bins + 1), caps, revealing=problem.delta > 0)


def _revealed(problem: BoundedProblem, rows: Rows, weights: Sequence[Fraction]) -> Rows:
    """Rows of these weights, with the outputs that reveal the answer where delta allows it."""
    if problem.delta == 0:
        return rows
    truth = problem.loss.exact(Fraction(0))
    return [[w * truth, *row, w * truth] for w, row in zip(weights, rows, strict=True)]


def _shifting_caps(problem: BoundedProblem, lattice: Lattice) -> Caps:
    """Bounds on the loss at every answer in every bin.

    At an answer t of the way through bin j, the loss is the integral of f_(j+1) up to t and of
    f_j from t on, f_x(s) being the loss of row x when the answer is s of the way through its
    cell. Where f is linear that is a quadratic in t, which is below its three control points.
    """
    bins, b = lattice.bins, lattice.step
    shapes = {d: problem.loss.pieces((d + Fraction(1, 2)) * b, b) for d in range(-bins, bins + 1)}
    cuts = sorted({p.start for shape in shapes.values() for p in shape} | {Fraction(1)})

    def upto(d: int, t: Fraction) -> Fraction:
        return sum((p.integral(t) for p in shapes[d]), Fraction(0))

    def value(d: int, t: Fraction) -> Fraction:
        return next(p for p in shapes[d] if p.start <= t < p.end).value(t)

    whole = {d: upto(d, Fraction(1)) for d in shapes}
    controls: list[tuple[Fraction, dict[int, Fraction]]] = []
    for t, following in itertools.pairwise(cuts):
        right, half = {d: upto(d, t) for d in shapes}, (following - t) / 2
        controls.append((t, right))
        controls.append((t + half, {d: right[d] + half * value(d, t) for d in shapes}))
    controls.append((Fraction(1), whole))
    out: Caps = []
    for j in range(bins):
        for t, right in controls:
            rows = [
                [whole[y - j] - right[y - j] for y in range(bins + 1)],
                [right[y - j - 1] for y in range(bins + 1)],
            ]
            out.append(((j, j + 1), _revealed(problem, rows, (1 - t, t))))
    return out


def rounding_pairs(edges: Sequence[Fraction], reach: Fraction) -> Integers:
    """Pairs of ends that neighbouring answers can be rounded to, both by the same random number.

    Answers t and t' of the way through bins i <= j go up together, down together, or apart in the
    direction in which the larger share goes up; a pair is listed if some answers within ``reach``
    give it a positive chance.
    """
    pairs = set()
    for i in range(len(edges) - 1):
        long = edges[i + 1] - edges[i]
        for j in range(i, len(edges) - 1):
            between = edges[j] - edges[i + 1]  # below 0 in the same bin
            other = edges[j + 1] - edges[j]
            if between < reach:
                pairs |= {(i, j), (i + 1, j + 1)}
            if between <= reach:
                pairs.add((i + 1, j))
            if between + long - max(Fraction(0), long - other) < reach:
                pairs.add((i, j + 1))
    apart = {(a, b) for a, b in pairs if a != b}
    both = apart | {(b, a) for a, b in apart}
    return np.array(sorted(both), np.int64).reshape(-1, 2)


def above_unequal(problem: BoundedProblem) -> ChannelProblem:
    """The channel problem of the rounding mechanism on unequal bins."""
    assert problem.edges is not None
    edges = [Fraction(e) for e in problem.edges]
    weight = problem.prior_weights
    size = len(edges)
    cost = [[Fraction(0)] * size for _ in edges]
    for j, w in enumerate(weight):
        length = edges[j + 1] - edges[j]
        for y in range(size):
            down, up = problem.loss.halves(edges[y] - edges[j], length)
            cost[j][y] += w * down
            cost[j + 1][y] += w * up
    beside = itertools.pairwise([Fraction(0), *weight, Fraction(0)])
    cost = _revealed(problem, cost, [(a + b) / 2 for a, b in beside])
    caps = _rounding_caps(problem, edges) if problem.cap is not None else []
    # A little more than the reach, so that the ends may be moved to a grid of floats.
    reach = problem.reach * (1 + Fraction(1, 1 << 20))
    return _exact(problem, cost, rounding_pairs(edges, reach), caps, revealing=problem.delta > 0)


def _rounding_caps(problem: BoundedProblem, edges: list[Fraction]) -> Caps:
    """Bounds on the loss at every answer: products of two linear functions, by control points."""
    out: Caps = []
    for j, (low, high) in enumerate(itertools.pairwise(edges)):
        shapes = [problem.loss.pieces(e - low, high - low) for e in edges]
        for parts in zip(*shapes, strict=True):
            s, e = parts[0].start, parts[0].end
            ends = [
                [[(1 - s) * p.begin for p in parts], [s * p.begin for p in parts]],
                [
                    [((1 - s) * p.finish + (1 - e) * p.begin) / 2 for p in parts],
                    [(s * p.finish + e * p.begin) / 2 for p in parts],
                ],
                [[(1 - e) * p.finish for p in parts], [e * p.finish for p in parts]],
            ]
            for t, rows in zip((s, (s + e) / 2, e), ends, strict=True):
                out.append(((j, j + 1), _revealed(problem, rows, (1 - t, t))))
    return out


def below(problem: BoundedProblem, lattice: Lattice) -> ChannelProblem:
    """A relaxation: its optimum is not above the loss of any mechanism."""
    bins, b = lattice.bins, lattice.step
    if bins * b > problem.width or lattice.cells * b > problem.reach:
        raise ValueError("the lattice leaves the range or the sensitivity")
    weight = _bin_weights(problem, lattice, min)
    return _by_error(problem, weight, _chord_costs(problem, bins, b), lattice, down=True)


def _by_error(
    problem: BoundedProblem,
    weight: list[Fraction],
    plain: dict[int, Fraction],
    lattice: Lattice,
    *,
    down: bool,
) -> ChannelProblem:
    """The channel problem whose costs are those of the errors, times the prior."""
    size = len(weight)
    rows = [[plain[y - x] for y in range(size)] for x in range(size)]
    cost = [[w * value for value in row] for w, row in zip(weight, rows, strict=True)]
    caps: Caps = [((x,), [row]) for x, row in enumerate(rows)] if problem.cap is not None else []
    return _exact(problem, cost, lattice.pairs(size), caps, down=down)


def _chord_costs(problem: BoundedProblem, bins: int, b: Fraction) -> dict[int, Fraction]:
    """Costs whose chords lie nowhere above the loss, and which grow outwards."""
    chords = problem.loss.chords(b, bins)
    values = dict(zip(range(-bins, bins + 1), chords, strict=True))
    for d in range(bins - 1, -1, -1):
        values[d] = min(values[d], values[d + 1])
        values[-d] = min(values[-d], values[-d - 1])
    if problem.loss.symmetric:
        values = {d: min(v, values[-d]) for d, v in values.items()}
    return values


def integers(problem: BoundedProblem, bins: int, down: bool = False) -> ChannelProblem:
    """The channel problem of an integer query; costs are rounded up, or down for bounds."""
    if bins != int(problem.width):
        raise CertificateError("an integer table has other bins than the integers")
    size = bins + 1
    listed = problem.loss.on_integers(size)
    values = [Fraction(v, listed.denominator) for v in (listed.lower if down else listed.upper)]
    plain = dict(zip(range(-size, size + 1), values, strict=True))
    lattice = Lattice(size - 1, math.floor(problem.reach), Fraction(1))
    return _by_error(problem, problem.prior_weights, plain, lattice, down=down)


def _log2_up(value: Fraction) -> int:
    """The binary logarithm, rounded up; of numbers that are no floats to within 1."""
    rough = value.numerator.bit_length() - value.denominator.bit_length() + 1
    return math.ceil(math.log2(float(value))) if abs(rough) < 1000 else rough


def _exact(
    problem: BoundedProblem,
    cost: Rows,
    pairs: Integers,
    caps: Caps,
    down: bool = False,
    revealing: bool = False,
) -> ChannelProblem:
    """Costs as integers over a power of two, rounded up (or down, for bounds from below)."""
    top = max([max(map(max, cost)), *(max(map(max, rows)) for _, rows in caps)])
    bits = _BITS - _log2_up(top) if top > 0 else _BITS
    denominator = 1 << max(0, bits)

    @cache
    def whole(value: Fraction) -> int:
        return math.floor(value * denominator) if down else math.ceil(value * denominator)

    def integers_of(rows: Rows) -> list[list[int]]:
        return [[whole(value) for value in row] for row in rows]

    epsilon = np.full(len(pairs), problem.epsilon)
    return ChannelProblem(
        cost=integers_of(cost),
        denominator=denominator,
        pairs=pairs,
        low=epsilon,
        high=epsilon,
        delta=problem.delta,
        caps=tuple(CapRow(rows, integers_of(costs)) for rows, costs in caps),
        cap=None if problem.cap is None else Fraction(problem.cap),
        revealing=(0, len(cost[0]) - 1) if revealing else (),
    )


def channel_above(problem: BoundedProblem, bins: int, cells: int) -> ChannelProblem:
    """The channel problem of the mechanism that a problem and its bins call for."""
    if problem.integer:
        return integers(problem, bins)
    if problem.edges is not None:
        if bins != len(problem.edges) - 1:
            raise CertificateError("a table has other bins than were asked for")
        return above_unequal(problem)
    return above(problem, lattice_above(problem, cells, bins))


def channel_below(problem: BoundedProblem, bins: int, cells: int) -> ChannelProblem:
    """The channel problem of the relaxation on so many bins."""
    if problem.integer:
        return integers(problem, bins, down=True)
    return below(problem, lattice_below(problem, cells, bins))
