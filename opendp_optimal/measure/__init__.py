"""From a noise table to OpenDP: ``make_``, ``then_`` and the Context API."""

from opendp_optimal.measure._opendp import enroll

__all__ = ["enroll"]
