"""Pipelines of OpenDP's documentation that end in Laplace, geometric or Gaussian noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import opendp.prelude as dp

import opendp_optimal  # noqa: F401 (enrols)
from opendp_optimal import then_optimal_noise
from opendp_optimal.losses.base import loss_of
from opendp_optimal.measure.anatomy import law_of

dp.enable_features("contrib", "honest-but-curious")  # amplification asks for it

AGES = [23, 41, 67, 35, 52, 19, 44] * 20
INCOMES = [12.5, 80.0, 33.3, 61.0, 5.0] * 20
WORDS = ["a", "b", "b", "c", "a"] * 20

_INTS = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
_FLOATS = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
_STRINGS = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
_SIZED = (
    dp.vector_domain(dp.atom_domain(T=float, nan=False), size=100),
    dp.symmetric_distance(),
)


@dataclass(frozen=True)
class Pipeline:
    """One pipeline up to its noise, and OpenDP's own noise at its end."""

    name: str
    before: Any
    native: Callable[[float], Any]
    scale: float
    data: Any
    d_in: int = 1

    def pair(self) -> tuple[dp.Measurement, dp.Measurement]:
        """The measurement as documented, and the one with its noise swapped at the same price."""
        like = self.native(self.scale)
        ours = self.before >> then_optimal_noise(self.before.map(self.d_in), like=like)
        return self.before >> like, ours


def expected(measurement: dp.Measurement) -> float:
    """The computed expected absolute error of each number that is released."""
    return law_of(measurement, vectors=True).expected_loss(loss_of("l1"))


_COUNT = _INTS >> dp.t.then_count()
_SUM = _FLOATS >> dp.t.then_clamp((0.0, 100.0)) >> dp.t.then_sum()
_MEAN = _SIZED >> dp.t.then_clamp((0.0, 100.0)) >> dp.t.then_mean()
_VARIANCE = _SIZED >> dp.t.then_clamp((0.0, 100.0)) >> dp.t.then_variance()
_INT_SUM = _INTS >> dp.t.then_clamp((0, 100)) >> dp.t.then_sum()
_HISTOGRAM = _STRINGS >> dp.t.then_count_by_categories(["a", "b", "c"])
_HISTOGRAM_L2 = _STRINGS >> dp.t.then_count_by_categories(["a", "b", "c"], MO=dp.L2Distance[int])
_TREE = _HISTOGRAM >> dp.t.then_b_ary_tree(leaf_count=3, branching_factor=2)

PIPELINES = [
    Pipeline("count, Laplace", _COUNT, dp.m.then_laplace, 1.0, AGES),
    Pipeline("count, geometric", _COUNT, dp.m.then_geometric, 2.0, AGES),
    Pipeline("count, Gaussian", _COUNT, dp.m.then_gaussian, 2.0, AGES),
    Pipeline("count of two contributions", _COUNT, dp.m.then_laplace, 2.0, AGES, 2),
    Pipeline("sum of floats, Laplace", _SUM, dp.m.then_laplace, 50.0, INCOMES),
    Pipeline("sum of floats, large scale", _SUM, dp.m.then_laplace, 1000.0, INCOMES),
    Pipeline("sum of floats, Gaussian", _SUM, dp.m.then_gaussian, 300.0, INCOMES),
    Pipeline("sum of integers, Laplace", _INT_SUM, dp.m.then_laplace, 100.0, AGES),
    Pipeline("sum of integers, Gaussian", _INT_SUM, dp.m.then_gaussian, 200.0, AGES),
    Pipeline("mean of known size", _MEAN, dp.m.then_laplace, 1.0, INCOMES, 2),
    Pipeline("mean of known size, Gaussian", _MEAN, dp.m.then_gaussian, 1.0, INCOMES, 2),
    Pipeline("variance of known size", _VARIANCE, dp.m.then_laplace, 100.0, INCOMES, 2),
    Pipeline("histogram, Laplace", _HISTOGRAM, dp.m.then_laplace, 1.0, WORDS),
    Pipeline("histogram, Gaussian", _HISTOGRAM_L2, dp.m.then_gaussian, 2.0, WORDS),
    Pipeline("tree of counts, Laplace", _TREE, dp.m.then_laplace, 3.0, WORDS),
]
