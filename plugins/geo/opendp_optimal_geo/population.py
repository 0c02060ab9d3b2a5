"""Many users, each with a budget of their own, asked by the local protocol."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal_geo import query as queries
from opendp_optimal_geo._checks import count, location, positive, share
from opendp_optimal_geo.answer import Answer
from opendp_optimal_geo.crowd import Crowd
from opendp_optimal_geo.elimination import Progress
from opendp_optimal_geo.region import LARGEST, check_region
from opendp_optimal_geo.score import DistanceTo, SignedDistance

__all__ = ["Population"]

FloatArray = NDArray[np.float64]


class Population(Crowd):
    """Users with points and budgets.

    Each user answers with noise of their own (the local model) and pays for it; a price beyond
    what is left halts the user for good (Algorithm 1). The guarantee is about points on the grid:
    rounding moves a point by at most half a grid step per coordinate.

    :param points: one row per user, or a callable that asks clients of their own
    :param budget: per user: epsilon per unit ("gp", "approx-gp") or rho per squared unit ("cgp")
    :param privacy: "cgp" (Gaussian noise), "gp" (Laplace noise) or "approx-gp" (Gaussian noise,
        epsilon per unit up to ``reach`` with probability ``1 - delta``)
    :param grid: grid step of the points, a power of two; 1/16 by default
    :param delta: for "approx-gp"
    :param reach: for "approx-gp": the largest distance that is protected
    :param tight: for "approx-gp": the exact Gaussian curve in place of equation (10); for
        clients of their own, whose noise nothing checks, it needs OpenDP's feature
        "honest-but-curious"
    :param size: number of users, for clients of their own
    :param dimension: length of the points, for clients of their own
    :param journal: file that holds the budgets, rewritten before every look
    :param central_budget: rho for central threshold queries, apart from the users' budgets

    >>> people = Population([[0.0, 0.0], [900.0, 0.0], [5000.0, 0.0]], budget=0.01)
    >>> from opendp_optimal_geo import rectangle
    >>> answer = people.range_count(rectangle((0, 0), 2000, 2000), budget=0.005)
    >>> answer.value, answer.error_bound, answer.saving > 0.5
    (2, 0, True)
    """

    def range_count(
        self,
        region: Any,
        *,
        budget: Any,
        method: str = "point",
        looks: Any = ("doubling", 10),
        beta: float = 0.05,
        baseline: bool = False,
        shift: bool = True,
        component: str = "data",
        progress: Progress | None = None,
    ) -> Answer:
        """Count the users inside a region (Algorithm 6, or BM_0 and BM_1).

        :param region: a shapely Polygon or MultiPolygon; see :func:`~opendp_optimal_geo.rectangle`
        :param budget: what each user may spend on it: one number, or one for each user
        :param method: users send noisy points ("point") or noisy distances ("distance")
        :param looks: ("even", c), ("doubling", c), or prices that add up to the budget
        :param beta: failure probability of the error bound
        :param baseline: one look at the whole price for everybody, nobody is eliminated
        :param shift: for "distance": move the threshold as in appendix B
        :param component: which data
        :param progress: called with users x looks done and at most to do
        """
        score = SignedDistance(check_region(region))
        looker = self._looker(score, budget, method, looks, baseline, component)
        return queries.range_count(
            looker, share("beta", beta), baseline=baseline, shift=shift, progress=progress
        )

    def kde(
        self,
        point: Any,
        bandwidth: float,
        *,
        budget: Any,
        method: str = "point",
        looks: Any = ("doubling", 10),
        beta: float = 0.05,
        baseline: bool = False,
        component: str = "data",
        progress: Progress | None = None,
    ) -> Answer:
        """Estimate the Gaussian kernel density at a point (Algorithm 7, or BM_0 and BM_1).

        :param point: where
        :param bandwidth: of the kernel, in the units of the points
        :param budget: what each user may spend on it: one number, or one for each user
        :param method: users send noisy points ("point") or noisy distances ("distance")
        :param looks: ("even", c), ("doubling", c), or prices that add up to the budget
        :param beta: failure probability of the error bound
        :param baseline: one look at the whole price for everybody, nobody is eliminated
        :param component: which data
        :param progress: called with users x looks done and at most to do
        """
        score = DistanceTo(location("point", point, self._dimension(component)))
        width = positive("bandwidth", bandwidth)
        looker = self._looker(score, budget, method, looks, baseline, component)
        return queries.kernel_density(
            looker, width, share("beta", beta), baseline=baseline, progress=progress
        )

    def nearest(
        self,
        point: Any,
        k: int,
        *,
        budget: Any,
        method: str = "point",
        looks: Any = ("doubling", 10),
        beta: float = 0.05,
        baseline: bool = False,
        component: str = "data",
        progress: Progress | None = None,
    ) -> Answer:
        """Find the k users nearest to a point (Algorithm 8, or BM_0 and BM_1).

        :param point: where
        :param k: how many, at most as many as there are users
        :param budget: what each user may spend on it: one number, or one for each user
        :param method: users send noisy points ("point") or noisy distances ("distance")
        :param looks: ("even", c), ("doubling", c), or prices that add up to the budget
        :param beta: failure probability of the error bound
        :param baseline: one look at the whole price for everybody, nobody is eliminated
        :param component: which data
        :param progress: called with users x looks done and at most to do
        """
        k = count("k", k)
        if k > self.size:
            raise ValueError(f"k ({k}) must be at most the number of users, {self.size}")
        score = DistanceTo(location("point", point, self._dimension(component)))
        looker = self._looker(score, budget, method, looks, baseline, component)
        return queries.nearest(looker, k, share("beta", beta), baseline=baseline, progress=progress)

    def threshold(
        self, region: Any, fraction: float, *, component: str = "data", **options: Any
    ) -> Answer:
        """Say whether fewer than a fraction of the users are inside a region, in the central model.

        A trusted curator counts; the price comes out of ``central_budget`` (rho, users differing
        in one record). See :meth:`Curator.threshold`.

        :param region: a shapely Polygon or MultiPolygon
        :param fraction: strictly between 0 and 1
        :param component: which data
        :param options: ``budget``, ``method``, ``looks``, ``beta`` and ``baseline`` of
            :meth:`Curator.threshold`
        """
        if self._curator is None:
            raise ValueError("central_budget (None) must be given for central queries")
        data = self._components.get(component)
        if not isinstance(data, np.ndarray) or data.shape[1] != 2:
            raise ValueError(f"component ({component!r}) must hold points of the plane")
        score, grid = SignedDistance(check_region(region)), self.grid
        return self._curator._decide(
            lambda: score(data.astype(np.float64) * grid) < 0.0, fraction, **options
        )

    def release_points(
        self, *, budget: Any, component: str = "data", progress: Progress | None = None
    ) -> FloatArray:
        """Let every user send one noisy point; rows of NaN for those who do not answer.

        :param budget: what each user may spend on it: one number, or one for each user
        :param component: which data
        :param progress: called with users done and to do
        """
        score = DistanceTo(np.zeros(self._dimension(component)))
        looker = self._looker(score, budget, "point", ("even", 1), True, component)
        return queries.release_points(looker, self.size, progress)

    def density_map(
        self,
        bounds: Any,
        cells: int,
        bandwidth: float,
        *,
        budget: Any,
        component: str = "data",
        progress: Progress | None = None,
    ) -> queries.DensityMap:
        """Estimate the density on a map, from one noisy point per user.

        :param bounds: (west, south, east, north)
        :param cells: cells of the map along each side
        :param bandwidth: of the Gaussian smoothing, in the units of the points
        :param budget: what each user may spend on it: one number, or one for each user
        :param component: which data
        :param progress: called with users done and to do
        """
        corners = location("bounds", bounds, 4)
        if corners[0] >= corners[2] or corners[1] >= corners[3]:
            raise ValueError(f"bounds ({bounds!r}) must be (west, south, east, north)")
        sides = corners[2:] / 2.0 - corners[:2] / 2.0
        if np.abs(corners).max() > LARGEST or sides.min() < 2.0**-100:
            raise ValueError(f"bounds ({bounds!r}) must be within 2^100, and 2^-99 apart")
        cells = count("cells", cells, most=4096)
        width = positive("bandwidth", bandwidth)
        if width > (widest := 2.0 * float(sides.max())):
            raise ValueError(f"bandwidth ({bandwidth!r}) must be at most the map, {widest:g}")
        if self._dimension(component) != 2:
            raise ValueError(f"component ({component!r}) must hold points of the plane")
        released = self.release_points(budget=budget, component=component, progress=progress)
        return queries.density_map(released, corners, cells, width)
