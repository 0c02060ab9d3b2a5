"""What a measurement is: its spaces, and the noise that is in it."""

from __future__ import annotations

import ctypes
import weakref

from opendp.combinators import make_chain_mt
from opendp.core import (
    measurement_input_domain,
    measurement_input_metric,
    measurement_output_measure,
)

from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import links

__all__ = ["as_gaussian", "mark_gaussian", "spaces"]

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
