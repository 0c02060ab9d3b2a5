"""Known mechanisms in closed form: what optimised noise is compared with, and falls back on.

Everything is for sensitivity 1 and in plain floating point. These numbers are for comparison and
for proposing candidates; they prove nothing by themselves.

>>> from opendp_optimal.known import REAL_NAMES, expected_loss
>>> round(expected_loss("truncated_laplace", 1.0, 0.2, "l1"), 4)
0.612
>>> min(REAL_NAMES, key=lambda name: expected_loss(name, 1.0, 0.2, "l1"))
'tulap'
"""

from typing import TYPE_CHECKING

from opendp_optimal.lazy import lazy_face

if TYPE_CHECKING:
    from opendp_optimal.known.gaussian import Gaussian as Gaussian
    from opendp_optimal.known.gaussian import classical_gaussian_sigma as classical_gaussian_sigma
    from opendp_optimal.known.gaussian import gaussian_delta as gaussian_delta
    from opendp_optimal.known.gaussian import gaussian_sigma as gaussian_sigma
    from opendp_optimal.known.integer import Canonical as Canonical
    from opendp_optimal.known.integer import DiscreteGaussian as DiscreteGaussian
    from opendp_optimal.known.integer import Geometric as Geometric
    from opendp_optimal.known.law import Law as Law
    from opendp_optimal.known.law import Tabulated as Tabulated
    from opendp_optimal.known.named import INTEGER_NAMES as INTEGER_NAMES
    from opendp_optimal.known.named import NAMES as NAMES
    from opendp_optimal.known.named import REAL_NAMES as REAL_NAMES
    from opendp_optimal.known.named import cdf as cdf
    from opendp_optimal.known.named import expected_loss as expected_loss
    from opendp_optimal.known.named import law_named as law_named
    from opendp_optimal.known.real import Laplace as Laplace
    from opendp_optimal.known.real import Staircase as Staircase
    from opendp_optimal.known.real import TruncatedLaplace as TruncatedLaplace
    from opendp_optimal.known.real import Tulap as Tulap
    from opendp_optimal.known.real import UniformBernoulli as UniformBernoulli
    from opendp_optimal.known.real import truncated_laplace_radius as truncated_laplace_radius

__getattr__, __dir__, __all__ = lazy_face(__name__)
