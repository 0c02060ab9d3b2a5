"""A tutorial plugin for opendp-optimal."""

from opendp_optimal_example.huber import HUBER
from opendp_optimal_example.mean import make_optimal_mean

__all__ = ["HUBER", "make_optimal_mean"]
