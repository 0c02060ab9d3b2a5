"""The only module that touches private or untyped parts of OpenDP 0.16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import opendp.prelude as dp
from opendp.core import new_function
from opendp.mod import _PartialConstructor


def partial(build: Callable[[dp.Domain, dp.Metric], Any]) -> Any:
    """Return what a ``then_`` function returns: a constructor that waits for its input space.

    :param build: makes the measurement from a domain and a metric
    """
    return _PartialConstructor(build)


def postprocess(
    measurement: dp.Measurement, function: Callable[[Any], Any], output: str
) -> dp.Measurement:
    """Return ``measurement >> dp.new_function(function)``: the privacy map stays as it is.

    :param measurement: releases what ``function`` takes
    :param function: never sees private data
    :param output: OpenDP's name of the type that ``function`` returns
    """
    chained: dp.Measurement = measurement >> new_function(function, TO=output)
    return chained


def privacy_loss(measurement: dp.Measurement, d_in: float) -> float:
    """Return the privacy loss of ``measurement`` at an input distance.

    :param measurement: any measurement whose loss is a number
    :param d_in: input distance
    """
    return float(measurement.map(d_in))
