"""The one reader of OpenDP's measurements: their chain, the noise in them, what they cost.

How a measurement was put together is read from OpenDP's own record of it. What this package made
is known for sure (:mod:`~opendp_optimal.measure.facts`); OpenDP's own Laplace and Gaussian noise is
known where its constructors make the same price of the record
(:mod:`~opendp_optimal.measure.natives`); of anything else the privacy map is believed, and nothing
more.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from opendp.combinators import make_chain_mt
from opendp.core import (
    measurement_input_domain,
    measurement_input_metric,
    measurement_map,
    measurement_output_measure,
    transformation_input_domain,
    transformation_input_metric,
    transformation_map,
)
from opendp.mod import Function
from opendp.typing import RuntimeType

from opendp_optimal.budget.events import Approximate, Concentrated, Event, Gaussian, Joint, of_table
from opendp_optimal.known import DiscreteGaussian, Geometric, Laplace, Law
from opendp_optimal.known import Gaussian as GaussianLaw
from opendp_optimal.measure import dp
from opendp_optimal.measure.facts import facts_of, plan_digest
from opendp_optimal.measure.natives import NATIVE, native_event, remade, same_price
from opendp_optimal.table import NoiseTable
from opendp_optimal.table.bounded import BoundedTable

CASTS = (
    "make_approximate",
    "make_fix_delta",
    "make_fixed_approxDP_to_approxDP",
    "make_pureDP_to_zCDP",
    "make_zCDP_to_approxDP",
)
"""What states the same release in another notion of privacy."""


INNER = {
    "make_chain_mt": "measurement1",
    "make_chain_pm": "measurement0",
    **dict.fromkeys(CASTS, "measurement"),
}
"""What goes around a measurement, and the name of the argument that it is."""


def spaces(measurement: dp.Measurement) -> tuple[dp.Domain, dp.Metric, dp.Measure]:
    """Return input domain, input metric and output measure, whatever the class says of itself."""
    return (
        measurement_input_domain(measurement),
        measurement_input_metric(measurement),
        measurement_output_measure(measurement),
    )


def constructor_of(part: Any) -> tuple[str, dict[str, Any]]:
    """Return the constructor of a part and its arguments, as OpenDP remembers them."""
    made = getattr(part, "__opendp_dict__", {})
    return str(made.get("__function__", "")), dict(made.get("__kwargs__", {}))


def chain_of(measurement: dp.Measurement) -> tuple[Any, ...]:
    """Return the parts of a measurement in the order in which data goes through them.

    Transformations, one measurement that is no chain, and functions after it. Statements of the
    same release in another notion of privacy are passed over.

    :param measurement: any measurement.

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.vector_domain(dp.atom_domain(bounds=(0, 9))), dp.symmetric_distance()
    >>> chain = space >> dp.t.then_sum() >> dp.m.then_laplace(9.0)
    >>> [type(part).__name__ for part in chain_of(chain)]
    ['Transformation', 'Measurement']
    """
    if not isinstance(measurement, dp.Measurement):
        raise ValueError(f"measurement ({type(measurement).__name__}) must be a measurement")
    return tuple(_parts(measurement))


def _parts(part: Any) -> Iterable[Any]:
    name, given = constructor_of(part)
    if name == "make_chain_mt":
        return [*_parts(given["transformation0"]), *_parts(given["measurement1"])]
    if name == "make_chain_pm":
        return [*_parts(given["measurement0"]), given["postprocess1"]]
    if name == "make_chain_tt":
        return [*_parts(given["transformation0"]), *_parts(given["transformation1"])]
    if name in CASTS:
        return _parts(given["measurement"])
    return [part]


def law_of(measurement: dp.Measurement, *, vectors: bool = False) -> Law:
    """Return the distribution of the noise that a measurement adds to one number.

    :param measurement: noise of this package, or OpenDP's Laplace, geometric or Gaussian noise;
        also behind transformations.
    :param vectors: whether it may be noise on vectors; the law is that of each of their numbers.
    :raises ValueError: if it adds no noise of a known law, or something is done after it.

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    >>> law_of(dp.m.make_laplace(*space, scale=2.0))
    Geometric(rate=0.5)
    """
    last = chain_of(measurement)[-1]
    known = None
    if isinstance(last, dp.Measurement):
        domain = spaces(last)[0]
        if vectors and isinstance(domain, dp.VectorDomain):
            domain = domain.element_domain
        if isinstance(domain, dp.AtomDomain):
            made = facts_of(last).law
            known = made() if made is not None else _native_law(last, domain)
            if known is None and made is not None:
                raise ValueError(
                    "measurement must have a domain that fixes the length of its vectors: the law "
                    "of each number depends on it"
                )
    if known is None:
        where = "numbers" if vectors else "a single number"
        raise ValueError(
            "measurement must be optimised noise, or OpenDP's Laplace, geometric or Gaussian "
            f"noise, on {where}"
        )
    return known


def laws_of(measurement: dp.Measurement) -> Law | tuple[Law, ...]:
    """Return the distribution of the noise on each number; of several answers, on each one's.

    :param measurement: noise on numbers, or on several answers; also in a composition, or amplified
    :raises ValueError: if it adds no noise of a known law, or something is done after it.
    """
    last = chain_of(measurement)[-1]
    name, given = constructor_of(last)
    if name == "make_population_amplification":  # the same noise at another price
        return laws_of(given["measurement"])
    if name == "make_composition":
        each = (laws_of(part) for part in given["measurements"])
        return tuple(law for one in each for law in (one if isinstance(one, tuple) else (one,)))
    answers = facts_of(last).answers
    return law_of(measurement, vectors=True) if answers is None else answers()


def _native_law(measurement: dp.Measurement, domain: dp.AtomDomain) -> Law | None:
    name, given = constructor_of(measurement)
    carrier = str(domain.carrier_type)
    scale = given.get("scale", 0.0)
    if carrier[:1] not in ("i", "u", "f") or not scale > 0 or given.get("bounds"):
        return None
    integer = carrier[0] != "f"
    if name in ("make_laplace", "make_geometric"):
        return (Geometric if integer else Laplace)(1.0 / scale)
    if name == "make_gaussian":
        return (DiscreteGaussian if integer else GaussianLaw)(float(scale))
    return None


def event_of(release: NoiseTable | BoundedTable | dp.Measurement, d_in: Any = None) -> Event:
    """Return what a release is, for an accountant.

    :param release: a table (at the sensitivity it was designed for) or a measurement. One of this
        package, also in a chain, and OpenDP's own Laplace and Gaussian noise come with their whole
        profile; of any other the privacy map counts.
    :param d_in: distance between neighbours; needed for measurements that are chained or not ours.
    :raises ValueError: if it has no price, or d_in is missing.
    """
    if isinstance(release, NoiseTable | BoundedTable):
        return of_table(release)
    if not isinstance(release, dp.Measurement):
        raise ValueError(f"releases ({release!r}) must hold tables and measurements")
    made = facts_of(release).event
    if made is not None:
        return made(d_in)
    known = _known_event(release, d_in)
    if d_in is None:
        raise ValueError("d_in must be given: a measurement is not from this package")
    if known is None:
        return _mapped(release, d_in)
    # A chain is known by what it says of itself: what that makes must state the same price.
    again = _again(release)
    if spaces(again) != spaces(release) or not same_price(again, release, d_in):
        raise ValueError("releases: the privacy map of a chain is not that of its parts")
    return known


def _known_event(release: dp.Measurement, d_in: Any) -> Event | None:
    """The event of known noise, behind steps that cannot raise its price."""
    made = facts_of(release).event
    if made is not None:
        return made(d_in)
    name, given = constructor_of(release)
    if name == "make_chain_mt" and d_in is None:
        raise ValueError("d_in must be given: a measurement is chained after a transformation")
    if name in INNER:
        return _known_event(given[INNER[name]], inner_distance(name, given, d_in))
    if name == "make_composition":
        return Joint(tuple(event_of(part, d_in) for part in given["measurements"]))
    if d_in is None or name not in NATIVE:
        return None
    return native_event(name, given, measurement_map(release, d_in), d_in)


def inner_distance(name: str, given: dict[str, Any], d_in: Any) -> Any:
    """The distance of neighbours at a measurement, from that at what goes around it.

    :param name: of the constructor of what goes around it
    :param given: its arguments
    :param d_in: distance between neighbours
    """
    after = name == "make_chain_mt"
    return transformation_map(given["transformation0"], d_in) if after else d_in


def _again(release: dp.Measurement) -> dp.Measurement:
    """What OpenDP's record says of a measurement, made again; functions after it are left out."""
    if facts_of(release).event is not None:
        return release
    name, given = constructor_of(release)
    if name == "make_chain_pm":
        return _again(given["measurement0"])
    if name == "make_composition":
        return release  # each part was looked at by itself
    if name in INNER:
        given[INNER[name]] = _again(given[INNER[name]])
    return remade(name, given)


