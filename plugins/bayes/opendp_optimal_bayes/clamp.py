"""Clamping: keep the releases of noise within the bounds of the answers."""

from __future__ import annotations

from typing import Any

import opendp.prelude as dp

from opendp_optimal.measure.space import INTEGER_RANGES
from opendp_optimal_bayes._checks import interval
from opendp_optimal_bayes._opendp import pure_function
from opendp_optimal_bayes.grid import carrier_of, law_of
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
        if not law_of(measurement, self._ends).integer:
            start, end = float(low), float(high)
            floats: dp.Measurement = measurement >> pure_function(
                lambda y: min(max(y, start), end), "f64"
            )
            return floats
        if low.denominator != 1 or high.denominator != 1:
            raise ValueError(f"lo ({low}) and hi ({high}) must be integers after integer noise")
        # Releases are integers of their type, whatever the bounds: so is what is kept of them.
        carrier = carrier_of(measurement)
        least, most = INTEGER_RANGES[carrier]
        first, last = max(int(low), least), min(int(high), most)
        if first > last:
            raise ValueError(f"lo ({low}) and hi ({high}) must leave integers of {carrier}")
        clamped: dp.Measurement = measurement >> pure_function(
            lambda y: min(max(y, first), last), "i64" if last < 2**63 else "u64"
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
