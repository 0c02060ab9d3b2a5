"""``optimal(query)``: OpenDP's Polars queries, all their answers released together.

The plan of a query is read (:mod:`.plan`), OpenDP itself checks it and says what its columns may
hold, what a person adds to it is followed step by step (:mod:`.limits`), its aggregates become
columns of integers (:mod:`.columns`), and noise for the whole table (:mod:`.noise`) is paid once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from opendp_optimal.budget.events import Approximate, Concentrated, Event
from opendp_optimal.known.law import Law
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import inner_query, make_measurement, plan_of, require_features
from opendp_optimal.measure.facts import Facts, plan_digest, record_text, remember
from opendp_optimal.measure.frames.answer import ALPHA
from opendp_optimal.measure.frames.parts import Parts
from opendp_optimal.measure.frames.prepare import prepared
from opendp_optimal.measure.frames.summary import Summary
from opendp_optimal.measure.guarantee import group


def optimal(
    query: Any,
    *,
    keys: Any = None,
    variance: Iterable[str] = (),
    quantiles: Mapping[str, Sequence[float]] | None = None,
) -> OptimalQuery:
    """Answer a Polars query of an OpenDP context with optimal noise.

    All aggregates of the query are released together, for one price: the query's share of the
    context's budget. The answer is a Polars frame with the keys, each aggregate under its name, and
    ``<name>_accuracy``: with a chance of 95 % the noise of a value is within this.

    :param query: ``context.query()`` with any of filter, with_columns, select, truncate_per_group,
        truncate_num_groups, then ``group_by(...).agg(...)`` or ``select(...)`` of dp expressions
    :param keys: the groups, where the plan has no ``with_keys``: a Polars frame, or for one key a
        list of its values. Groups without rows are answered, too; rows of others are not counted.
        Without any, under (epsilon, delta), groups that enough people have are found and answered
    :param variance: names of means whose variance is released, too, as ``<name>_variance``
    :param quantiles: probabilities by the name of a sum or mean, whose values, moved into its
        bounds, have these quantiles: ``{"income": [0.25, 0.5, 0.75]}`` adds ``income_0.25``,
        ``income_0.25_low``, ``income_0.25_high`` and so on. For any other column bounds are found
        first, common to all groups, for a tenth of what its quantiles may cost
    :raises ValueError: before anything is spent, naming what is not understood

    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_optimal import optimal
    >>> dp.enable_features("contrib")
    >>> data = pl.LazyFrame({"town": ["a", "b"] * 500, "age": [30, 40] * 500})
    >>> context = dp.Context.compositor(
    ...     data=data,
    ...     privacy_unit=dp.unit_of(contributions=1),
    ...     privacy_loss=dp.loss_of(epsilon=1.0),
    ...     split_evenly_over=1,
    ... )
    >>> asked = optimal(
    ...     context.query()
    ...     .group_by("town")
    ...     .agg(dp.len(signed=True), pl.col("age").fill_null(50).dp.mean((18, 90))),
    ...     keys=["a", "b"],
    ... )
    >>> asked.release().columns
    ['town', 'len', 'len_accuracy', 'age', 'age_accuracy']
    """
    require_features("contrib")
    inner = inner_query(query)
    if inner is None:
        raise ValueError(
            f"query ({type(query).__name__}) must be a Polars query of a context that ends in "
            "agg(...) or select(...)"
        )
    frame = plan_of(query)
    names = (variance,) if isinstance(variance, str) else tuple(variance)
    wanted = _wanted(quantiles)
    parts = prepared(inner, frame, keys, names, wanted)
    if parts.alone is None:
        _ = parts.noise.sample  # designed, and drawn from, before anything is paid
    asked = (names, tuple(wanted.items())) if wanted else names
    measurement = _measurement(inner, parts, _record(frame, parts, asked, inner._d_in))
    return OptimalQuery(inner._context, parts, measurement)


def _wanted(quantiles: Any) -> dict[str, tuple[float, ...]]:
    try:
        return {str(n): tuple(float(p) for p in each) for n, each in dict(quantiles or {}).items()}
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"quantiles ({quantiles!r}) must be probabilities by name") from None


class OptimalQuery:
    """A query whose answers are released together; made by :func:`optimal`."""

    def __init__(self, context: Any, parts: Parts, measurement: dp.Measurement) -> None:
        """Keep what was prepared."""
        self._context, self._parts, self._measurement = context, parts, measurement

    def resolve(self) -> dp.Measurement:
        """The measurement that the context is asked."""
        return self._measurement

    def release(self) -> Any:
        """Pay, and return the answers: a Polars DataFrame."""
        if self._context is None:
            raise ValueError("query must be part of a context to be released")
        from opendp_optimal.measure.frames.released import Answers

        found = self._context(self._measurement)
        stored = not hasattr(found, "columns")  # a ledger's answer to a request
        return Answers(found.collect() if stored else found)

    def summarize(self, alpha: float = ALPHA) -> Summary:
        """What will be released and how accurate, before anything is spent.

        :param alpha: the chance of a larger error
        """
        from opendp_optimal.checks import share

        return Summary(self._parts, share("alpha", alpha))

    def law(self, name: str = "len") -> Law:
        """The law of the noise of a count, for a posterior of what was released.

        :param name: of the count
        :raises ValueError: if it is no count, or no single table hides it
        """
        return self._parts.law(name)

    def __repr__(self) -> str:
        """The names of the answers."""
        return f"OptimalQuery({', '.join(self._parts.names)})"


def _record(frame: Any, parts: Parts, asked: tuple[Any, ...], d_in: Any) -> str | None:
    try:
        digest = plan_digest(frame)
    except ValueError:
        return None
    keys = "" if parts.secret is None else "secret"
    if parts.key_frame is not None:
        keys = hashlib.sha256(parts.key_frame.write_ipc(None).getvalue()).hexdigest()
    unit = d_in if isinstance(d_in, int) else str(d_in)
    return record_text("optimal_frame", digest, keys, asked, unit)


def _measurement(inner: dp.Query, parts: Parts, record: str | None) -> dp.Measurement:
    chain: Any = inner._chain
    domain, metric = chain
    price, d_in = parts.price, inner._d_in
    pair = isinstance(inner._d_out, tuple)

    def release(frame: Any) -> Any:
        try:
            return parts.release(frame)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # Polars' panics are no mere exceptions, and their text has data
            pass
        raise ValueError("query: the plan could not be run on the data")

    def loss(d: Any) -> tuple[float, float]:
        if d == d_in:
            return price.main, price.delta
        if isinstance(d, int) and isinstance(d_in, int) and d >= 0:
            if d <= d_in:
                return (price.main, price.delta) if d else (0.0, 0.0)
            if not price.concentrated:
                return group(price.main, price.delta, -(-d // d_in))
        raise ValueError("d_in must be the distance that the query was asked at")

    def event(d: Any = None) -> Event:
        stated = loss(d_in if d is None else d)
        return Concentrated(*stated) if price.concentrated else Approximate(*stated)

    privacy_map: Callable[[Any], Any] = loss if pair else lambda d: loss(d)[0]
    made = make_measurement(
        domain, metric, inner._output_measure, release, privacy_map, TO="ExtrinsicObject"
    )
    made.table = parts.noise.table if parts.alone is None else parts.alone.table
    return remember(made, Facts(record, None, event))
