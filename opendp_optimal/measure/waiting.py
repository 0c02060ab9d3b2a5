"""The Context API: ``context.query().<...>.optimal().release()``.

OpenDP finds a missing parameter by binary search, one construction at a time: that would be sixty
linear programmes. Here the measurement is built once, when the query is resolved and its own
budget is known. :class:`Deferred` is what stands in the chain until then: a partial chain, so
that OpenDP asks it to ``fix`` itself, and a transformation by type, so that Python offers it
``chain >> deferred`` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import opendp.prelude as dp

from opendp_optimal.measure._opendp import PartialChain, enroll, guard_budget
from opendp_optimal.measure.noise import LossLike, make_optimal_noise

__all__ = ["Deferred", "make_optimal"]


class Deferred(PartialChain, dp.Transformation):
    """A measurement that waits for the distance and the budget of its query.

    A mechanism that a plugin registers may return one too.

    :param left: what comes before: a metric space or a transformation.
    :param build: called with ``(input_domain, input_metric, d_in, d_out)`` once both are known.
    """

    _type_ = dp.Transformation._type_

    def __init__(self, left: Any, build: Callable[..., dp.Measurement]) -> None:
        """Remember what comes before and how to build."""
        self._left = left
        self._build = build

    def __del__(self) -> None:
        """Free nothing: there is nothing behind the pointer."""

    def __rrshift__(self, left: Any) -> Deferred:
        """Chain after a transformation or a metric space."""
        if isinstance(left, PartialChain):
            self._refuse()
        if isinstance(self._left, tuple):
            return Deferred(left, self._build)
        return self if isinstance(left, tuple) else Deferred(left >> self._left, self._build)

    def __rshift__(self, other: Any) -> NoReturn:
        """Refuse: post-processing is chained after the release."""
        self._refuse()

    def fix(
        self,
        d_in: Any,
        d_out: Any,
        output_measure: dp.Measure | None = None,
        bounds: Any = None,
        T: Any = None,  # noqa: N803 (OpenDP's name)
    ) -> dp.Measurement:
        """Build the measurement for a distance and a budget.

        :param d_in: distance between neighbouring data sets, before the chain on the left.
        :param d_out: the budget of this query, exactly as the context states it.
        :param output_measure: how the context measures privacy.
        :param bounds: part of OpenDP's contract; nothing is searched for.
        :param T: part of OpenDP's contract; nothing is searched for.
        """
        target = _budget(d_out, output_measure)
        if isinstance(self._left, tuple):
            return self._build(*self._left, d_in, target)
        left = self._left
        noise = self._build(*left.output_space, left.map(d_in), target)
        measurement: dp.Measurement = left >> noise
        return measurement

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "this noise is designed when the query is released or resolved: every step before it "
            "must have its parameters, and post-processing goes after the release"
        )

    __call__ = invoke = map = check = _refuse
    input_domain = output_domain = input_metric = output_metric = property(_refuse)
    input_space = output_space = function = output_measure = property(_refuse)
    input_distance_type = output_distance_type = input_carrier_type = property(_refuse)

    def __repr__(self) -> str:
        """Show what comes before."""
        return f"Deferred(after={self._left!r})"


def make_optimal(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    *,
    loss: LossLike = "l1",
    gap: float = 1e-3,
    changed: int | None = None,
    cache: bool = True,
) -> Deferred:
    """Add optimal noise with whatever budget the query has; for the Context API.

    Registered there as ``optimal``. The options are those of
    :func:`~opendp_optimal.make_optimal_noise`.

    :param input_domain: domain of the value the noise is added to.
    :param input_metric: metric of the value the noise is added to.
    :param loss: what to minimise.
    :param gap: the largest acceptable relative gap to the proven lower bound.
    :param changed: for vectors, the most coordinates that can differ between neighbours; needs the
        feature "honest-but-curious" where nothing proves it.
    :param cache: whether solved tables are kept on disk.

    >>> import opendp.prelude as dp
    >>> import opendp_optimal
    >>> dp.enable_features("contrib")
    >>> context = dp.Context.compositor(
    ...     data=[1.0, 2.0, 3.0],
    ...     privacy_unit=dp.unit_of(contributions=1),
    ...     privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-7),
    ...     split_evenly_over=1,
    ...     domain=dp.vector_domain(dp.atom_domain(T=float, nan=False)),
    ... )
    >>> answer = context.query().clamp((0.0, 10.0)).sum().optimal().release()
    >>> isinstance(answer, float)
    True
    """

    def build(domain: dp.Domain, metric: dp.Metric, d_in: Any, d_out: Any) -> dp.Measurement:
        return make_optimal_noise(
            domain, metric, d_in, d_out, loss=loss, gap=gap, changed=changed, cache=cache
        )

    return Deferred((input_domain, input_metric), build)


def _budget(d_out: Any, output_measure: dp.Measure | None) -> Any:
    if output_measure is None:
        return d_out
    kind = str(output_measure.type)
    if kind not in ("MaxDivergence", "Approximate<MaxDivergence>"):
        raise ValueError(
            f"output_measure ({output_measure}) must be max_divergence() or "
            f"approximate(max_divergence()): state the loss by epsilon, or by epsilon and delta"
        )
    return d_out


guard_budget(Deferred)
enroll(make_optimal, "optimal")
