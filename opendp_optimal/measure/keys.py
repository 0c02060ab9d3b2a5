"""Counts of keys that are secret themselves: which keys there are is private, too.

A key that one person alone has must not appear but with probability delta. OpenDP adds noise and
releases what reaches a threshold; here keys are released as often as any private mechanism can
(:mod:`opendp_optimal.search.keys`), with proofs in integers.

Two arguments join the keys that one person touches:

*units*
    Neighbours are joined by l1 steps of size 1 in single counts. A key whose count moves by m costs
    (m e, d (exp(m e) - 1) / (exp(e) - 1)), by group privacy, and the keys add up. The second grows
    faster than m, so that it is largest where as few keys as possible move as far as they can.

*keys*
    At most l0 keys move, each by at most linf, and each costs (e, d) whatever its move. They are
    composed by the best known theorem (Kairouz, Oh and Viswanath), or by adding up.

The one that releases keys of smaller counts is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from opendp_optimal.arrays import Integers
from opendp_optimal.budget.events import Approximate
from opendp_optimal.budget.theorems import composed_delta
from opendp_optimal.exact.halving import largest
from opendp_optimal.exact.numbers import float_down, float_up
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import make_measurement, require_features
from opendp_optimal.measure.facts import Facts, record_text, remember
from opendp_optimal.measure.guarantee import geometric_up, group
from opendp_optimal.measure.noise import target_of
from opendp_optimal.measure.space import INTEGER_RANGES
from opendp_optimal.measure.waiting import defer, to_then
from opendp_optimal.problem.keys import MOST_MOVE
from opendp_optimal.problem.noise import MAX_EPSILON, MIN_DELTA, MIN_EPSILON
from opendp_optimal.sample.words import uniform_below
from opendp_optimal.search.keys import solve_keys
from opendp_optimal.table.keys import LARGEST_COUNT, KeyTable

_SPARE = (0.1, 0.5, 0.9)
"""Parts of delta that pay for the composition of many keys; the others have the rest."""
_CELLS = 16
"""A move is so many units, times epsilon: finer ones would cost time and gain nothing."""
_MOST_ROWS = 1 << 20
Distance = tuple[int, int, int]


@dataclass(frozen=True)
class KeyDesign:
    """A table for each key, and why it is enough.

    :param argument: "units" or "keys"
    :param table: for one key
    :param unit: counts are rounded at random to multiples of it
    :param epsilon: of the whole release at ``d_in``
    :param delta: of the whole release at ``d_in``
    :param d_in: (keys, l1, linf), without what cannot happen
    """

    argument: str
    table: KeyTable
    unit: int
    epsilon: float
    delta: float
    d_in: Distance

    @property
    def half(self) -> int:
        """About the least count that is released at least every second time."""
        return self.table.half * self.unit

    def pair(self, d_in: Any) -> tuple[float, float]:
        """(epsilon, delta) at a distance, rounded up."""
        keys, total, move = _possible(*d_in)
        if total == 0:
            return 0.0, 0.0
        within = all(a <= b for a, b in zip((keys, total, move), self.d_in, strict=True))
        if (keys, total, move) == self.d_in:
            return self.epsilon, self.delta
        if self.argument == "units":
            each, chance = self.table.epsilon, Fraction(self.table.delta)
            found = (
                float_up(total * Fraction(each)),
                min(1.0, float_up(chance * _hops_up(total, move, each))),
            )
        elif within:
            found = (
                float_up(keys * Fraction(self.table.epsilon)),
                min(1.0, float_up(keys * Fraction(self.table.delta))),
            )
        else:
            hops = -(-keys // self.d_in[0]) * -(-move // self.d_in[2])
            return group(self.epsilon, self.delta, hops)
        smaller = found[0] <= self.epsilon and found[1] <= self.delta
        return found if smaller or not within else (self.epsilon, self.delta)

    def release(self, counts: Integers) -> tuple[Any, Integers]:
        """Which keys are released, and with what.

        :param counts: of the keys
        """
        kept = np.clip(counts, 0, LARGEST_COUNT).astype(np.int64)
        if self.unit > 1:
            # Rounded at random: counts that are d apart are at most d / unit apart, rounded up,
            # with the same draw, and a count of 0 stays 0.
            kept = (kept + uniform_below(self.unit, len(kept))) // self.unit
        released, values = self.table.draw(kept)
        return released, values * self.unit


def _possible(l0: Any, l1: Any, linf: Any) -> Distance:
    """How many keys move, by how much together, and by how much each: what can happen at all."""
    keys, total, move = int(l0), int(l1), int(linf)
    total = min(total, keys * move)
    return min(keys, total), total, min(move, total)


def _hops_up(total: int, move: int, epsilon: float) -> Fraction:
    """An upper bound of the sum over keys of (exp(m e) - 1) / (exp(e) - 1)."""
    full, rest = divmod(total, move)
    if move == 1:
        return Fraction(total)
    return full * geometric_up(epsilon, move) + (geometric_up(epsilon, rest) if rest else 0)


def design_keys(d_in: Any, epsilon: float, delta: float) -> KeyDesign:
    """The best design for people who touch several keys.

    :param d_in: (l0, l1, linf): how many keys, how many units of count in all, how many in a key
    :param epsilon: privacy loss of the whole release
    :param delta: probability of a larger loss, of the whole release
    :raises ValueError: if the share of a key is out of range

    >>> design_keys((1, 1, 1), 1.0, 1e-6).table
    KeyTable(epsilon=1.0, delta=1e-06, move=1, threshold=15, half=14)
    """
    distance = _checked(d_in)
    designs = [
        KeyDesign(argument, solve_keys(e, d, move=-(-move // unit)), unit, epsilon, delta, distance)
        for argument, e, d, move, unit in _shares(distance, epsilon, delta)
        if e >= MIN_EPSILON and d >= MIN_DELTA
    ]
    if not designs:
        raise ValueError(
            f"d_out ({(epsilon, delta)!r}) is too small for {distance[0]} keys of a person, of "
            f"which each must have at least ({MIN_EPSILON:g}, {MIN_DELTA:g})"
        )
    return min(designs, key=lambda design: design.half)


def _shares(
    distance: Distance, epsilon: float, delta: float
) -> Iterator[tuple[str, float, float, int, int]]:
    """Argument, epsilon, delta and move of each key, and the unit of counts."""
    keys, total, move = distance
    each = float_down(Fraction(min(epsilon, MAX_EPSILON * total)) / total)
    yield "units", each, float_down(Fraction(delta) / _hops_up(total, move, each)), 1, 1
    first = float_down(Fraction(min(epsilon, MAX_EPSILON * keys)) / keys)
    options = [(first, float_down(Fraction(delta) / keys))]
    for spare in _SPARE if keys > 1 and delta >= MIN_DELTA * keys else ():
        part = delta * (1 - spare) / keys

        def fits(share: float, part: float = part) -> bool:
            return composed_delta(epsilon, share, part, keys) <= delta

        if fits(options[0][0]):
            most = min(epsilon, MAX_EPSILON)
            options.append((largest(fits, options[0][0], most, close=1e-4), part))
    for share, part in options:
        yield "keys", share, part, move, _unit(share, move)


def _unit(epsilon: float, move: int) -> int:
    """What counts are rounded to: as fine as serves any purpose."""
    if move <= MOST_MOVE and move * 90 <= _MOST_ROWS * epsilon:
        return 1
    return -(-move // min(MOST_MOVE, max(1, math.ceil(_CELLS * epsilon))))


def _checked(d_in: Any) -> Distance:
    """What can happen at a distance, checked."""
    wanted = f"d_in ({d_in!r}) must be (l0, l1, linf): three integers that are at least 1"
    if not isinstance(d_in, tuple | list) or len(d_in) != 3:
        raise ValueError(wanted)
    for number in d_in:
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if not whole or not 1 <= number < 1 << 63:
            raise ValueError(wanted)
    return _possible(*d_in)


def make_optimal_threshold(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    d_in: tuple[int, int, int],
    d_out: tuple[float, float],
) -> dp.Measurement:
    """Make a measurement that releases counts by key where the keys are private, too.

    Where counts move by 1, each key is released as often as any mechanism of its epsilon and delta
    can: ``measurement.table`` states the chance of each count beside the best possible one.
    The order of keys says nothing about the data.

    :param input_domain: ``map_domain`` of keys to an atom domain of integers.
    :param input_metric: ``l01inf_distance(absolute_distance(T))``.
    :param d_in: (l0, l1, linf): how many keys a person has at most, how many units of count in
        all, and how many in one key.
    :param d_out: ``(epsilon, delta)``.

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> counts = dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=int))
    >>> space = counts, dp.l01inf_distance(dp.absolute_distance(T=int))
    >>> meas = make_optimal_threshold(*space, d_in=(1, 1, 1), d_out=(1.0, 1e-6))
    >>> list(meas({"rare": 1, "common": 1000})), meas.map((1, 1, 1))
    (['common'], (1.0, 1e-06))
    >>> round(meas.table.chance(14), 3), round(meas.table.best_chance(14), 3)
    (0.7, 0.7)
    """
    require_features("contrib")
    key, value = _key_and_value(input_domain, input_metric)
    if not isinstance(d_out, tuple):
        raise ValueError(f"d_out ({d_out!r}) must be (epsilon, delta), with a delta above 0")
    epsilon, delta = target_of(d_out)
    if not delta > 0:
        raise ValueError(f"d_out ({d_out!r}) must have a delta above 0: no key could be released")
    design = design_keys(d_in, epsilon, delta)
    least, most = INTEGER_RANGES[value]

    def release(counts: dict[Any, int]) -> dict[Any, int]:
        keys = sorted(counts)
        numbers = np.array([min(max(counts[k], 0), LARGEST_COUNT) for k in keys], np.int64)
        released, values = design.release(numbers)
        shown = np.flatnonzero(released).tolist()
        bounded = np.clip(values, least, min(most, (1 << 63) - 1)).tolist()
        return {keys[at]: bounded[at] for at in shown}

    made = make_measurement(
        input_domain,
        input_metric,
        dp.approximate(dp.max_divergence()),
        release,
        design.pair,
        TO=f"HashMap<{key}, {value}>",
    )
    made.table = design.table
    made.unit = design.unit
    record = record_text("make_optimal_threshold", tuple(d_in), d_out)

    def event(distance: Any = None) -> Approximate:
        return Approximate(*design.pair(d_in if distance is None else distance))

    return remember(made, Facts(record, None, event))


def _key_and_value(input_domain: Any, input_metric: Any) -> tuple[str, str]:
    """OpenDP's names of the types of keys and of counts."""
    carrier = input_domain.carrier_type if isinstance(input_domain, dp.Domain) else None
    kinds = [str(kind) for kind in getattr(carrier, "args", ())]
    is_map = getattr(carrier, "origin", None) == "HashMap" and len(kinds) == 2
    if not is_map or kinds[1] not in INTEGER_RANGES:
        raise ValueError(
            f"input_domain ({input_domain}) must be map_domain(keys, atom_domain(T=int))"
        )
    if str(input_metric) != f"L01InfDistance(AbsoluteDistance({kinds[1]}))":
        raise ValueError(
            f"input_metric ({input_metric}) must be "
            f"l01inf_distance(absolute_distance(T={kinds[1]!r}))"
        )
    return kinds[0], kinds[1]


then_optimal_threshold = to_then(make_optimal_threshold)
make_threshold = defer(make_optimal_threshold, "make_threshold")
