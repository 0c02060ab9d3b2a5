"""Multi-selection for OpenDP: one private signal, ``k`` answers, the user keeps the best.

The client adds Laplace noise to its value and sends it; the server answers with ``k`` results; the
client keeps the best one and never says which. Laplace noise is an optimal client for every
disutility, and ``k`` answers divide the error by about ``(k + 1) / 2`` at the same privacy.
"""

from typing import TYPE_CHECKING

from opendp_optimal.extend import enrol, lazy_face
from opendp_optimal_select import plugin

if TYPE_CHECKING:
    from opendp_optimal_select.audit import audit_signal as audit_signal
    from opendp_optimal_select.catalogue import Catalogue as Catalogue
    from opendp_optimal_select.catalogue import VectorCatalogue as VectorCatalogue
    from opendp_optimal_select.check import expected_cost as expected_cost
    from opendp_optimal_select.check import minimise_cost as minimise_cost
    from opendp_optimal_select.disutility import check_disutility as check_disutility
    from opendp_optimal_select.features import FeatureSpace as FeatureSpace
    from opendp_optimal_select.features import grid_offsets as grid_offsets
    from opendp_optimal_select.features import make_feature_selection as make_feature_selection
    from opendp_optimal_select.features import then_feature_selection as then_feature_selection
    from opendp_optimal_select.measure import make_multi_selection as make_multi_selection
    from opendp_optimal_select.measure import then_multi_selection as then_multi_selection
    from opendp_optimal_select.messages import Answer as Answer
    from opendp_optimal_select.messages import MessageError as MessageError
    from opendp_optimal_select.messages import Request as Request
    from opendp_optimal_select.messages import Response as Response
    from opendp_optimal_select.noise import GaussianNoise as GaussianNoise
    from opendp_optimal_select.noise import LaplaceNoise as LaplaceNoise
    from opendp_optimal_select.noise import LogConcaveNoise as LogConcaveNoise
    from opendp_optimal_select.noise import SymmetricNoise as SymmetricNoise
    from opendp_optimal_select.parties import Client as Client
    from opendp_optimal_select.parties import FeatureClient as FeatureClient
    from opendp_optimal_select.parties import Server as Server
    from opendp_optimal_select.placement import lloyd_offsets as lloyd_offsets
    from opendp_optimal_select.placement import placement_cost as placement_cost
    from opendp_optimal_select.placement import quantile_offsets as quantile_offsets
    from opendp_optimal_select.placing import Placement as Placement
    from opendp_optimal_select.placing import cost as cost
    from opendp_optimal_select.placing import offsets as offsets
    from opendp_optimal_select.placing import recursion as recursion
    from opendp_optimal_select.privacy import GeographicPrivacy as GeographicPrivacy
    from opendp_optimal_select.privacy import up_to as up_to
    from opendp_optimal_select.ring.client import RingNoise as RingNoise
    from opendp_optimal_select.ring.client import design_ring as design_ring
    from opendp_optimal_select.ring.client import grid_cost as grid_cost
    from opendp_optimal_select.ring.client import make_ring_selection as make_ring_selection
    from opendp_optimal_select.ring.client import then_ring_selection as then_ring_selection
    from opendp_optimal_select.ring.optimum import RingOptimum as RingOptimum
    from opendp_optimal_select.ring.optimum import laplace_ring as laplace_ring
    from opendp_optimal_select.ring.optimum import optimal_ring as optimal_ring
    from opendp_optimal_select.service import http_transport as http_transport

__getattr__, __dir__, __all__ = lazy_face(__name__)

enrol(plugin)
