"""Calling a scalar measurement without the way through Rust and back.

Handing one number to OpenDP and its answer back costs more than drawing the noise. When our own
measurement is called directly on a plain Python number, the release is computed here; any other
argument, and every use in a chain, a compositor or a context, takes OpenDP's way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import introduce
from opendp_optimal.measure.space import INTEGER_RANGES, Space


class DirectMeasurement(dp.Measurement):
    """A measurement on plain numbers that can be called without a round trip."""

    _type_ = dp.Measurement._type_
    _direct: tuple[type, Any, Any, Callable[[Any], Any]]

    def invoke(self, arg: Any) -> Any:
        """Release a value.

        :param arg: a member of the input domain.
        """
        kind, low, high, release = self._direct
        # Exactly this type, in range: what OpenDP would accept, and nothing that it would not.
        if type(arg) is kind and (low is None or low <= arg <= high):
            return release(arg)
        return dp.Measurement.invoke(self, arg)

    def __call__(self, arg: Any) -> Any:
        """Release a value."""
        return self.invoke(arg)


introduce(DirectMeasurement)


def make_direct(
    measurement: dp.Measurement, space: Space, release: Callable[[Any], Any]
) -> dp.Measurement:
    """Let a measurement on scalars of a space be called directly; leave any other as it is."""
    if space.vector or space.carrier == "f32":
        return measurement
    measurement.__class__ = DirectMeasurement
    low, high = INTEGER_RANGES.get(space.carrier, (None, None))
    measurement._direct = (int if space.integer else float, low, high, release)
    return measurement
