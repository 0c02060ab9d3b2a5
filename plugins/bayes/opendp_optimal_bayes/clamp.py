"""Clamping: keep the releases of noise within the bounds of the answers."""

from __future__ import annotations

from typing import Any

import opendp.prelude as dp

from opendp_optimal_bayes._checks import interval
from opendp_optimal_bayes._opendp import pure_function
from opendp_optimal_bayes.law import law_of
from opendp_optimal_bayes.waiting import Waiting


class Clamp(Waiting):
    """A clamp that waits for its mechanism: ``measurement >> clamp(lo, hi)``."""

    _type_ = dp.Measurement._type_

    def __init__(self, lo: Any, hi: Any) -> None:
        """Remember the ends."""
        self._ends = interval(lo, hi)

    def after(self, measurement: dp.Measurement) -> dp.Measurement:
        """Clamp the releases of a measurement.

        :param measurement: noise on a single number
        """
        low, high = self._ends
        whole = law_of(measurement, self._ends).integer
        if whole and (low.denominator != 1 or high.denominator != 1):
            raise ValueError(f"lo ({low}) and hi ({high}) must be integers after integer noise")
        start, end = (int(low), int(high)) if whole else (float(low), float(high))
        clamped: dp.Measurement = measurement >> pure_function(
            lambda y: min(max(y, start), end), "i64" if whole else "f64"
        )
        return clamped


def clamp(lo: Any, hi: Any) -> Clamp:
    """Keep the releases of noise within bounds: ``measurement >> clamp(lo, hi)``.

    :param lo: smallest answer
    :param hi: largest answer

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    >>> meas = dp.m.make_gaussian(*space, scale=100.0) >> clamp(0, 10)
    >>> 0 <= meas(5) <= 10
    True
    """
    return Clamp(lo, hi)
