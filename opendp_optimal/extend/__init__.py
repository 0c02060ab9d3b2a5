"""Everything of the core that a plugin may use; nothing here is a proof or a solver.

A plugin hands masses to :func:`certified_noise` or a table to :func:`noise_measurement`; what it
gets back is proved. Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from opendp_optimal.lazy import lazy_face as lazy_face

if TYPE_CHECKING:
    from opendp_optimal import known as known
    from opendp_optimal.advisor.additive import additive_candidates as additive_candidates
    from opendp_optimal.advisor.request import Bound as Bound
    from opendp_optimal.advisor.request import Candidate as Candidate
    from opendp_optimal.advisor.request import Noise as Noise
    from opendp_optimal.advisor.request import Proposal as Proposal
    from opendp_optimal.advisor.request import Remark as Remark
    from opendp_optimal.advisor.request import Request as Request
    from opendp_optimal.arrays import Booleans as Booleans
    from opendp_optimal.arrays import Floats as Floats
    from opendp_optimal.arrays import Indices as Indices
    from opendp_optimal.arrays import Integers as Integers
    from opendp_optimal.arrays import Progress as Progress
    from opendp_optimal.arrays import frozen_array as frozen_array
    from opendp_optimal.budget.events import Event as Event
    from opendp_optimal.checks import chances as chances
    from opendp_optimal.checks import choice as choice
    from opendp_optimal.checks import finite as finite
    from opendp_optimal.checks import fraction as fraction
    from opendp_optimal.checks import interval as interval
    from opendp_optimal.checks import matrix as matrix
    from opendp_optimal.checks import moderate as moderate
    from opendp_optimal.checks import point as point
    from opendp_optimal.checks import positive as positive
    from opendp_optimal.checks import power_of_two as power_of_two
    from opendp_optimal.checks import share as share
    from opendp_optimal.checks import storable as storable
    from opendp_optimal.checks import whole as whole
    from opendp_optimal.cli.plots import new_figure as new_figure
    from opendp_optimal.cli.plots import save_figure as save_figure
    from opendp_optimal.cli.terminal import CommandGroup as CommandGroup
    from opendp_optimal.cli.terminal import drawable as drawable
    from opendp_optimal.cli.terminal import json_option as json_option
    from opendp_optimal.cli.terminal import plot_option as plot_option
    from opendp_optimal.cli.terminal import print_audit as print_audit
    from opendp_optimal.cli.terminal import print_json as print_json
    from opendp_optimal.cli.terminal import print_table as print_table
    from opendp_optimal.cli.terminal import progress_bar as progress_bar
    from opendp_optimal.cli.terminal import writable as writable
    from opendp_optimal.exact.halving import largest as largest
    from opendp_optimal.exact.halving import least as least
    from opendp_optimal.exact.logarithms import exp_reaches as exp_reaches
    from opendp_optimal.exact.logarithms import log_near as log_near
    from opendp_optimal.exact.logarithms import log_up as log_up
    from opendp_optimal.exact.numbers import exp_down as exp_down
    from opendp_optimal.exact.numbers import exp_up as exp_up
    from opendp_optimal.exact.numbers import float_down as float_down
    from opendp_optimal.exact.numbers import float_up as float_up
    from opendp_optimal.exact.numbers import laplace_scale_up as laplace_scale_up
    from opendp_optimal.files import check_output as check_output
    from opendp_optimal.files import csv_rows as csv_rows
    from opendp_optimal.files import read_regular as read_regular
    from opendp_optimal.files import write_whole as write_whole
    from opendp_optimal.lazy import late as late
    from opendp_optimal.losses.base import Loss as Loss
    from opendp_optimal.losses.base import loss_of as loss_of
    from opendp_optimal.measure._opendp import make_measurement as make_measurement
    from opendp_optimal.measure._opendp import make_transformation as make_transformation
    from opendp_optimal.measure._opendp import new_domain as new_domain
    from opendp_optimal.measure._opendp import new_metric as new_metric
    from opendp_optimal.measure._opendp import postprocess as postprocess
    from opendp_optimal.measure._opendp import require_features as require_features
    from opendp_optimal.measure.anatomy import chain_of as chain_of
    from opendp_optimal.measure.anatomy import event_of as event_of
    from opendp_optimal.measure.anatomy import law_of as law_of
    from opendp_optimal.measure.anatomy import record_of as record_of
    from opendp_optimal.measure.channel import make_optimal_channel as make_optimal_channel
    from opendp_optimal.measure.channel import then_optimal_channel as then_optimal_channel
    from opendp_optimal.measure.concentrated import pure_epsilon as pure_epsilon
    from opendp_optimal.measure.facts import record_text as record_text
    from opendp_optimal.measure.frames.answer import Number as Number
    from opendp_optimal.measure.frames.answer import combined_accuracy as combined_accuracy
    from opendp_optimal.measure.frames.answer import noisy_frame as noisy_frame
    from opendp_optimal.measure.frames.law import count_law as count_law
    from opendp_optimal.measure.frames.noise import Moves as Moves
    from opendp_optimal.measure.frames.noise import Price as Price
    from opendp_optimal.measure.frames.noise import TableNoise as TableNoise
    from opendp_optimal.measure.frames.noise import table_noise as table_noise
    from opendp_optimal.measure.frames.quantiles import Candidates as Candidates
    from opendp_optimal.measure.frames.secret import count_accuracy as count_accuracy
    from opendp_optimal.measure.gaussian import make_grid_gaussian as make_grid_gaussian
    from opendp_optimal.measure.gaussian import make_grid_laplace as make_grid_laplace
    from opendp_optimal.measure.gaussian import then_grid_gaussian as then_grid_gaussian
    from opendp_optimal.measure.gaussian import then_grid_laplace as then_grid_laplace
    from opendp_optimal.measure.keys import KeyDesign as KeyDesign
    from opendp_optimal.measure.keys import design_keys as design_keys
    from opendp_optimal.measure.noise import noise_measurement as noise_measurement
    from opendp_optimal.measure.quantiles import QuantileDesign as QuantileDesign
    from opendp_optimal.measure.quantiles import design_quantiles as design_quantiles
    from opendp_optimal.measure.space import INTEGER_RANGES as INTEGER_RANGES
    from opendp_optimal.measure.space import Space as Space
    from opendp_optimal.measure.space import space_of as space_of
    from opendp_optimal.measure.waiting import Deferred as Deferred
    from opendp_optimal.measure.waiting import Postprocess as Postprocess
    from opendp_optimal.measure.waiting import defer as defer
    from opendp_optimal.measure.waiting import to_then as to_then
    from opendp_optimal.plugins import enrol as enrol
    from opendp_optimal.problem.metric import direct_pairs as direct_pairs
    from opendp_optimal.problem.noise import MAX_EPSILON as MAX_EPSILON
    from opendp_optimal.problem.noise import MIN_DELTA as MIN_DELTA
    from opendp_optimal.problem.noise import MIN_EPSILON as MIN_EPSILON
    from opendp_optimal.sample.integers import LARGEST_DIMENSION as LARGEST_DIMENSION
    from opendp_optimal.sample.integers import LARGEST_RATE as LARGEST_RATE
    from opendp_optimal.sample.integers import gaussian_integers as gaussian_integers
    from opendp_optimal.sample.integers import laplace_integers as laplace_integers
    from opendp_optimal.sample.integers import laplace_vectors as laplace_vectors
    from opendp_optimal.sample.integers import smallest_rate as smallest_rate
    from opendp_optimal.sample.weights import WeightedSampler as WeightedSampler
    from opendp_optimal.sample.words import Source as Source
    from opendp_optimal.sample.words import random_words as random_words
    from opendp_optimal.sample.words import secure_bytes as secure_bytes
    from opendp_optimal.search.given import certified_noise as certified_noise
    from opendp_optimal.search.given import truncated_laplace as truncated_laplace

__getattr__, __dir__, __all__ = lazy_face(__name__)
