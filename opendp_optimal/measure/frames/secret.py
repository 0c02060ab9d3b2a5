"""Keys that only the data have: released where enough people have them.

That a key is there at all tells that somebody has it. So the keys of a query without keys are
released first, by how many people they have, or rows where nothing tells people apart, by the
design of :mod:`opendp_optimal.measure.keys`: (e1, d1) hides a person in all keys together,
those that appear and those that do not. What is asked of the groups is answered for the released
keys only. They are public by then, so that this is the table of a query with known keys, whose
noise hides a person at (e2, d2) whatever keys were chosen. A release that depends on an earlier one
is composed with it adaptively: the whole costs (e1 + e2, d1 + d2). Each has half of the budget.
Where a query asks for nothing but that count, the count of the first release is the answer, and it
has all of the budget.

A truncation that keeps rows at random runs once, for both releases. It draws for each person apart
from all others, so that neighbours can be compared draw by draw.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.measure.frames.keys import key_schema
from opendp_optimal.measure.frames.limits import Limits
from opendp_optimal.measure.frames.noise import Price
from opendp_optimal.measure.frames.plan import Plan
from opendp_optimal.measure.keys import KeyDesign, design_keys


@dataclass(frozen=True)
class SecretKeys:
    """How keys are chosen, and what is left for the answers.

    :param design: releases keys by their counts
    :param people: whether people are counted, or rows
    :param alone: whether the count is all that is asked
    :param rest: what the other answers may cost; None where there are none
    """

    design: KeyDesign
    people: bool
    alone: bool
    rest: Price | None

    @property
    def told(self) -> str:
        """How keys are chosen, in words."""
        share = "all" if self.alone else "half"
        counted = "people" if self.people else "rows"
        return (
            f"{share} of it chooses the keys: one with {self.design.half} {counted} is released at "
            "least about every second time"
        )


def secret_keys(
    plan: Plan, limits: Limits, price: Price, *, people: bool, alone: bool
) -> SecretKeys:
    """The release of keys, designed.

    :param plan: of the query
    :param limits: of a person
    :param price: of the whole query
    :param people: whether people are counted, or rows
    :param alone: whether the count is all that is asked
    :raises ValueError: if the budget has no delta, or keys are of a type without an order
    """
    if price.concentrated or not price.delta > 0:
        raise ValueError(
            "keys must be given, by with_keys(...) in the query or by keys=: keys that only the "
            "data have can be released under (epsilon, delta) alone, with a delta above 0"
        )
    for name, kind in key_schema(plan).items():
        if kind.is_nested() or kind.is_object():
            raise ValueError(f"keys must be given: {name} ({kind}) has no single values")
    each = limits.people if people else limits.each
    distance = limits.groups, min(limits.rows, limits.groups * each), each
    part = price if alone else Price(price.main / 2, price.delta / 2)
    design = design_keys(distance, part.main, part.delta)
    return SecretKeys(design, people, alone, None if alone else part)


def count_accuracy(design: KeyDesign, alpha: float) -> float:
    """No key is released with a larger error with a chance of more than alpha, whatever its count.

    :param design: that releases the counts
    :param alpha: the chance
    """
    table = design.table
    below = np.concatenate([[0.0], np.cumsum(table.weights / TOTAL)])  # of noise, from -radius on
    counts = np.arange(1, table.threshold + table.radius + 1)
    held = np.append(table.nothing, 0)[np.minimum(counts, len(table.nothing))] / TOTAL

    def under(noise: Any) -> Any:
        """The chance of less noise."""
        return below[np.clip(noise + table.radius, 0, len(below) - 1)]

    short = under(table.threshold - counts)

    def beyond(within: int) -> float:
        more = 1 - np.maximum(under(within + 1), short)
        less = np.maximum(under(-within) - short, 0.0)
        rescued = np.where(np.abs(table.rescue - counts) > within, np.maximum(short - held, 0), 0.0)
        return float((more + less + rescued).max())

    farthest = table.threshold + 2 * table.radius
    high = bisect_left(range(farthest), True, key=lambda within: beyond(within) <= alpha)
    return float(high if design.unit == 1 else (high + 1) * design.unit)
