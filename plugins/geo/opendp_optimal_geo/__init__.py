"""Geo-privacy for OpenDP: exact noise on a grid, privacy filters, adaptive budgets.

Each user has a budget and answers with noise of their own. Looking several times, cheaply, and
only at those who may still matter, saves budget for later queries (Liang, Yi: *Adaptive Privacy
Budgeting*).
"""

from opendp_optimal.budget.filters import (
    ApproxGpFilter,
    CgpFilter,
    Filter,
    GaussianFilter,
    GpFilter,
    approximate_loss,
    gaussian_delta,
    simple_loss,
)
from opendp_optimal.extend import enrol
from opendp_optimal.measure.gaussian import (
    make_grid_gaussian,
    make_grid_laplace,
    then_grid_gaussian,
    then_grid_laplace,
)
from opendp_optimal.measure.guarded import BudgetError, filter_context, make_filter
from opendp_optimal.sample.integers import gaussian_integers as gaussian_noise
from opendp_optimal.sample.integers import laplace_integers as laplace_noise
from opendp_optimal.sample.integers import laplace_vectors as planar_laplace_noise
from opendp_optimal_geo import plugin
from opendp_optimal_geo.answer import Answer, DensityMap, Round
from opendp_optimal_geo.audit import (
    audit_looks,
    audit_population,
    gaussian_power,
)
from opendp_optimal_geo.curator import Curator
from opendp_optimal_geo.look import Request
from opendp_optimal_geo.population import Population
from opendp_optimal_geo.projection import project, unproject
from opendp_optimal_geo.protocol import LocalProtocol, Reply, Status
from opendp_optimal_geo.query import KernelDensity, Nearest, Points, RangeCount
from opendp_optimal_geo.radius import gaussian_radius, laplace_radius
from opendp_optimal_geo.region import rectangle, threshold_shift
from opendp_optimal_geo.schedule import Schedule, even_rule, saving_rule, spread_rule
from opendp_optimal_geo.score import DistanceTo, SignedDistance
from opendp_optimal_geo.transform import (
    make_distance_to_point,
    make_projection,
    make_signed_distance,
    projected_distance,
    then_distance_to_point,
    then_projection,
    then_signed_distance,
)

__all__ = [
    "Answer",
    "ApproxGpFilter",
    "BudgetError",
    "CgpFilter",
    "Curator",
    "DensityMap",
    "DistanceTo",
    "Filter",
    "GaussianFilter",
    "GpFilter",
    "KernelDensity",
    "LocalProtocol",
    "Nearest",
    "Points",
    "Population",
    "RangeCount",
    "Reply",
    "Request",
    "Round",
    "Schedule",
    "SignedDistance",
    "Status",
    "approximate_loss",
    "audit_looks",
    "audit_population",
    "even_rule",
    "filter_context",
    "gaussian_delta",
    "gaussian_noise",
    "gaussian_power",
    "gaussian_radius",
    "laplace_noise",
    "laplace_radius",
    "make_distance_to_point",
    "make_filter",
    "make_grid_gaussian",
    "make_grid_laplace",
    "make_projection",
    "make_signed_distance",
    "planar_laplace_noise",
    "project",
    "projected_distance",
    "rectangle",
    "saving_rule",
    "simple_loss",
    "spread_rule",
    "then_distance_to_point",
    "then_grid_gaussian",
    "then_grid_laplace",
    "then_projection",
    "then_signed_distance",
    "threshold_shift",
    "unproject",
]

enrol(plugin)
