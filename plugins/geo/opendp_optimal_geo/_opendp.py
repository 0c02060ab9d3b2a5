"""The only module that touches private or untyped parts of OpenDP 0.16, each named and tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import opendp.prelude as dp
from opendp.core import new_function
from opendp.measurements import make_user_measurement
from opendp.metrics import user_distance
from opendp.mod import OdometerQueryable, _PartialConstructor
from opendp.transformations import make_user_transformation

from opendp_optimal.measure._opendp import links

__all__ = [
    "OdometerQueryable",
    "is_gaussian",
    "make_user_measurement",
    "make_user_transformation",
    "mark_gaussian",
    "metric_name",
    "new_function",
    "partial",
    "user_distance",
]


def partial(build: Callable[[dp.Domain, dp.Metric], Any]) -> Any:
    """Return what a ``then_`` function returns: a constructor that waits for its input space."""
    return _PartialConstructor(build)


def mark_gaussian(measurement: dp.Measurement) -> dp.Measurement:
    """Note that a measurement adds Gaussian noise, exactly."""
    measurement.adds_gaussian_noise = True
    return measurement


def is_gaussian(measurement: dp.Measurement) -> bool:
    """Say whether a measurement, maybe behind transformations, was marked."""
    while (parts := links(measurement)) is not None:
        measurement = parts[0]
    return bool(getattr(measurement, "adds_gaussian_noise", False))


def metric_name(metric: dp.Metric) -> str:
    """Return a metric's name without its parameters."""
    return str(metric).split("(")[0]
