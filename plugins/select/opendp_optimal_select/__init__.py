"""Multi-selection for OpenDP: one private signal, ``k`` answers, the user keeps the best.

The client adds Laplace noise to its value and sends it; the server answers with ``k`` results; the
client keeps the best one and never says which. Laplace noise is an optimal client for every
disutility, and ``k`` answers divide the error by about ``(k + 1) / 2`` at the same privacy.
"""

from opendp_optimal_select.audit import audit_signal
from opendp_optimal_select.catalogue import Catalogue, VectorCatalogue
from opendp_optimal_select.check import expected_cost, minimise_cost
from opendp_optimal_select.disutility import check_disutility
from opendp_optimal_select.features import (
    FeatureSpace,
    grid_offsets,
    make_feature_selection,
    then_feature_selection,
)
from opendp_optimal_select.measure import (
    make_multi_selection,
    register,
    then_multi_selection,
)
from opendp_optimal_select.messages import Answer, MessageError, Request, Response
from opendp_optimal_select.noise import (
    GaussianNoise,
    LaplaceNoise,
    LogConcaveNoise,
    SymmetricNoise,
)
from opendp_optimal_select.parties import Client, FeatureClient, Server
from opendp_optimal_select.placement import lloyd_offsets, placement_cost, quantile_offsets
from opendp_optimal_select.placing import Placement, cost, offsets, recursion
from opendp_optimal_select.privacy import GeographicPrivacy, up_to
from opendp_optimal_select.ring.client import (
    RingNoise,
    design_ring,
    grid_cost,
    make_ring_selection,
    then_ring_selection,
)
from opendp_optimal_select.ring.optimum import RingOptimum, laplace_ring, optimal_ring
from opendp_optimal_select.service import http_transport

__all__ = [
    "Answer",
    "Catalogue",
    "Client",
    "FeatureClient",
    "FeatureSpace",
    "GaussianNoise",
    "GeographicPrivacy",
    "LaplaceNoise",
    "LogConcaveNoise",
    "MessageError",
    "Placement",
    "Request",
    "Response",
    "RingNoise",
    "RingOptimum",
    "Server",
    "SymmetricNoise",
    "VectorCatalogue",
    "audit_signal",
    "check_disutility",
    "cost",
    "design_ring",
    "expected_cost",
    "grid_cost",
    "grid_offsets",
    "http_transport",
    "laplace_ring",
    "lloyd_offsets",
    "make_feature_selection",
    "make_multi_selection",
    "make_ring_selection",
    "minimise_cost",
    "offsets",
    "optimal_ring",
    "placement_cost",
    "quantile_offsets",
    "recursion",
    "register",
    "then_feature_selection",
    "then_multi_selection",
    "then_ring_selection",
    "up_to",
]

register()
