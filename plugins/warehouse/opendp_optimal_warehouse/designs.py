"""How one price is shared: keys that only the data have, a table of integers, quantiles.

Keys come first, with half of everything: that a key is there at all tells that somebody has it. The
answers are then those of a table with public keys. Quantiles of each column, and the table, have
equal parts of what is left. Every part hides a whole person, and what is released one after the
other adds up: epsilons, deltas, rhos.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from opendp_optimal.extend import (
    KeyDesign,
    Price,
    QuantileDesign,
    TableNoise,
    design_keys,
    design_quantiles,
    float_down,
    pure_epsilon,
    table_noise,
)
from opendp_optimal_warehouse.layout import Layout

_LEAST = Fraction(1, 1000)
"""Epsilon for the quantiles of one row."""


@dataclass(frozen=True)
class Designs:
    """What is drawn from.

    :param keys: releases keys that only the data have, and counts beside them
    :param alone: whether these counts are all that is asked
    :param table: noise for the integers; none where there are none
    :param cuts: releases quantiles, one for each column
    """

    keys: KeyDesign | None
    alone: bool
    table: TableNoise | None
    cuts: tuple[QuantileDesign, ...]

    @property
    def words(self) -> list[str]:
        """What each is, in words."""
        found = []
        if self.keys is not None:
            share = "all" if self.alone else "half"
            found.append(
                f"{share} of the price chooses keys: one with {self.keys.half} people is released "
                "at least about every second time"
            )
        if self.table is not None and not self.alone:
            found.append(self.table.name)
        if self.cuts:
            found.append("selection among bins, for quantiles")
        return found


def designs_of(layout: Layout, price: Price) -> Designs:
    """The best that is known for a release.

    :param layout: of the release
    :param price: of all of it
    :raises ValueError: if the price is too small, or has no delta where keys are secret
    """
    keys, alone = None, False
    if layout.secret:
        alone = _counts_alone(layout)
        part = price if alone else Price(price.main / 2, price.delta / 2)
        keys = _keys(layout, price, part)
        price = part
    parts = len(layout.cuts) + bool(layout.totals)
    each = float_down(Fraction(price.main) / max(1, parts))
    table = None
    if layout.totals and not alone:
        share = Price(each, price.delta, price.concentrated)
        table = table_noise(layout.moves, share, layout.size)
    return Designs(keys, alone, table, _cuts(layout, each, price.concentrated))


def _counts_alone(layout: Layout) -> bool:
    """Whether nothing is asked but the count that keys are chosen by."""
    other = layout.people if layout.alone else layout.count
    return not (layout.columns or layout.cuts or other)


def _keys(layout: Layout, price: Price, part: Price) -> KeyDesign:
    if price.concentrated or not price.delta > 0:
        raise ValueError(
            "keys must be given: keys that only the data have are released under (epsilon, delta) "
            "alone, with a delta above 0"
        )
    groups = layout.person_groups
    assert groups is not None
    return design_keys((groups, groups, 1), part.main, part.delta)


def _cuts(layout: Layout, each: float, concentrated: bool) -> tuple[QuantileDesign, ...]:
    if not layout.cuts:
        return ()
    assert layout.rows is not None
    epsilon = Fraction(pure_epsilon(each) if concentrated else each) / layout.rows
    if epsilon < _LEAST:
        raise ValueError(
            f"the price must leave the quantiles of each row an epsilon of {float(_LEAST):g} "
            f"(now {float(epsilon):g}): ask for fewer columns, or rows_per_person"
        )
    return tuple(design_quantiles(cut.wanted, epsilon) for cut in layout.cuts)
