"""Provably optimal differentially private noise for OpenDP."""

from opendp_optimal.advisor import Advice, advise
from opendp_optimal.errors import CertificateError, GapWarning, SolverError, TableFormatError
from opendp_optimal.hookspecs import hookimpl
from opendp_optimal.losses.base import Loss
from opendp_optimal.measure import (
    Deferred,
    compose,
    frame_query,
    make_frame_count,
    make_frame_histogram,
    make_frame_sum,
    make_optimal,
    make_optimal_bounded,
    make_optimal_bounded_noise,
    make_optimal_noise,
    then_frame_count,
    then_frame_histogram,
    then_frame_sum,
    then_optimal_bounded_noise,
    then_optimal_noise,
)
from opendp_optimal.plugins import load as load_plugins
from opendp_optimal.search.bounded import solve_bounded
from opendp_optimal.search.channel import solve_channel
from opendp_optimal.search.noise import solve
from opendp_optimal.table import NoiseTable
from opendp_optimal.table.bounded import BoundedTable
from opendp_optimal.table.channel import ChannelTable

__all__ = [
    "Advice",
    "BoundedTable",
    "CertificateError",
    "ChannelTable",
    "Deferred",
    "GapWarning",
    "Loss",
    "NoiseTable",
    "SolverError",
    "TableFormatError",
    "advise",
    "compose",
    "frame_query",
    "hookimpl",
    "load_plugins",
    "make_frame_count",
    "make_frame_histogram",
    "make_frame_sum",
    "make_optimal",
    "make_optimal_bounded",
    "make_optimal_bounded_noise",
    "make_optimal_noise",
    "solve",
    "solve_bounded",
    "solve_channel",
    "then_frame_count",
    "then_frame_histogram",
    "then_frame_sum",
    "then_optimal_bounded_noise",
    "then_optimal_noise",
]
