"""The private and untyped parts of OpenDP 0.16 that this plugin touches, in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import opendp.prelude as dp
from opendp._internal import _new_pure_function

from opendp_optimal.measure._opendp import (
    enroll,
    make_measurement,
    make_transformation,
    partial,
    require_features,
)

__all__ = [
    "description",
    "enroll",
    "make_measurement",
    "make_transformation",
    "partial",
    "pure_function",
    "require_features",
]


def pure_function(function: Callable[[Any], Any], output: str) -> dp.Function:
    """Return post-processing for ``measurement >> ...``.

    :param function: never sees private data
    :param output: OpenDP's name of the type that ``function`` returns
    """
    made: dp.Function = _new_pure_function(function, TO=output)
    return made


def description(measurement: dp.Measurement) -> tuple[str, dict[str, Any]]:
    """Return the constructor of a measurement and its arguments, as OpenDP remembers them.

    :param measurement: any measurement
    """
    made = getattr(measurement, "__opendp_dict__", {})
    return str(made.get("__function__", "")), dict(made.get("__kwargs__", {}))
