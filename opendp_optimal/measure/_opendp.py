"""The only module, with ``_callback``, that touches private parts of OpenDP 0.16, all tested.

What is private: the table of constructors behind the Context API, the partial constructor that
``then_`` functions return, the names of types, the query inside a Polars query, and the
constructors in ``opendp._internal`` that OpenDP's own Python mechanisms use (they ask for the
feature ``contrib`` only).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from opendp._convert import py_to_c
from opendp._internal import (
    _extrinsic_distance,
    _extrinsic_domain,
    _make_measurement,
    _make_transformation,
    _new_pure_function,
)
from opendp._lib import AnyObjectPtr
from opendp.context import constructors
from opendp.domains import domain_carrier_type
from opendp.extras.polars import LazyFrameQuery
from opendp.measures import measure_distance_type
from opendp.metrics import metric_distance_type
from opendp.mod import _PartialConstructor, assert_features
from opendp.typing import _ELEMENTARY_TYPES

from opendp_optimal.lazy import Late
from opendp_optimal.measure import dp
from opendp_optimal.measure._callback import NUMBERS, callback, number_callback
from opendp_optimal.measure.facts import Facts, remember

_FRAME = "LazyFrame"
"""OpenDP's name of what holds a Polars frame."""
_enrolled: dict[str, Any] = {}


def require_features(*names: str) -> None:
    """Raise unless OpenDP's features of these names are enabled."""
    assert_features(*names)


def partial(build: Callable[[dp.Domain, dp.Metric], Any]) -> Any:
    """Return what a ``then_`` function returns: a constructor that waits for its input space."""
    return _PartialConstructor(build)


def assert_honest(argument: str) -> None:
    """Ask for the feature "honest-but-curious": a guarantee rests on what the caller states.

    :param argument: what is stated and cannot be checked, as in "changed (1)".
    :raises OpenDPException: naming the argument, where the feature is not enabled.
    """
    try:
        require_features("honest-but-curious")
    except dp.OpenDPException as error:
        raise dp.OpenDPException(
            f"{argument} is a promise about the data that nothing checks. {error.variant}"
        ) from None


def enroll(make: Callable[..., Any], name: str) -> None:
    """Add a constructor to the Context API under a name; adding the same one again is fine.

    :param make: takes ``(input_domain, input_metric, ...)``; one that is named by its place
        (:func:`~opendp_optimal.lazy.late`) is imported when it is first used.
    :param name: what ``context.query().<name>()`` is called.
    :raises ValueError: if OpenDP or somebody else has the name.
    """
    refuse_taken(make, name)
    if name in constructors:
        return
    if isinstance(make, Late):
        constructors[name] = _LateThen(make), True
    else:
        dp.register(make, name)
    _enrolled[name] = make


def refuse_taken(make: Callable[..., Any], name: str) -> None:
    """Raise if OpenDP or somebody else has the name in the Context API."""
    if name in constructors and _enrolled.get(name) != make:
        other = getattr(_enrolled.get(name), "__module__", "opendp")
        raise ValueError(f"name ({name!r}) is already in the Context API, from {other}")


class _LateThen:
    """What OpenDP's table of constructors holds for a function that is imported late."""

    def __init__(self, make: Late) -> None:
        self._make = make

    @property
    def __signature__(self) -> inspect.Signature:
        whole = inspect.signature(self._make.found)
        return whole.replace(parameters=list(whole.parameters.values())[2:])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return partial(lambda domain, metric: self._make(domain, metric, *args, **kwargs))


def introduce(kind: type[dp.Measurement]) -> None:
    """Let OpenDP recognise a class of measurements in lists; it looks classes up by identity."""
    _ELEMENTARY_TYPES[kind] = _ELEMENTARY_TYPES[dp.Measurement]


