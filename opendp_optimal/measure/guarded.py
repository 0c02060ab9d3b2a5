"""A filter for the Context API: constant work per query, and a refusal is not the end."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from opendp.core import measurement_invoke, measurement_map
from opendp.mod import OdometerQueryable

from opendp_optimal.budget.filters import CgpFilter, Filter, GpFilter, check_filter
from opendp_optimal.checks import fraction, positive
from opendp_optimal.errors import BudgetError
from opendp_optimal.exact.numbers import float_down, float_up
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import make_measurement, require_features
from opendp_optimal.measure.anatomy import as_gaussian, spaces
from opendp_optimal.measure.space import measure_name


class _FilteredData(OdometerQueryable):
    """Answers measurements while the filter lets them through."""

    def __init__(
        self, data: Any, wanted: tuple[dp.Domain, dp.Metric, dp.Measure], d_in: Any, keep: Filter
    ) -> None:
        self._data, self._spaces = data, wanted
        self._d_in, self._filter = d_in, keep

    def invoke(self, query: dp.Measurement) -> Any:
        """Charge a measurement, then run it."""
        gaussian = self._filter.gaussian_only
        query, price = priced(query, *self._spaces, self._d_in, gaussian=gaussian)
        if not self._filter.charge(price, gaussian=gaussian):
            left = float_down(self._filter.remaining)
            raise BudgetError(
                f"query ({float(price):.6g}) must cost at most what is left, {left:.6g}"
            )
        return measurement_invoke(query, self._data)

    __call__ = invoke

    def privacy_loss(self, d_in: Any) -> float:
        """Return what was spent, rounded up."""
        if d_in != self._d_in:
            raise ValueError(f"d_in ({d_in!r}) must be the context's, {self._d_in!r}")
        return float_up(self._filter.total)

    def __repr__(self) -> str:
        return f"FilteredData({self._filter!r})"


def priced(
    query: dp.Measurement,
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    output_measure: dp.Measure,
    d_in: Any,
    *,
    gaussian: bool = False,
) -> tuple[dp.Measurement, Fraction]:
    """Return a measurement as it is to be run, and what it costs by its own map.

    :param query: any measurement
    :param input_domain: that it must have
    :param input_metric: that it must have
    :param output_measure: that it must have
    :param d_in: distance at which it is priced
    :param gaussian: whether only Gaussian noise of this package will do
    """
    if not isinstance(query, dp.Measurement):
        raise ValueError(f"query ({type(query).__name__}) must be a measurement")
    if gaussian:
        known = as_gaussian(query)
        if known is None:
            raise ValueError("query must add grid_gaussian noise: the filter prices no other")
        query = known
    if spaces(query) != (input_domain, input_metric, output_measure):
        raise ValueError("query must have the input space and output measure of the data")
    # OpenDP's own map: methods of the object can be anybody's.
    return query, fraction("loss", measurement_map(query, d_in), least=0)


def make_filter(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    output_measure: dp.Measure,
    d_in: Any,
    d_out: Any,
) -> dp.Measurement:
    """Return a measurement that spawns a privacy filter over the data.

    Unlike OpenDP's own, it does the same small amount of work for every query, and goes on after a
    refusal. Each query is charged before it runs.

    :param input_domain: of the data
    :param input_metric: of the data
    :param output_measure: ``max_divergence()`` or ``zero_concentrated_divergence()``
    :param d_in: distance between neighbouring data sets
    :param d_out: the largest total loss at that distance, or a fresh filter to keep the total:
        an :class:`ApproxGpFilter` with reach 1 counts zCDP losses towards (epsilon, delta), a
        :class:`GaussianFilter` with reach 1 those of ``grid_gaussian`` noise, more tightly

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    >>> spawn = make_filter(*space, dp.max_divergence(), d_in=1, d_out=1.0)
    >>> data = spawn(5)
    >>> answer = data(space >> dp.m.then_laplace(scale=2.0))
    >>> data.privacy_loss(1)
    0.5
    """
    require_features("contrib")
    kinds = {"MaxDivergence": GpFilter, "ZeroConcentratedDivergence": CgpFilter}
    name = measure_name(output_measure)
    if name not in kinds:
        raise ValueError(f"output_measure ({name}) must be one of {', '.join(kinds)}")
    if isinstance(d_out, Filter):
        check_filter("d_out", d_out, pure=name == "MaxDivergence")
        capacity, only = d_out.capacity, d_out.gaussian_only

        def fresh() -> Filter:
            kept = Filter(capacity)
            kept.gaussian_only = only
            return kept
    else:
        capacity = Fraction(positive("d_out", d_out))

        def fresh() -> Filter:
            return kinds[name](capacity)

    def privacy_map(d: Any) -> float:
        if d > d_in:
            raise ValueError(f"d_in ({d!r}) must be at most the filter's, {d_in!r}")
        return float_up(capacity)

    wanted = input_domain, input_metric, output_measure

    def spawn(data: Any) -> _FilteredData:
        return _FilteredData(data, wanted, d_in, fresh())

    return make_measurement(*wanted, spawn, privacy_map, TO="ExtrinsicObject")


def filter_context(
    data: Any, *, privacy_unit: Any, privacy_loss: Any, domain: dp.Domain
) -> dp.Context:
    """Return a Context whose queries go through a privacy filter.

    :param data: the private data
    :param privacy_unit: (metric, distance), e.g. from ``dp.unit_of``
    :param privacy_loss: (measure, loss), e.g. from ``dp.loss_of(rho=...)``; the loss may be a
        filter, as for :func:`make_filter`
    :param domain: of the data

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> context = filter_context(
    ...     [1, 2, 3],
    ...     privacy_unit=dp.unit_of(contributions=1),
    ...     privacy_loss=dp.loss_of(rho=0.5),
    ...     domain=dp.vector_domain(dp.atom_domain(T=int)),
    ... )
    >>> count = context.query(rho=0.25).count().gaussian().release()
    >>> round(context.remaining_privacy_loss(), 6)
    0.25
    """
    metric, d_in = privacy_unit
    measure, d_out = privacy_loss
    accountant = make_filter(domain, metric, measure, d_in, d_out)
    total = float_down(d_out.capacity) if isinstance(d_out, Filter) else d_out
    return dp.Context(accountant=accountant, queryable=accountant(data), d_in=d_in, d_out=total)
