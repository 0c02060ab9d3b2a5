"""From a noise table to OpenDP: ``make_``, ``then_``, the Context API, Polars, accounting."""

from opendp_optimal.measure._opendp import enroll
from opendp_optimal.measure.bounded import (
    make_optimal_bounded,
    make_optimal_bounded_noise,
    then_optimal_bounded_noise,
)
from opendp_optimal.measure.compose import compose
from opendp_optimal.measure.frames.aggregates import (
    frame_query,
    make_frame_count,
    make_frame_histogram,
    make_frame_sum,
    then_frame_count,
    then_frame_histogram,
    then_frame_sum,
)
from opendp_optimal.measure.noise import make_optimal_noise, then_optimal_noise
from opendp_optimal.measure.waiting import Deferred, make_optimal

__all__ = [
    "Deferred",
    "compose",
    "enroll",
    "frame_query",
    "make_frame_count",
    "make_frame_histogram",
    "make_frame_sum",
    "make_optimal",
    "make_optimal_bounded",
    "make_optimal_bounded_noise",
    "make_optimal_noise",
    "then_frame_count",
    "then_frame_histogram",
    "then_frame_sum",
    "then_optimal_bounded_noise",
    "then_optimal_noise",
]
