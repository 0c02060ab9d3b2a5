"""Bayesian optimality for OpenDP: bounded noise, remapping, channels and refinement, with proofs.

A consumer with a prior and a loss decides after a private release. Here are the mechanisms that
serve every such consumer best, the decision rules, and the least loss that is possible at all.
"""

from opendp_optimal.measure.channel import make_optimal_channel, then_optimal_channel
from opendp_optimal_bayes.channel import Channel, Hyper
from opendp_optimal_bayes.clamp import Clamp, clamp
from opendp_optimal_bayes.constructions import (
    geometric_channel,
    laplace_excess_bound,
    pixelated_laplace_channel,
    pixelated_prior,
    step_geometric_channel,
)
from opendp_optimal_bayes.grid import Law, law_of
from opendp_optimal_bayes.losses import bayes_risk, is_legal, loss_matrix
from opendp_optimal_bayes.measure import (
    make_bounded_geometric,
    make_bounded_laplace,
    register,
    then_bounded_geometric,
    then_bounded_laplace,
)
from opendp_optimal_bayes.optimal import OptimalChannel, optimal_channel
from opendp_optimal_bayes.refinement import Refinement, refines
from opendp_optimal_bayes.remapping import Remap, Rule, remap

__all__ = [
    "Channel",
    "Clamp",
    "Hyper",
    "Law",
    "OptimalChannel",
    "Refinement",
    "Remap",
    "Rule",
    "bayes_risk",
    "clamp",
    "geometric_channel",
    "is_legal",
    "laplace_excess_bound",
    "law_of",
    "loss_matrix",
    "make_bounded_geometric",
    "make_bounded_laplace",
    "make_optimal_channel",
    "optimal_channel",
    "pixelated_laplace_channel",
    "pixelated_prior",
    "refines",
    "register",
    "remap",
    "step_geometric_channel",
    "then_bounded_geometric",
    "then_bounded_laplace",
    "then_optimal_channel",
]

register()
