"""The only module that touches private or untyped parts of OpenDP 0.16, each named and tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import opendp.prelude as dp
from opendp.core import measurement_invoke, measurement_map, new_function
from opendp.measurements import make_user_measurement
from opendp.metrics import user_distance
from opendp.mod import OdometerQueryable, _PartialConstructor
from opendp.transformations import make_user_transformation

from opendp_optimal.measure._opendp import require_features
from opendp_optimal.measure.anatomy import as_gaussian, spaces

__all__ = [
    "OdometerQueryable",
    "as_gaussian",
    "make_user_measurement",
    "make_user_transformation",
    "measurement_invoke",
    "measurement_map",
    "metric_name",
    "new_function",
    "partial",
    "require_features",
    "spaces",
    "user_distance",
]


def partial(build: Callable[[dp.Domain, dp.Metric], Any]) -> Any:
    """Return what a ``then_`` function returns: a constructor that waits for its input space."""
    return _PartialConstructor(build)


def metric_name(metric: dp.Metric) -> str:
    """Return a metric's name without its parameters."""
    return str(metric).split("(")[0]
