"""Geo-privacy for OpenDP: exact noise on a grid, privacy filters, adaptive budgets.

Each user has a budget and answers with noise of their own. Looking several times, cheaply, and
only at those who may still matter, saves budget for later queries (Liang, Yi: *Adaptive Privacy
Budgeting*).
"""

from typing import TYPE_CHECKING

from opendp_optimal.extend import enrol, lazy_face
from opendp_optimal_geo import plugin

if TYPE_CHECKING:
    from opendp_optimal.budget import ApproxGpFilter as ApproxGpFilter
    from opendp_optimal.budget import BudgetError as BudgetError
    from opendp_optimal.budget import CgpFilter as CgpFilter
    from opendp_optimal.budget import Filter as Filter
    from opendp_optimal.budget import GaussianFilter as GaussianFilter
    from opendp_optimal.budget import GpFilter as GpFilter
    from opendp_optimal.budget import approximate_loss as approximate_loss
    from opendp_optimal.budget import filter_context as filter_context
    from opendp_optimal.budget import gaussian_delta as gaussian_delta
    from opendp_optimal.budget import make_filter as make_filter
    from opendp_optimal.budget import simple_loss as simple_loss
    from opendp_optimal.extend import make_grid_gaussian as make_grid_gaussian
    from opendp_optimal.extend import make_grid_laplace as make_grid_laplace
    from opendp_optimal.extend import then_grid_gaussian as then_grid_gaussian
    from opendp_optimal.extend import then_grid_laplace as then_grid_laplace
    from opendp_optimal_geo.answer import Answer as Answer
    from opendp_optimal_geo.answer import Round as Round
    from opendp_optimal_geo.audit import audit_looks as audit_looks
    from opendp_optimal_geo.audit import audit_population as audit_population
    from opendp_optimal_geo.audit import gaussian_power as gaussian_power
    from opendp_optimal_geo.curator import Curator as Curator
    from opendp_optimal_geo.density import DensityMap as DensityMap
    from opendp_optimal_geo.look import Request as Request
    from opendp_optimal_geo.look import gaussian_noise as gaussian_noise
    from opendp_optimal_geo.look import laplace_noise as laplace_noise
    from opendp_optimal_geo.look import planar_laplace_noise as planar_laplace_noise
    from opendp_optimal_geo.maps import CountMap as CountMap
    from opendp_optimal_geo.population import Population as Population
    from opendp_optimal_geo.projection import project as project
    from opendp_optimal_geo.projection import unproject as unproject
    from opendp_optimal_geo.protocol import LocalProtocol as LocalProtocol
    from opendp_optimal_geo.protocol import Reply as Reply
    from opendp_optimal_geo.protocol import Status as Status
    from opendp_optimal_geo.query import KernelDensity as KernelDensity
    from opendp_optimal_geo.query import Nearest as Nearest
    from opendp_optimal_geo.query import Points as Points
    from opendp_optimal_geo.query import RangeCount as RangeCount
    from opendp_optimal_geo.radius import gaussian_radius as gaussian_radius
    from opendp_optimal_geo.radius import laplace_radius as laplace_radius
    from opendp_optimal_geo.region import rectangle as rectangle
    from opendp_optimal_geo.region import threshold_shift as threshold_shift
    from opendp_optimal_geo.schedule import Schedule as Schedule
    from opendp_optimal_geo.schedule import even_rule as even_rule
    from opendp_optimal_geo.schedule import saving_rule as saving_rule
    from opendp_optimal_geo.schedule import spread_rule as spread_rule
    from opendp_optimal_geo.score import DistanceTo as DistanceTo
    from opendp_optimal_geo.score import SignedDistance as SignedDistance
    from opendp_optimal_geo.transform import make_distance_to_point as make_distance_to_point
    from opendp_optimal_geo.transform import make_projection as make_projection
    from opendp_optimal_geo.transform import make_signed_distance as make_signed_distance
    from opendp_optimal_geo.transform import projected_distance as projected_distance
    from opendp_optimal_geo.transform import then_distance_to_point as then_distance_to_point
    from opendp_optimal_geo.transform import then_projection as then_projection
    from opendp_optimal_geo.transform import then_signed_distance as then_signed_distance

__getattr__, __dir__, __all__ = lazy_face(__name__)

enrol(plugin)
