"""Values that are feature vectors (appendix A.7): project, then answer with a grid of points.

The client adds Gaussian noise to every feature. The server keeps the few directions that matter,
found by principal components of its own, public, catalogue; along each direction the projected
noise is again Gaussian of the same scale, so each axis gets the offsets of the line.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Literal

import numpy as np
import opendp.prelude as dp
from numpy.typing import ArrayLike

from opendp_optimal.extend import (
    Floats,
    Integers,
    Space,
    frozen_array,
    positive,
    postprocess,
    space_of,
    to_then,
    whole,
)
from opendp_optimal_select.catalogue import FARTHEST, Rows, VectorCatalogue
from opendp_optimal_select.noise import GaussianNoise
from opendp_optimal_select.placement import lloyd_offsets, quantile_offsets

Rule = Literal["lloyd", "quantile"]
MAX_GRID = 10_000


def grid_offsets(per_side: int, directions: int, *, scale: float, rule: Rule = "lloyd") -> Floats:
    """Return the ``(2 per_side + 1) ** directions`` points of the grid, one per row.

    With ``rule="quantile"`` the coordinates are those of appendix A.7 with ``per_side + 1`` in the
    denominator (as printed, the outermost point would be infinite); ``"lloyd"`` places them
    optimally on each axis.

    :param per_side: points on either side of 0 along each axis
    :param directions: number of axes
    :param scale: standard deviation of the noise along each axis
    :param rule: how to place the points of one axis

    >>> grid_offsets(1, 2, scale=1.0).shape
    (9, 2)
    """
    per_side = whole("per_side", per_side)
    directions = whole("directions", directions, most=MAX_GRID)
    scale = positive("scale", scale)
    if rule not in ("lloyd", "quantile"):
        raise ValueError(f"rule ({rule!r}) must be 'lloyd' or 'quantile'")
    along = 2 * per_side + 1
    if directions * np.log(along) > np.log(MAX_GRID):
        raise ValueError(
            f"per_side ({per_side}) and directions ({directions}) must give at most "
            f"{MAX_GRID} points, (2 per_side + 1) ** directions"
        )
    return scale * _unit_grid(along, directions, rule)


@lru_cache(maxsize=64)
def _unit_grid(along: int, directions: int, rule: Rule) -> Floats:
    place = lloyd_offsets if rule == "lloyd" else quantile_offsets
    axis = place(along, GaussianNoise(1.0))
    return frozen_array(list(itertools.product(axis, repeat=directions)))


@dataclass(frozen=True, eq=False)
class FeatureSpace(Rows):
    """A public catalogue in a feature space, with the directions along which to answer.

    :param points: one row of features per item
    :param items: what to answer; row numbers by default
    :param directions: how many principal components to keep

    >>> rng = np.random.default_rng(0)
    >>> films = FeatureSpace(rng.normal(size=(200, 5)), directions=2)
    >>> len(set(films.answer([0.0] * 5, scale=0.5, per_side=1)))
    9
    """

    points: ArrayLike
    items: Sequence[Hashable] | None = None
    directions: int = 1
    centre: Floats = field(init=False, repr=False, compare=False)
    projection: Floats = field(init=False, repr=False, compare=False)
    projected: VectorCatalogue = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Fit the projection on the catalogue and index the projected items."""
        super().__post_init__()
        points = np.asarray(self.points)
        directions = whole("directions", self.directions, most=points.shape[1])
        centre = points.mean(axis=0)
        covariance = (points - centre).T @ (points - centre)
        vectors = np.linalg.eigh(covariance)[1][:, ::-1][:, :directions].T
        # Eigenvectors have no sign of their own: make the largest entry positive.
        largest = np.abs(vectors).argmax(axis=1)
        vectors = vectors * np.sign(vectors[np.arange(directions), largest])[:, None]
        object.__setattr__(self, "centre", centre)
        object.__setattr__(self, "projection", vectors)
        projected = VectorCatalogue(self.project(points), self.items)
        object.__setattr__(self, "projected", projected)

    def project(self, points: ArrayLike) -> Floats:
        """Return the coordinates of ``points`` along the kept directions.

        :param points: one row of features per point
        """
        rows = np.atleast_2d(np.asarray(points, dtype=np.float64))
        if rows.shape[1] != self.dimension:
            raise ValueError(f"points ({rows.shape[1]} features) must have {self.dimension}")
        rows = np.clip(rows, -FARTHEST, FARTHEST)
        return np.asarray((rows - self.centre) @ self.projection.T)

    def answer(
        self, signal: ArrayLike, *, scale: float, per_side: int, rule: Rule = "lloyd"
    ) -> list[Hashable]:
        """Return the distinct items of one grid of answers.

        :param signal: the noisy features
        :param scale: standard deviation of the client's noise
        :param per_side: points on either side of 0 along each direction
        :param rule: how to place the points of one axis
        """
        return [self.item(i) for i in self.answer_batch(signal, scale, per_side, rule)[0]]

    def answer_batch(
        self, signals: ArrayLike, scale: float, per_side: int, rule: Rule = "lloyd"
    ) -> Integers:
        """Return item indices, one row of distinct ones per signal.

        :param signals: one row of noisy features per client
        :param scale: standard deviation of the clients' noise
        :param per_side: points on either side of 0 along each direction
        :param rule: how to place the points of one axis
        """
        grid = grid_offsets(per_side, self.directions, scale=scale, rule=rule)
        return self.projected.answer_batch(self.project(signals), grid)


