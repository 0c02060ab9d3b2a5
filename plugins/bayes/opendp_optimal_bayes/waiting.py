"""Post-processing that looks at the measurement it goes after."""

from __future__ import annotations

from typing import Any, NoReturn

import opendp.prelude as dp

from opendp_optimal.measure.release import DirectMeasurement


class Waiting(DirectMeasurement):
    """What stands on the right of ``measurement >> ...`` until the measurement is known.

    By type a measurement, so that Python offers it ``measurement >> waiting`` first; it can do
    nothing else that a measurement can.
    """

    _type_ = dp.Measurement._type_

    def __del__(self) -> None:
        """Free nothing: there is nothing behind the pointer."""

    def after(self, measurement: dp.Measurement) -> dp.Measurement:
        """Post-process a measurement.

        :param measurement: what comes before
        """
        raise NotImplementedError

    def __rrshift__(self, measurement: Any) -> dp.Measurement:
        """Post-process a measurement."""
        if not isinstance(measurement, dp.Measurement) or isinstance(measurement, Waiting):
            raise ValueError(f"{type(self).__name__.lower()} goes after a measurement")
        return self.after(measurement)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this waits for its mechanism: write measurement >> ...")

    __call__ = invoke = map = check = __rshift__ = _refuse
    input_domain = input_metric = output_measure = property(_refuse)
    input_space = function = output_distance_type = property(_refuse)
    input_distance_type = input_carrier_type = property(_refuse)

    def __repr__(self) -> str:
        """Show what it is."""
        return f"{type(self).__name__}(waiting for a measurement)"
