"""What is asked of a channel P(y|x): by a consumer, exactly, and in integers, for proofs.

A :class:`ChannelRequest` makes two instances of :class:`ChannelProblem`, one not below and one not
above what was asked. They are made of the request and of nothing else, so that a proof about them
is a proof about what was asked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from opendp_optimal.arrays import Floats, Frozen, Integers
from opendp_optimal.exact.numbers import float_down, float_up
from opendp_optimal.problem.metric import Distance, direct_pairs, same_inputs

Matrix = Sequence[Sequence[int]]
Costs = list[list[Fraction]]

_LARGEST = 64.0
_BITS = 80
_MOST_BITS = 512
_MOST_COST = Fraction(2) ** 1000


@dataclass(frozen=True, eq=False)
class CapRow(Frozen):
    """One bound: the sum over ``rows`` x and all y of cost[x, y] P(y|x) is at most the cap."""

    rows: tuple[int, ...]
    cost: Matrix


@dataclass(frozen=True, eq=False)
class ChannelProblem(Frozen):
    """One instance, exactly.

    :param cost: integers over ``denominator``, prior weights included, one row for each input
    :param denominator: of all costs
    :param pairs: ordered pairs (x, x') of inputs, one a row
    :param low: a float not above the epsilon of each pair, for proofs of privacy
    :param high: a float not below the epsilon of each pair, for proofs of optimality
    :param delta: the same for all pairs; 0 for pure privacy
    :param caps: further bounds, their costs over ``denominator`` too
    :param cap: what the caps are bounded by
    :param revealing: outputs that reveal the answer: they count in full, as no other input can
        release the same
    """

    cost: Matrix
    denominator: int
    pairs: Integers
    low: Floats
    high: Floats
    delta: float
    caps: tuple[CapRow, ...] = ()
    cap: Fraction | None = None
    revealing: tuple[int, ...] = ()

    @property
    def inputs(self) -> int:
        """Number of inputs x."""
        return len(self.cost)

    @property
    def outputs(self) -> int:
        """Number of outputs y."""
        return len(self.cost[0])

    @cached_property
    def mirrored(self) -> bool:
        """Whether the problem stays the same when inputs and outputs are reversed."""
        if any(list(a) != list(b)[::-1] for a, b in zip(self.cost, self.cost[::-1], strict=True)):
            return False
        last = self.inputs - 1
        if set(self.revealing) != {self.outputs - 1 - y for y in self.revealing}:
            return False
        own = {(x, z): e for (x, z), e in zip(self.pairs.tolist(), self.high, strict=True)}
        if any(own.get((last - x, last - z)) != e for (x, z), e in own.items()):
            return False
        shapes = {_cap_key(c.rows, c.cost) for c in self.caps}
        turned = {
            _cap_key([last - x for x in c.rows[::-1]], [list(r)[::-1] for r in c.cost[::-1]])
            for c in self.caps
        }
        return shapes == turned

    def in_units(self) -> tuple[ChannelProblem, int]:
        """The same problem with costs in units of 2^power, and the power.

        It is 0 where costs are of a size that solvers are used to; else no cost is above 1. A cap
        that nothing exceeds is left out.
        """
        costs = itertools.chain(self.cost, *(cap.cost for cap in self.caps))
        denominator = 1 << max(map(max, costs)).bit_length()
        shrunk = Fraction(denominator, self.denominator)
        power = denominator.bit_length() - self.denominator.bit_length()
        if abs(power) <= 32:
            denominator, shrunk, power = self.denominator, Fraction(1), 0
        whole = replace(self, denominator=denominator)
        largest = max((sum(map(max, cap.cost)) for cap in self.caps), default=0)
        if self.cap is None or self.cap >= Fraction(largest, self.denominator):
            return replace(whole, caps=(), cap=None), power
        return replace(whole, cap=self.cap / shrunk), power

    @cached_property
    def shared(self) -> Floats:
        """1 for every output but the revealing ones, which have 0."""
        out = np.ones(self.outputs)
        out[list(self.revealing)] = 0.0
        return out


def _cap_key(rows: Sequence[int], cost: Sequence[Sequence[int]]) -> tuple[object, ...]:
    return tuple(sorted((x, tuple(values)) for x, values in zip(rows, cost, strict=True)))


@dataclass(frozen=True)
class ChannelRequest(Frozen):
    """The channel of least expected loss with P(A|x) <= exp(epsilon d(x, x')) P(A|x') + delta.

    :param prior: chances of the inputs x, which add up to 1
    :param loss: loss[w][x] of output w at input x
    :param distances: d(x, x'), a fraction or infinity
    :param epsilon: privacy loss for inputs at distance 1
    :param delta: 0 for metric privacy
    """

    prior: tuple[Fraction, ...]
    loss: tuple[tuple[Fraction, ...], ...]
    distances: tuple[tuple[Distance, ...], ...]
    epsilon: Fraction
    delta: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError unless the request makes sense."""
        super().__post_init__()
        size = len(self.prior)
        if not size or min(self.prior) < 0 or sum(self.prior) != 1:
            raise ValueError("prior must be chances that add up to 1")
        if not self.loss or any(len(row) != size for row in self.loss):
            raise ValueError(f"loss must have a column for each of the {size} inputs")
        if len(self.distances) != size or any(len(row) != size for row in self.distances):
            raise ValueError(f"distances must be {size} x {size}")
        if not all(d >= 0 for row in self.distances for d in row):
            raise ValueError("distances must not be negative")
        if not self.epsilon > 0:
            raise ValueError(f"epsilon ({self.epsilon}) must be above 0")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta ({self.delta}) must be in [0, 1)")
        if self._top > _MOST_COST:
            digits = round(_exponent(self._top) * math.log10(2))
            raise ValueError(
                f"loss (times prior, up to about 1e{digits}) must be at most "
                f"{float(_MOST_COST):.3g}: bounds are floats"
            )

    @cached_property
    def _top(self) -> Fraction:
        """The largest cost, in size."""
        return max(p * max(abs(row[x]) for row in self.loss) for x, p in enumerate(self.prior))

    @cached_property
    def unit(self) -> Fraction:
        """A power of two near the largest cost: the problems are in such units."""
        top = self._top
        return Fraction(2) ** _exponent(top) if top else Fraction(1)

    @cached_property
    def same(self) -> tuple[int, ...]:
        """For every input the first that must have the same row: at distance 0 without delta."""
        if self.delta > 0:
            return tuple(range(len(self.prior)))
        return tuple(same_inputs(self.distances))

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """For every input the row of the problems that is its own."""
        kept = sorted(set(self.same))
        return tuple(kept.index(g) for g in self.same)

    @cached_property
    def _costs(self) -> Costs:
        """Exact costs in units, a row for inputs that are the same."""
        out = [[Fraction(0)] * len(self.loss) for _ in range(max(self.rows) + 1)]
        for x, (p, row) in enumerate(zip(self.prior, self.rows, strict=True)):
            out[row] = [
                c + p * losses[x] / self.unit for c, losses in zip(out[row], self.loss, strict=True)
            ]
        return out

    @cached_property
    def _distances(self) -> list[list[Distance]]:
        """Between rows of the problems: the least of their members'."""
        count = max(self.rows) + 1
        out: list[list[Distance]] = [[math.inf] * count for _ in range(count)]
        for x, line in zip(self.rows, self.distances, strict=True):
            for z, d in zip(self.rows, line, strict=True):
                out[x][z] = min(out[x][z], d)
        return out

    @cached_property
    def above(self) -> ChannelProblem:
        """Costs not below, exponents not above those asked for: for what a channel gives."""
        return self._problem(up=True)

    @cached_property
    def below(self) -> ChannelProblem:
        """Costs not above, exponents not below those asked for: for what no channel betters."""
        return self._problem(up=False)

    def _problem(self, up: bool) -> ChannelProblem:
        denominator = _denominator([c for row in self._costs for c in row])
        whole = math.ceil if up else math.floor
        pairs = self._pairs
        exponents = [self.epsilon * Fraction(self._distances[x][z]) for x, z in pairs]
        # Mechanisms keep to 64, which no proof goes beyond.
        low = [min(_LARGEST, float_down(min(e, Fraction(_LARGEST)))) for e in exponents]
        return ChannelProblem(
            cost=[[whole(c * denominator) for c in row] for row in self._costs],
            denominator=denominator,
            pairs=np.array(pairs, np.int64).reshape(-1, 2),
            low=np.array(low, np.float64),
            high=np.array([float_up(min(e, _BEYOND)) for e in exponents], np.float64),
            delta=self.delta,
        )

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        """Those that imply all others; with delta each pair has its own."""
        if self.delta == 0:
            return direct_pairs(self._distances)
        return [
            (x, z)
            for x, row in enumerate(self._distances)
            for z, d in enumerate(row)
            if x != z and d != math.inf
        ]


_BEYOND = Fraction(2 * _LARGEST)
"""Exponents above it are all the same: nothing is proved with them."""


def _denominator(values: Sequence[Fraction]) -> int:
    """A common one where it is short, else one that rounds to 2^-80."""
    out = 1
    for value in values:
        out = math.lcm(out, value.denominator)
        if out.bit_length() > _MOST_BITS:
            return 1 << _BITS
    return out


def _exponent(value: Fraction) -> int:
    """Two to this power is within a factor 2 of a positive value."""
    return value.numerator.bit_length() - value.denominator.bit_length()
