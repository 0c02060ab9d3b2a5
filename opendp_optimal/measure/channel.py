"""Releases from an optimal channel: exact integer weights, one word of randomness for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import opendp.prelude as dp

from opendp_optimal.exact.numbers import float_up
from opendp_optimal.measure.space import INTEGER_RANGES, space_of
from opendp_optimal.sample.weights import WeightedSampler
from opendp_optimal_bayes._checks import whole
from opendp_optimal_bayes._opendp import make_measurement, partial, require_features
from opendp_optimal_bayes.optimal import OptimalChannel


def make_optimal_channel(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    optimum: OptimalChannel,
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
    :param optimum: what :func:`optimal_channel` returned
    :param lo: the integer that is the channel's first answer
    :param actions: what to release for each of the channel's observations; integers from ``lo``
        on by default

    >>> import opendp.prelude as dp
    >>> from opendp_optimal_bayes import loss_matrix, make_optimal_channel, optimal_channel
    >>> dp.enable_features("contrib")
    >>> best = optimal_channel(
    ...     prior=[0.5, 0.2, 0.2, 0.1], loss=loss_matrix("l1", range(4)), epsilon=0.5
    ... )
    >>> space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    >>> meas = make_optimal_channel(*space, best)
    >>> meas.map(2), meas(3) in range(4)
    (1.0, True)
    """
    require_features("contrib")
    space = space_of(input_domain, input_metric)
    if space.vector or not space.integer:
        raise ValueError(f"input_domain ({input_domain}) must hold single integers")
    if not isinstance(optimum, OptimalChannel):
        raise ValueError(f"optimum ({optimum!r}) must come from optimal_channel")
    least, most = INTEGER_RANGES[space.carrier]
    start = whole("lo", lo, least=least)
    size, outputs = optimum.weights.shape
    if start + size - 1 > most:
        raise ValueError(f"lo ({lo}) must leave room for {size} answers in {space.carrier}")
    if actions is not None and len(actions) != outputs:
        raise ValueError(f"actions (of length {len(actions)}) must be {outputs}")
    optimum.verify()
    epsilon = Fraction(optimum.epsilon)
    rows = [WeightedSampler.of(row) for row in optimum.weights]
    released: Sequence[Any] = range(start, start + outputs) if actions is None else tuple(actions)
    far = optimum.distances
    widest = [
        max(max(far[x][x + d], far[x + d][x]) for x in range(size - d)) if d else Fraction(0)
        for d in range(size)
    ]
    for d in range(1, size):
        widest[d] = max(widest[d], widest[d - 1])

    def release(x: int) -> Any:
        return released[rows[min(max(x - start, 0), size - 1)].draw_one()]

    def privacy_map(d_in: Any) -> float:
        apart = widest[min(int(space.distance(d_in)), size - 1)]
        return apart if apart == math.inf else float_up(epsilon * Fraction(apart))

    output = space.carrier if actions is None else "ExtrinsicObject"
    return make_measurement(
        input_domain, input_metric, dp.max_divergence(), release, privacy_map, TO=output
    )


def then_optimal_channel(
    optimum: OptimalChannel, *, lo: int = 0, actions: Sequence[Any] | None = None
) -> Any:
    """Chain :func:`make_optimal_channel` after a transformation or a metric space.

    :param optimum: what :func:`optimal_channel` returned
    :param lo: the integer that is the channel's first answer
    :param actions: what to release for each of the channel's observations
    """
    return partial(
        lambda domain, metric: make_optimal_channel(domain, metric, optimum, lo=lo, actions=actions)
    )