def make_feature_selection(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    scale: float,
    space: FeatureSpace,
    per_side: int,
    *,
    rule: Rule = "lloyd",
) -> dp.Measurement:
    """Return a measurement that releases a grid of items around a noisy feature vector.

    The features are released once by OpenDP's own Gaussian measurement, under zero-concentrated
    privacy: ``rho = d_in ** 2 / (2 scale ** 2)``. Projection and answers are post-processing.

    :param input_domain: ``dp.vector_domain(dp.atom_domain(T=float, nan=False), size)``
    :param input_metric: ``dp.l2_distance(T=float)``
    :param scale: standard deviation of the noise on each feature
    :param space: the public catalogue and its directions
    :param per_side: points on either side of 0 along each direction
    :param rule: how to place the points of one axis
    :returns: a measurement whose release is a list of ``(2 per_side + 1) ** directions`` items

    >>> dp.enable_features("contrib")
    >>> films = FeatureSpace(np.random.default_rng(0).normal(size=(50, 3)), directions=1)
    >>> domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), 3)
    >>> meas = make_feature_selection(domain, dp.l2_distance(T=float), 2.0, films, 1)
    >>> meas.map(1.0), len(meas([0.0, 1.0, 2.0]))
    (0.125, 3)
    """
    scale = positive("scale", scale)
    if not isinstance(space, FeatureSpace):
        raise ValueError(f"space (a {type(space).__name__}) must be a FeatureSpace")
    if space_of(input_domain, input_metric) != Space("f64", "l2", space.dimension):
        wanted = f"dp.vector_domain(dp.atom_domain(T=float, nan=False), {space.dimension})"
        raise ValueError(
            f"input_domain ({input_domain}) and input_metric ({input_metric}) must be {wanted} and "
            "dp.l2_distance(T=float)"
        )
    answers = len(grid_offsets(per_side, space.directions, scale=scale, rule=rule))
    whole("(2 per_side + 1) ** directions", answers, most=len(space))
    noise = dp.m.make_gaussian(input_domain, input_metric, scale=scale)
    answer = partial(space.answer, scale=scale, per_side=per_side, rule=rule)
    return postprocess(noise, answer, "ExtrinsicObject")


then_feature_selection = to_then(make_feature_selection)
