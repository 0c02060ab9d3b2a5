"""A tutorial plugin for opendp-optimal."""

from typing import TYPE_CHECKING

from opendp_optimal.extend import enrol, lazy_face
from opendp_optimal_example import plugin

if TYPE_CHECKING:
    from opendp_optimal_example.huber import HUBER as HUBER
    from opendp_optimal_example.mean import make_sized_mean as make_sized_mean

__getattr__, __dir__, __all__ = lazy_face(__name__)

enrol(plugin)
