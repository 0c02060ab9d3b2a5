"""The only module, with ``_callback``, that touches private parts of OpenDP 0.16, all tested.

What is private: the table of constructors behind the Context API, the partial constructor that
``then_`` functions return, the names of types, the query inside a Polars query, the description
of a chain, how a query is resolved, and the constructors in ``opendp._internal`` that OpenDP's own
Python mechanisms use (they ask for the feature ``contrib`` only).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import opendp.prelude as dp
from opendp._internal import _make_measurement, _make_transformation
from opendp.context import PartialChain, constructors
from opendp.extras.polars import LazyFrameQuery
from opendp.mod import _PartialConstructor, assert_features
from opendp.typing import _ELEMENTARY_TYPES

from opendp_optimal.measure._callback import NUMBERS, number_callback

__all__ = [
    "PartialChain",
    "assert_features",
    "assert_honest",
    "enroll",
    "guard_budget",
    "inner_query",
    "introduce",
    "links",
    "make_measurement",
    "make_transformation",
    "partial",
]

_enrolled: dict[str, Callable[..., Any]] = {}


def partial(build: Callable[[dp.Domain, dp.Metric], Any]) -> Any:
    """Return what a ``then_`` function returns: a constructor that waits for its input space."""
    return _PartialConstructor(build)


def assert_honest(argument: str) -> None:
    """Ask for the feature "honest-but-curious": a guarantee rests on what the caller states.

    :param argument: what is stated and cannot be checked, as in "changed (1)".
    :raises OpenDPException: naming the argument, where the feature is not enabled.
    """
    try:
        assert_features("honest-but-curious")
    except dp.OpenDPException as error:
        raise dp.OpenDPException(
            f"{argument} is a promise about the data that nothing checks. {error.variant}"
        ) from None


def enroll(make: Callable[..., Any], name: str) -> None:
    """Add a constructor to the Context API under a name; adding the same one again is fine.

    :param make: takes ``(input_domain, input_metric, ...)``.
    :param name: what ``context.query().<name>()`` is called.
    :raises ValueError: if OpenDP or somebody else has the name.
    """
    if name in constructors and _enrolled.get(name) is not make:
        other = getattr(_enrolled.get(name), "__module__", "opendp")
        raise ValueError(f"name ({name!r}) is already in the Context API, from {other}")
    if name not in constructors:
        dp.register(make, name)
        _enrolled[name] = make


def guard_budget(kind: type[PartialChain]) -> None:
    """Let queries that end in such a chain say so when their budget is missing or used up.

    OpenDP resolves a query without a budget by a bare ``assert``, before the chain is asked, and
    its filter is of no use after the first query that asks for too much. Other queries are resolved
    as ever.

    :param kind: the class of chains this is for.
    """
    resolve = dp.Query.resolve

    @wraps(resolve)
    def guarded(query: dp.Query, *args: Any, **kwargs: Any) -> Any:
        if isinstance(query._chain, kind):
            _check_budget(query)
        return resolve(query, *args, **kwargs)

    dp.Query.resolve = guarded  # type: ignore[assignment, method-assign]


def _check_budget(query: dp.Query) -> None:
    wanted, context = query._d_out, query._context
    measure = str(query._output_measure.type)
    names = ["rho" if "ZeroConcentrated" in measure else "epsilon"]
    names += ["delta"] if "Approximate" in measure else []
    if wanted is None:
        stated = ", ".join(f"{name}=..." for name in names)
        raise ValueError(f"the query has no budget: state it, as in query({stated})")
    if context is None or context.d_out is None or context.d_mids is not None:
        return
    left = context.remaining_privacy_loss()
    for name, one, rest in zip(names, _tuple(wanted), _tuple(left), strict=True):
        if one > rest + 1e-9 * abs(one):  # what is nearly the same, the filter itself decides
            rest = max(rest, 0.0)
            raise ValueError(
                f"no budget left: the query asks for {name} {one:g}, of which {rest:g} is left"
            )


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


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
) -> dp.Measurement:
    """Build a measurement from Python functions; from number to number on the short way."""
    call: Any = function
    if {carrier := str(input_domain.carrier_type), TO} <= NUMBERS:
        call = number_callback(function, carrier, TO)
    return _make_measurement(input_domain, input_metric, output_measure, call, privacy_map, TO=TO)


def make_transformation(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    output_domain: dp.Domain,
    output_metric: dp.Metric,
    function: Callable[[Any], Any],
    stability_map: Callable[[Any], Any],
) -> dp.Transformation:
    """Build a transformation from Python functions."""
    return _make_transformation(
        input_domain, input_metric, output_domain, output_metric, function, stability_map
    )


def inner_query(query: Any) -> dp.Query | None:
    """Return the plain query that a query on a LazyFrame context wraps; None for any other."""
    if not isinstance(query, LazyFrameQuery):
        return None
    # Past LazyFrameQuery's own attribute lookup, which builds Polars plans.
    inner: dp.Query = object.__getattribute__(query, "_query")
    return inner


def links(measurement: dp.Measurement) -> tuple[dp.Measurement, dp.Transformation] | None:
    """Return the measurement and the transformation of a chain; None for anything else."""
    made = getattr(measurement, "__opendp_dict__", {})
    if made.get("__function__") != "make_chain_mt":
        return None
    parts = made["__kwargs__"]
    return parts["measurement1"], parts["transformation0"]