def _mapped(measurement: dp.Measurement, d_in: Any) -> Event:
    """What a measurement's own map states."""
    kind = str(measurement_output_measure(measurement).type)
    exact = kind.removeprefix("Approximate<").removesuffix(">")
    if exact not in _MEASURES:
        raise ValueError(
            f"releases: cannot price a measurement under {kind}; convert it to (epsilon, delta) "
            "first"
        )
    loss = measurement_map(measurement, d_in)
    main, delta = (loss, 0.0) if kind == exact else loss
    return _MEASURES[exact](float(main), float(delta))


_MEASURES = {"MaxDivergence": Approximate, "ZeroConcentratedDivergence": Concentrated}


def as_gaussian(measurement: dp.Measurement) -> dp.Measurement | None:
    """Return a measurement that adds Gaussian noise exactly, maybe behind transformations.

    None for any other. What a measurement says of itself can be written by anybody. So a chain is
    put together again from the parts that it names: run and price what is returned, not what was
    given.
    """
    facts = facts_of(measurement)
    if facts.event is not None:
        return measurement if isinstance(facts.event(0), Gaussian) else None
    name, given = constructor_of(measurement)
    if name != "make_chain_mt" or not isinstance(given["measurement1"], dp.Measurement):
        return None
    inner = as_gaussian(given["measurement1"])
    return None if inner is None else make_chain_mt(inner, given["transformation0"])


