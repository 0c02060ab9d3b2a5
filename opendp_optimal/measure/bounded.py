"""Measurements with data-dependent noise: ``make_optimal_bounded_noise`` and its relatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from opendp_optimal.budget.events import Approximate, of_table
from opendp_optimal.exact.numbers import float_up
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import require_features
from opendp_optimal.measure.facts import Facts, record_text
from opendp_optimal.measure.guarantee import designed_distance, group
from opendp_optimal.measure.noise import LossLike, stated, target_of
from opendp_optimal.measure.release import make_numeric
from opendp_optimal.measure.space import INTEGER_RANGES, Space, space_of
from opendp_optimal.measure.waiting import defer, to_then
from opendp_optimal.search.bounded import solve_bounded
from opendp_optimal.table.bounded import BoundedTable

LONGEST = 64
"""Integer ranges up to this length have a row for each integer; longer ones are rounded reals."""


def make_optimal_bounded_noise(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    d_in: float,
    d_out: float | tuple[float, float],
    *,
    range: tuple[float, float] | None = None,
    loss: LossLike = "l1",
    prior: Sequence[float] | None = None,
    cap: float | None = None,
    bins: int | Sequence[float] | None = None,
    gap: float = 1e-2,
    cache: bool = True,
) -> dp.Measurement:
    r"""Make a measurement whose noise depends on the answer, for answers within a range.

    Answers outside the range count as its nearer end, and releases stay within it. The table it
    draws from has two exact proofs: that the release is (epsilon, delta)-private, and how far its
    expected loss can be from that of any other mechanism. The privacy map answers every distance,
    beyond ``d_in`` by group privacy; on floats the noise is made for a distance that is larger than
    ``d_in`` by a part of 2^-16. Where the range is more than 80 times as long as ``d_in``, it is
    noise that is alike for all answers, moved into the range.

    :param input_domain: atoms of any float or integer type; floats must exclude NaN.
    :param input_metric: ``absolute_distance``.
    :param d_in: the largest distance between neighbours; the noise is designed for it. Anything
        beyond the length of the range is the same as that length.
    :param d_out: ``(epsilon, delta)`` gives a measurement under
        ``approximate(max_divergence())``, a single epsilon pure differential privacy under
        ``max_divergence()``.
    :param range: smallest and largest answer; by default the bounds of the domain.
    :param loss: of the error: "l1", "l2", "pinball:0.9", a registered name, a ``Loss`` or a
        callable.
    :param prior: chances of the answers; see :func:`~opendp_optimal.solve_bounded`.
    :param cap: a bound on the expected loss at every single answer.
    :param bins: number of equal bins, or the ends of unequal ones; chosen by itself if None.
    :param gap: the largest acceptable relative gap between the loss and its proven lower bound.
    :param cache: whether solved tables are kept on disk.
    :raises ValueError: naming the argument for which there is no proof or no sense.

    >>> import opendp.prelude as dp
    >>> from opendp_optimal import make_optimal_bounded_noise
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(bounds=(0, 10)), dp.absolute_distance(T=int)
    >>> meas = make_optimal_bounded_noise(*space, d_in=1, d_out=(1.0, 1e-6))
    >>> meas.map(1)
    (1.0, 1e-06)
    >>> 0 <= meas(3) <= 10
    True
    """
    require_features("contrib")
    space = space_of(input_domain, input_metric)
    if space.vector:
        raise ValueError(f"input_domain ({input_domain}) must be an atom_domain: one number")
    low, high = _range(input_domain, space, range)
    distance = designed_distance(space, d_in)
    epsilon, delta = target_of(d_out)
    listed = space.integer and high - low <= LONGEST
    table = solve_bounded(
        epsilon,
        delta,
        sensitivity=float_up(min(distance, Fraction(high) - Fraction(low))),
        range=(low, high),
        bins=bins,
        loss=loss,
        prior=prior,
        cap=cap,
        integer=listed,
        gap=gap,
        cache=cache,
    )
    pair = _privacy_map(space, table, d_in)
    measure, privacy_map = stated(d_out, pair)
    release = table.whole_releaser() if space.integer else table.releaser()
    record = record_text("make_optimal_bounded_noise", table.problem.fingerprint, d_in, d_out)

    def event(d: Any) -> Approximate:
        # The curve of the whole sensitivity holds for every distance up to it.
        paid = (table.epsilon, table.delta) if d is None else pair(d)
        if paid[0] > table.epsilon or paid[1] > table.delta:
            return Approximate(*paid)
        return replace(of_table(table), epsilon=paid[0], delta=paid[1])

    facts = Facts(record, None, event)
    made = make_numeric(input_domain, input_metric, measure, space, release, privacy_map, facts)
    made.table = table
    return made


then_optimal_bounded_noise = to_then(make_optimal_bounded_noise)
make_optimal_bounded = defer(make_optimal_bounded_noise, "make_optimal_bounded")


def _range(
    domain: dp.Domain, space: Space, given: tuple[float, float] | None
) -> tuple[float, float]:
    """The range that was given, or else the bounds of the domain."""
    ends = given if given is not None else getattr(domain, "bounds", None)
    if ends is None:
        raise ValueError(
            f"range must be given: the domain ({domain}) has no bounds. Clamp the answer, or pass "
            "range=(low, high)"
        )
    try:
        low, high = (float(end) for end in ends)
        whole = (int(ends[0]), int(ends[1]))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"range ({ends!r}) must be a pair (low, high) of finite numbers") from None
    if not space.integer:
        return low, high
    if (low, high) != tuple(ends) or (low, high) != whole:
        raise ValueError(
            f"range ({ends!r}) must be integers that floats hold for {space.carrier} data"
        )
    least, most = INTEGER_RANGES[space.carrier]
    if low < least or high > most:
        raise ValueError(f"range ({ends!r}) must be within what {space.carrier} can hold")
    return low, high


def _privacy_map(
    space: Space, table: BoundedTable, d_in: Any
) -> Callable[[Any], tuple[float, float]]:
    """(epsilon, delta) at every distance: delta falls with distance, and groups pay for a crowd."""
    first, last = space.distance(d_in), designed_distance(space, d_in)
    everything = last >= table.problem.width
    known: dict[int, float] = {}

    def pair(d: Any) -> tuple[float, float]:
        distance = space.distance(d)
        if distance > last and not everything:
            return group(table.epsilon, table.delta, math.ceil(distance / last))
        if distance == 0:
            return 0.0, 0.0
        if distance >= min(first, table.problem.reach):
            return table.epsilon, table.delta
        apart = table.apart(distance)
        if apart not in known:
            known[apart] = min(table.delta, table.delta_at(table.epsilon, apart))
        return table.epsilon, known[apart]

    return pair
