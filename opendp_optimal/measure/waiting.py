"""What waits in a chain: for its input space, for a budget, for the measurement before it.

``then_`` functions wait for a domain and a metric (:func:`to_then`). ``.optimal()`` in the Context
API waits for its distance and its budget (:func:`defer`).

OpenDP finds a missing parameter by binary search, one construction at a time: that would be sixty
linear programmes. Here the measurement is built once, when the query is resolved and its own
budget is known. :class:`Deferred` is what stands in the chain until then: a partial chain, so
that OpenDP asks it to ``fix`` itself, and a transformation by type, so that Python offers it
``chain >> deferred`` first. :class:`Postprocess` waits for the measurement on its left.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, NoReturn, ParamSpec

from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import partial
from opendp_optimal.measure.release import DirectMeasurement

P = ParamSpec("P")


def to_then(make: Callable[Concatenate[dp.Domain, dp.Metric, P], Any]) -> Callable[P, Any]:
    """Turn a ``make_`` function into its ``then_`` function, for use after ``>>``.

    :param make: takes ``(input_domain, input_metric, ...)``.

    >>> from opendp_optimal import make_optimal_noise
    >>> to_then(make_optimal_noise).__name__
    'then_optimal_noise'
    """
    whole = inspect.signature(make)
    rest = whole.replace(parameters=list(whole.parameters.values())[2:], return_annotation="Any")

    def then(*args: P.args, **kwargs: P.kwargs) -> Any:
        rest.bind(*args, **kwargs)  # a wrong argument is named now, not when the chain is built
        return partial(lambda domain, metric: make(domain, metric, *args, **kwargs))

    told = f"Chain :func:`{make.__name__}` after a transformation or a metric space."
    more = f"Its arguments are those of :func:`{make.__name__}` after the first two."
    _name(then, make, make.__name__.replace("make_", "then_", 1), rest, told, more)
    return then


def defer(
    make: Callable[..., dp.Measurement], name: str, *, without: Sequence[str] = ()
) -> Callable[..., Deferred]:
    """Turn a constructor with ``d_in`` and ``d_out`` into one that waits for its query's.

    :param make: takes ``(input_domain, input_metric, ..., d_in, d_out, *, ...)``.
    :param name: what the new constructor is called.
    :param without: keywords that have no meaning in a query.
    """
    whole = inspect.signature(make)
    left_out = {"d_in", "d_out", "output_measure", *without}
    concentrated = "output_measure" in whole.parameters
    parameters = [p for p in whole.parameters.values() if p.name not in left_out]
    rest = whole.replace(parameters=parameters, return_annotation="Deferred")

    def waiting(
        input_domain: dp.Domain, input_metric: dp.Metric, *given: Any, **options: Any
    ) -> Deferred:
        bound = rest.bind(input_domain, input_metric, *given, **options).arguments
        chosen = {name: bound[name] for name in list(bound)[2:]}

        def build(
            domain: dp.Domain, metric: dp.Metric, d_in: Any, d_out: Any, **measure: Any
        ) -> dp.Measurement:
            return make(domain, metric, d_in=d_in, d_out=d_out, **chosen, **measure)

        return Deferred((input_domain, input_metric), build, concentrated=concentrated)

    told = f"Wait for the distance and the budget of a query, then :func:`{make.__name__}`."
    more = f"For the Context API. The options are those of :func:`{make.__name__}`."
    _name(waiting, make, name, rest, told, more)
    return waiting


def _name(
    function: Any, make: Any, name: str, signature: inspect.Signature, told: str, more: str
) -> None:
    """Give a function the name, place, signature and words of one that was written by hand."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = make.__module__
    function.__doc__ = f"{told}\n\n    {more}\n    "
    function.__signature__ = signature


class Deferred(dp.PartialChain, dp.Transformation):
    """A measurement that waits for the distance and the budget of its query.

    A mechanism that a plugin registers may return one too.

    :param left: what comes before: a metric space or a transformation.
    :param build: called with ``(input_domain, input_metric, d_in, d_out)`` once both are known.
    :param concentrated: whether ``build`` knows zCDP, and takes ``output_measure`` by its name.
    """

    _type_ = dp.Transformation._type_

    def __init__(
        self, left: Any, build: Callable[..., dp.Measurement], *, concentrated: bool = False
    ) -> None:
        """Remember what comes before and how to build."""
        self._left = left
        self._build = build
        self._concentrated = concentrated

    def __del__(self) -> None:
        """Free nothing: there is nothing behind the pointer."""

    def __rrshift__(self, left: Any) -> Deferred:
        """Chain after a transformation or a metric space."""
        if isinstance(left, dp.PartialChain):
            self._refuse()
        if not isinstance(self._left, tuple):
            if isinstance(left, tuple):
                return self
            left = left >> self._left
        return Deferred(left, self._build, concentrated=self._concentrated)

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
        measure = self._measure(output_measure)
        if isinstance(self._left, tuple):
            return self._build(*self._left, d_in, d_out, **measure)
        left = self._left
        noise = self._build(*left.output_space, left.map(d_in), d_out, **measure)
        measurement: dp.Measurement = left >> noise
        return measurement

    def _measure(self, output_measure: dp.Measure | None) -> dict[str, dp.Measure]:
        """What ``build`` is told of the measure: nothing where the shape of ``d_out`` tells it."""
        if output_measure is None:
            return {}
        if self._concentrated:
            return {"output_measure": output_measure}
        if str(output_measure.type) in ("MaxDivergence", "Approximate<MaxDivergence>"):
            return {}
        raise ValueError(
            f"output_measure ({output_measure}) must be max_divergence() or "
            f"approximate(max_divergence()): state the loss by epsilon, or by epsilon and delta"
        )

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


class Postprocess(DirectMeasurement):
    """Post-processing that looks at the measurement it goes after: write ``after``.

    By type a measurement, so that Python offers it ``measurement >> postprocess`` first; it can do
    nothing else that a measurement can.
    """

    _type_ = dp.Measurement._type_

    def __del__(self) -> None:
        """Free nothing: there is nothing behind the pointer."""

    def after(self, measurement: dp.Measurement) -> dp.Measurement:
        """Post-process a measurement.

        :param measurement: what comes before.
        """
        raise NotImplementedError

    def __rrshift__(self, measurement: Any) -> dp.Measurement:
        """Post-process a measurement."""
        if not isinstance(measurement, dp.Measurement) or isinstance(measurement, Postprocess):
            raise ValueError(f"{type(self).__name__.lower()} goes after a measurement")
        return self.after(measurement)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this waits for its mechanism: write measurement >> ...")

    __call__ = invoke = map = check = __rshift__ = _refuse
    input_domain = input_metric = output_measure = property(_refuse)
    input_space = function = output_distance_type = property(_refuse)
    input_distance_type = input_carrier_type = property(_refuse)

    def __repr__(self) -> str:
        """Show what it is."""
        return f"{type(self).__name__}(waiting for a measurement)"
