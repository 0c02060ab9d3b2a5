"""Bayesian optimality for OpenDP: bounded noise, remapping, channels and refinement, with proofs.

A consumer with a prior and a loss decides after a private release. Here are the mechanisms that
serve every such consumer best, the decision rules, and the least loss that is possible at all.
"""

from typing import TYPE_CHECKING

from opendp_optimal.extend import enrol, lazy_face
from opendp_optimal_bayes import plugin

if TYPE_CHECKING:
    from opendp_optimal.extend import make_optimal_channel as make_optimal_channel
    from opendp_optimal.extend import then_optimal_channel as then_optimal_channel
    from opendp_optimal_bayes.channel import Channel as Channel
    from opendp_optimal_bayes.channel import Hyper as Hyper
    from opendp_optimal_bayes.constructions import geometric_channel as geometric_channel
    from opendp_optimal_bayes.constructions import laplace_excess_bound as laplace_excess_bound
    from opendp_optimal_bayes.constructions import (
        pixelated_laplace_channel as pixelated_laplace_channel,
    )
    from opendp_optimal_bayes.constructions import pixelated_prior as pixelated_prior
    from opendp_optimal_bayes.constructions import step_geometric_channel as step_geometric_channel
    from opendp_optimal_bayes.grid import Law as Law
    from opendp_optimal_bayes.grid import law_of as law_of
    from opendp_optimal_bayes.losses import bayes_risk as bayes_risk
    from opendp_optimal_bayes.losses import is_legal as is_legal
    from opendp_optimal_bayes.losses import loss_matrix as loss_matrix
    from opendp_optimal_bayes.measure import make_bounded_geometric as make_bounded_geometric
    from opendp_optimal_bayes.measure import make_bounded_laplace as make_bounded_laplace
    from opendp_optimal_bayes.measure import then_bounded_geometric as then_bounded_geometric
    from opendp_optimal_bayes.measure import then_bounded_laplace as then_bounded_laplace
    from opendp_optimal_bayes.optimal import OptimalChannel as OptimalChannel
    from opendp_optimal_bayes.optimal import optimal_channel as optimal_channel
    from opendp_optimal_bayes.refinement import Refinement as Refinement
    from opendp_optimal_bayes.refinement import refines as refines
    from opendp_optimal_bayes.remapping import Clamp as Clamp
    from opendp_optimal_bayes.remapping import Remap as Remap
    from opendp_optimal_bayes.remapping import Rule as Rule
    from opendp_optimal_bayes.remapping import clamp as clamp
    from opendp_optimal_bayes.remapping import remap as remap
    from opendp_optimal_bayes.table_posterior.fit import Fit as Fit
    from opendp_optimal_bayes.table_posterior.fit import fit_weights as fit_weights
    from opendp_optimal_bayes.table_posterior.learning import posterior as posterior
    from opendp_optimal_bayes.table_posterior.posterior import Posterior as Posterior
    from opendp_optimal_bayes.table_posterior.posterior import PosteriorWarning as PosteriorWarning

__getattr__, __dir__, __all__ = lazy_face(__name__)

enrol(plugin)
