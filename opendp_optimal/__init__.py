"""Provably optimal differentially private noise for OpenDP."""

from typing import TYPE_CHECKING

from opendp_optimal import builtins
from opendp_optimal.lazy import lazy_face
from opendp_optimal.plugins import enrol

if TYPE_CHECKING:
    from opendp_optimal.advisor.advice import Advice as Advice
    from opendp_optimal.advisor.advice import advise as advise
    from opendp_optimal.advisor.epsilon import epsilon_for as epsilon_for
    from opendp_optimal.errors import CertificateError as CertificateError
    from opendp_optimal.errors import GapWarning as GapWarning
    from opendp_optimal.errors import SolverError as SolverError
    from opendp_optimal.errors import TableFormatError as TableFormatError
    from opendp_optimal.hookspecs import hookimpl as hookimpl
    from opendp_optimal.losses.base import Loss as Loss
    from opendp_optimal.measure.accuracy import accuracy as accuracy
    from opendp_optimal.measure.accuracy import summarize as summarize
    from opendp_optimal.measure.bounded import make_optimal_bounded as make_optimal_bounded
    from opendp_optimal.measure.bounded import (
        make_optimal_bounded_noise as make_optimal_bounded_noise,
    )
    from opendp_optimal.measure.bounded import (
        then_optimal_bounded_noise as then_optimal_bounded_noise,
    )
    from opendp_optimal.measure.compose import compose as compose
    from opendp_optimal.measure.frames.aggregates import frame_query as frame_query
    from opendp_optimal.measure.frames.aggregates import make_frame_count as make_frame_count
    from opendp_optimal.measure.frames.aggregates import (
        make_frame_histogram as make_frame_histogram,
    )
    from opendp_optimal.measure.frames.aggregates import make_frame_sum as make_frame_sum
    from opendp_optimal.measure.frames.aggregates import then_frame_count as then_frame_count
    from opendp_optimal.measure.frames.aggregates import (
        then_frame_histogram as then_frame_histogram,
    )
    from opendp_optimal.measure.frames.aggregates import then_frame_sum as then_frame_sum
    from opendp_optimal.measure.frames.query import OptimalQuery as OptimalQuery
    from opendp_optimal.measure.frames.query import optimal as optimal
    from opendp_optimal.measure.gaussian import make_exact_gaussian as make_exact_gaussian
    from opendp_optimal.measure.gaussian import then_exact_gaussian as then_exact_gaussian
    from opendp_optimal.measure.improve import improve as improve
    from opendp_optimal.measure.joint import joint as joint
    from opendp_optimal.measure.joint import make_joint as make_joint
    from opendp_optimal.measure.keys import make_optimal_threshold as make_optimal_threshold
    from opendp_optimal.measure.keys import then_optimal_threshold as then_optimal_threshold
    from opendp_optimal.measure.mean import make_optimal_mean as make_optimal_mean
    from opendp_optimal.measure.mean import make_optimal_means as make_optimal_means
    from opendp_optimal.measure.mean import make_optimal_moments as make_optimal_moments
    from opendp_optimal.measure.mean import then_optimal_mean as then_optimal_mean
    from opendp_optimal.measure.mean import then_optimal_means as then_optimal_means
    from opendp_optimal.measure.mean import then_optimal_moments as then_optimal_moments
    from opendp_optimal.measure.noise import make_concentrated_noise as make_concentrated_noise
    from opendp_optimal.measure.noise import make_optimal as make_optimal
    from opendp_optimal.measure.noise import make_optimal_noise as make_optimal_noise
    from opendp_optimal.measure.noise import then_optimal_noise as then_optimal_noise
    from opendp_optimal.measure.quantiles import Quantiles as Quantiles
    from opendp_optimal.measure.quantiles import make_optimal_quantiles as make_optimal_quantiles
    from opendp_optimal.measure.quantiles import then_optimal_quantiles as then_optimal_quantiles
    from opendp_optimal.measure.waiting import Deferred as Deferred
    from opendp_optimal.plugins import load_plugins as load_plugins
    from opendp_optimal.search.bounded import solve_bounded as solve_bounded
    from opendp_optimal.search.channel import solve_channel as solve_channel
    from opendp_optimal.search.keys import solve_keys as solve_keys
    from opendp_optimal.search.noise import solve as solve
    from opendp_optimal.search.pair import solve_pair as solve_pair
    from opendp_optimal.search.radial import solve_radial as solve_radial
    from opendp_optimal.table.bounded import BoundedTable as BoundedTable
    from opendp_optimal.table.channel import ChannelTable as ChannelTable
    from opendp_optimal.table.keys import KeyTable as KeyTable
    from opendp_optimal.table.noise import NoiseTable as NoiseTable
    from opendp_optimal.table.pair import PairTable as PairTable
    from opendp_optimal.table.radial import RadialTable as RadialTable

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_face(__name__)

enrol(builtins)