def make_measurement(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    output_measure: dp.Measure,
    function: Callable[[Any], Any],
    privacy_map: Callable[[Any], Any],
    TO: str,  # noqa: N803 (OpenDP's name)
    *,
    record: str | None = None,
) -> dp.Measurement:
    """Build a measurement from Python functions; from number to number on the short way.

    :param record: text that identifies it, the constructor with every parameter; the spaces and
        the measure are known. Without it a ledger cannot tell that a question was asked before.
    """
    carrier = str(input_domain.carrier_type)
    if {carrier, TO} <= NUMBERS:
        given = number_callback(function, carrier, TO)
    else:
        given = callback(function, TO, frames=carrier == _FRAME)
    made = _make_measurement(
        input_domain,
        input_metric,
        output_measure,
        given,
        callback(privacy_map, measure_distance_type(output_measure)),
        TO=TO,
    )
    return remember(made, Facts(record))


def make_transformation(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    output_domain: dp.Domain,
    output_metric: dp.Metric,
    function: Callable[[Any], Any],
    stability_map: Callable[[Any], Any],
    *,
    record: str | None = None,
) -> dp.Transformation:
    """Build a transformation from Python functions.

    :param record: text that identifies it, the constructor with every parameter.
    """
    frames = str(input_domain.carrier_type) == _FRAME
    made = _make_transformation(
        input_domain,
        input_metric,
        output_domain,
        output_metric,
        callback(function, domain_carrier_type(output_domain), frames=frames),
        callback(stability_map, metric_distance_type(output_metric)),
    )
    return remember(made, Facts(record))


def new_domain(identifier: str, member: Callable[[Any], bool], descriptor: Any = None) -> dp.Domain:
    """A domain of Python objects; domains are equal if their texts are.

    :param identifier: what is in it
    :param member: whether an object is
    :param descriptor: a value that says more, whose ``repr`` tells it from any other: OpenDP does
        not compare descriptors, so its text becomes part of the domain's
    """
    text = identifier if descriptor is None else f"{identifier}({descriptor!r})"
    return _extrinsic_domain(text, callback(member, "bool"), descriptor)


def new_metric(identifier: str) -> dp.Metric:
    """A metric on Python objects; metrics of equal identifiers are equal.

    :param identifier: text that says how objects are compared
    """
    return _extrinsic_distance(identifier)


def new_profile(curve: Callable[[float], float]) -> Any:
    """A privacy profile of OpenDP's, from its curve: epsilon to delta."""
    return dp.new_privacy_profile(callback(curve, "f64"))


def hand_over(data: Any, domain: dp.Domain) -> Any:
    """Convert data to OpenDP's own form, once; any measurement on the domain can be asked of it.

    :param data: a member of the domain.
    :param domain: of the data.
    """
    return py_to_c(data, c_type=AnyObjectPtr, type_name=domain.carrier_type)


def postprocess(
    measurement: dp.Measurement,
    function: Callable[[Any], Any],
    TO: str,  # noqa: N803 (OpenDP's name)
    *,
    record: str | None = None,
) -> dp.Measurement:
    """Return the measurement followed by a function of its release; the privacy map stays.

    :param measurement: releases what ``function`` takes.
    :param function: never sees private data.
    :param TO: OpenDP's name of the type that ``function`` returns.
    :param record: text that identifies the function, with every parameter.
    """
    after = remember(_new_pure_function(callback(function, TO), TO=TO), Facts(record))
    return measurement >> after


def inner_query(query: Any) -> dp.Query | None:
    """Return the plain query that a query on a LazyFrame context wraps; None for any other."""
    if not isinstance(query, LazyFrameQuery):
        return None
    # Past LazyFrameQuery's own attribute lookup, which builds Polars plans.
    inner: dp.Query = object.__getattribute__(query, "_query")
    return inner


def plan_of(query: Any) -> Any:
    """Return the Polars plan of a query on a LazyFrame context; it holds no data."""
    return object.__getattribute__(query, "polars_plan")


def asked_of(query: dp.Query) -> tuple[Any, Any]:
    """Return the distance and the budget of a query."""
    return query._d_in, query._d_out
