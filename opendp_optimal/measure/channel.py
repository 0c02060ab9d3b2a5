"""Measurements that draw from the table of a channel: one word of randomness for each release."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

from opendp_optimal.checks import whole
from opendp_optimal.exact.numbers import float_up
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import make_measurement, require_features
from opendp_optimal.measure.facts import record_text
from opendp_optimal.measure.space import INTEGER_RANGES, space_of
from opendp_optimal.measure.waiting import to_then
from opendp_optimal.table.channel import ChannelTable


def make_optimal_channel(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    optimum: Any,
    *,
    lo: int = 0,
    actions: Sequence[Any] | None = None,
) -> dp.Measurement:
    """Make a measurement that releases an action by an optimal channel.

    The answer (clamped to the channel's) chooses a row of integers that add up to 2^62, and one
    word from the operating system's cryptographic source chooses the action. The privacy map is
    exact: epsilon times the largest distance, in the channel's metric, of answers ``d_in`` apart.

    :param input_domain: an atom domain of integers
    :param input_metric: the absolute distance
    :param optimum: a :class:`~opendp_optimal.ChannelTable` with delta 0, or what has one as its
        ``table``
    :param lo: the integer that is the channel's first answer
    :param actions: what to release for each of the channel's observations; integers from ``lo``
        on by default

    >>> import opendp.prelude as dp
    >>> from opendp_optimal import solve_channel
    >>> dp.enable_features("contrib")
    >>> far = [[abs(x - z) for z in range(4)] for x in range(4)]
    >>> best = solve_channel([0.5, 0.25, 0.125, 0.125], far, 0.5, far)
    >>> space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    >>> meas = make_optimal_channel(*space, best)
    >>> meas.map(2), meas(3) in range(4)
    (1.0, True)
    """
    require_features("contrib")
    space = space_of(input_domain, input_metric)
    if space.vector or not space.integer:
        raise ValueError(f"input_domain ({input_domain}) must hold single integers")
    table = getattr(optimum, "table", optimum)
    if not isinstance(table, ChannelTable):
        raise ValueError(f"optimum ({optimum!r}) must come from optimal_channel or solve_channel")
    if table.request.delta != 0:
        raise ValueError(f"optimum (delta {table.request.delta}) must have delta 0")
    least, most = INTEGER_RANGES[space.carrier]
    start = whole("lo", lo, least=least)
    size, outputs = table.weights.shape
    if start + size - 1 > most:
        raise ValueError(f"lo ({lo}) must leave room for {size} answers in {space.carrier}")
    if actions is not None and len(actions) != outputs:
        raise ValueError(f"actions (of length {len(actions)}) must be {outputs}")
    table.verify()
    epsilon = table.request.epsilon
    released: Sequence[Any] = range(start, start + outputs) if actions is None else tuple(actions)
    far = table.request.distances
    exactly = [
        max(max(far[x][x + d], far[x + d][x]) for x in range(size - d)) if d else Fraction(0)
        for d in range(size)
    ]
    widest = list(accumulate(exactly, max))

    def release(x: int) -> Any:
        return released[table.draw(min(max(x - start, 0), size - 1))]

    def privacy_map(d_in: Any) -> float:
        apart = widest[min(int(space.distance(d_in)), size - 1)]
        return apart if apart == math.inf else float_up(epsilon * Fraction(apart))

    output = space.carrier if actions is None else "ExtrinsicObject"
    made = hashlib.sha256(table.weights.tobytes()).hexdigest()
    return make_measurement(
        input_domain,
        input_metric,
        dp.max_divergence(),
        release,
        privacy_map,
        TO=output,
        record=record_text("make_optimal_channel", made, start) if actions is None else None,
    )


then_optimal_channel = to_then(make_optimal_channel)
