"""The only module that touches private or untyped parts of OpenDP 0.16, each named and tested."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

import opendp.prelude as dp
from opendp.combinators import make_chain_mt
from opendp.core import (
    measurement_input_domain,
    measurement_input_metric,
    measurement_invoke,
    measurement_map,
    measurement_output_measure,
    new_function,
)
from opendp.measurements import make_user_measurement
from opendp.metrics import user_distance
from opendp.mod import OdometerQueryable, _PartialConstructor
from opendp.transformations import make_user_transformation

from opendp_optimal.measure._opendp import assert_features, links

__all__ = [
    "OdometerQueryable",
    "as_gaussian",
    "assert_features",
    "make_user_measurement",
    "make_user_transformation",
    "mark_gaussian",
    "measurement_invoke",
    "measurement_map",
    "metric_name",
    "new_function",
    "partial",
    "spaces",
    "user_distance",
]


def partial(build: Callable[[dp.Domain, dp.Metric], Any]) -> Any:
    """Return what a ``then_`` function returns: a constructor that waits for its input space."""
    return _PartialConstructor(build)


_gaussian: dict[int, tuple[weakref.ref[dp.Measurement], int]] = {}
"""Measurements that add Gaussian noise, by identity, each with the address of what it runs."""


def _address(measurement: dp.Measurement) -> int:
    return ctypes.cast(measurement, ctypes.c_void_p).value or 0


def mark_gaussian(measurement: dp.Measurement) -> dp.Measurement:
    """Note that a measurement adds Gaussian noise, exactly."""
    key = id(measurement)
    kept = weakref.ref(measurement, lambda _: _gaussian.pop(key, None))
    _gaussian[key] = kept, _address(measurement)
    return measurement


def as_gaussian(measurement: dp.Measurement) -> dp.Measurement | None:
    """Return a measurement that was marked, maybe behind transformations; None for any other.

    What a measurement says of itself can be written by anybody. So a chain is put together again
    from the parts that it names: run and price what is returned, not what was given.
    """
    known, address = _gaussian.get(id(measurement), (lambda: None, 0))
    if known() is measurement and _address(measurement) == address:
        return measurement
    parts = links(measurement)
    if parts is None or not isinstance(parts[0], dp.Measurement):
        return None
    inner = as_gaussian(parts[0])
    return None if inner is None else make_chain_mt(inner, parts[1])


def spaces(measurement: dp.Measurement) -> tuple[dp.Domain, dp.Metric, dp.Measure]:
    """Return input domain, input metric and output measure, whatever the class says of itself."""
    return (
        measurement_input_domain(measurement),
        measurement_input_metric(measurement),
        measurement_output_measure(measurement),
    )


def metric_name(metric: dp.Metric) -> str:
    """Return a metric's name without its parameters."""
    return str(metric).split("(")[0]