INTERACTIVE = (
    "make_adaptive_composition",
    "make_alp_queryable",
    "make_fully_adaptive_composition",
    "make_privacy_filter",
    "make_sequential_composition",
)
"""What releases a queryable: questions are asked of it later."""


def is_interactive(part: Any) -> bool:
    """Whether OpenDP's record of a measurement says that it releases a queryable."""
    if isinstance(part, list | tuple):
        return any(is_interactive(each) for each in part)
    name, given = constructor_of(part)
    return name in INTERACTIVE or any(is_interactive(each) for each in given.values())


def record_of(measurement: dp.Measurement) -> str:
    """Return a text that identifies what a measurement asks: every part with its parameters.

    Equal texts mean the same question. Tables are named by their fingerprint.

    :param measurement: of this package or of OpenDP, or a chain of such.
    :raises ValueError: where a part cannot be identified, such as a user's function.
    """
    if not isinstance(measurement, dp.Measurement):
        raise ValueError(f"measurement ({type(measurement).__name__}) must be a measurement")
    return json.dumps(_record(measurement), separators=(",", ":"), sort_keys=True)


def _record(value: Any) -> Any:
    """A value of OpenDP as plain values, exactly."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return _record(value.item())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return {"float": float(value).hex() if math.isfinite(value) else str(float(value))}
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, list | tuple):
        return [_record(each) for each in value]
    if isinstance(value, dict):
        return {"dict": [[_record(key), _record(each)] for key, each in value.items()]}
    if isinstance(value, dp.Measurement | dp.Transformation | Function):
        return _part_record(value)
    if isinstance(value, dp.Domain | dp.Metric | dp.Measure | RuntimeType):
        if "User" in str(value):  # a name that its maker chose; what is behind it is not told
            raise ValueError(f"measurement: a part of {value} cannot be identified")
        return {type(value).__name__: str(value)}
    if type(value).__module__.startswith("polars.") and hasattr(value, "collect_schema"):
        return {"plan": plan_digest(value)}  # plans hold no data
    raise ValueError(f"measurement: a part that is a {type(value).__name__} cannot be identified")


def identity_of(steps: Sequence[dp.Transformation]) -> str | None:
    """Return a text that identifies transformations; None where one of them cannot be."""
    try:
        return json.dumps([_record(step) for step in steps], separators=(",", ":"), sort_keys=True)
    except ValueError:
        return None


def _part_record(part: Any) -> Any:
    known = facts_of(part).record
    if known is not None:
        return {"made": known, "space": [str(each) for each in _space(part)]}
    name, given = constructor_of(part)
    if not name or name.startswith(("_", "make_user", "new_user")):
        raise ValueError(f"measurement: a part made by {name or 'unknown means'} is not identified")
    return {"made": name, "of": {key: _record(each) for key, each in given.items()}}


def _space(part: Any) -> tuple[Any, ...]:
    if isinstance(part, dp.Measurement):
        return spaces(part)
    if isinstance(part, dp.Transformation):
        return transformation_input_domain(part), transformation_input_metric(part)
    return ()


def price_of(
    like: Any,
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    d_in: Any,
    output_measure: dp.Measure | None,
) -> tuple[Any, dp.Measure]:
    """What OpenDP's own noise costs at a distance, and in which measure of privacy.

    :param like: a ``then_`` function of noise
    :param output_measure: that it must have, if given
    """
    try:
        native = (input_domain, input_metric) >> like
    except TypeError:
        native = None
    if not isinstance(native, dp.Measurement):
        raise ValueError(f"like ({like!r}) must be a then_ function of noise, with its scale")
    measure = spaces(native)[2]
    if output_measure not in (None, measure):
        raise ValueError(f"output_measure ({output_measure}) must be that of like ({measure})")
    return native.map(d_in), measure
