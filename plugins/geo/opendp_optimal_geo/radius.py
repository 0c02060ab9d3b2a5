"""Error radii: lambda of Lemma 6.1, and of estimates from several Gaussian or Laplace looks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from opendp_optimal.extend import Floats
from opendp_optimal_geo.allowances import Users
from opendp_optimal_geo.plan import FEWEST_TICKS, Plan
from opendp_optimal_geo.score import score_error

_DIRECTIONS = 16


def gaussian_radius(dimension: int, beta: float) -> float:
    """Return lambda(d, beta): a standard Gaussian vector is longer with probability <= beta.

    :param dimension: length of the vector
    :param beta: failure probability

    >>> round(gaussian_radius(2, 0.01), 4)
    3.0349
    """
    if dimension == 1:
        return math.sqrt(2.0 * math.log(2.0 / beta))
    log = math.log(1.0 / beta)
    if dimension == 2:
        return math.sqrt(2.0 * log)
    return math.sqrt(dimension + 2.0 * math.sqrt(dimension * log) + 2.0 * log)


def laplace_radius(
    dimension: int, beta: float, split: Sequence[float], *, slack: float = 0.0
) -> float:
    """Return a bound on the weighted average of Laplace looks with rates ``split``.

    The weights are proportional to the squares of the rates. The bound is Chernoff's: in every
    direction the moment generating function of a look of rate e is at most
    ``(1 - (t/e)^2)^(-(d+1)/2)``, exactly so for real vectors; on the integers it is larger by at
    most ``exp(slack)`` in total, because neither density nor tilt vary by more within a cell. On
    the line it is not, since sinh(t/2)/sinh(e/2) <= t/e. One look on the line has the exact tail
    ``exp(-h) * 2/(1 + exp(-a)) <= exp(a/2 - h)``, a the rate per grid step.

    :param dimension: length of the vectors
    :param beta: failure probability
    :param split: rate of each look
    :param slack: 1.5 * sqrt(d) * (sum of the rates per grid step)

    >>> round(laplace_radius(1, 0.001, [1.0]), 3)
    6.908
    """
    from scipy.optimize import minimize_scalar

    if dimension == 1 and len(split) == 1:
        return (math.log(1.0 / beta) + slack) / split[0] * (1.0 + 1e-9)
    squares = math.fsum(f * f for f in split)
    steps = [f / squares for f in split]  # weight / rate
    if dimension == 1:
        directions, stretch = 2.0, 1.0
    elif dimension == 2:
        directions, stretch = float(_DIRECTIONS), 1.0 / math.cos(math.pi / _DIRECTIONS)
    else:
        directions, stretch = 2.0 * dimension, math.sqrt(dimension)
    head = math.log(directions / beta) + slack
    power = (dimension + 1) / 2.0
    limit = 1.0 / max(steps)

    def width(part: float) -> float:
        t = part * limit
        return (head - power * math.fsum(math.log1p(-((t * s) ** 2)) for s in steps)) / t

    # Any part gives a valid bound; the search only has to come close to the best one.
    best = minimize_scalar(width, bounds=(1e-6, 1.0 - 1e-9), method="bounded")
    return stretch * float(best.fun) * (1.0 + 1e-9)


_laplace_radius = lru_cache(maxsize=256)(laplace_radius)


def deviation(plan: Plan, users: Users, weights: float | Floats) -> Floats:
    """Return the standard deviations of weighted averages, per coordinate.

    :param plan: of the query
    :param users: indices
    :param weights: their sums of weights, or the one that they share
    """
    tick = float(plan.tick)
    if plan.pure:
        squares = math.fsum(f * f for f in plan.split)
        given = np.asarray(plan.given(users), np.float64) * (tick * math.sqrt(squares))
        return np.asarray(math.sqrt(2.0) * plan.stretch / given)
    return np.asarray(plan.stretch / np.sqrt(2.0 * tick * np.asarray(weights)))


def error_radius(
    plan: Plan, users: Users, weights: float | Floats, look: int, beta: float
) -> Floats:
    """Return what estimated scores may be off by, except with probability beta each.

    :param plan: of the query
    :param users: indices
    :param weights: their sums of weights, or the one that they share
    :param look: number of the last look, from 0
    :param beta: failure probability
    """
    size = plan.columns or 1
    if plan.pure:
        split = plan.split[: look + 1]
        radius = _laplace_radius(size, beta, split, slack=plan.slack) / (1.0 - 1.0 / FEWEST_TICKS)
        price = np.asarray(plan.given(users), np.float64) * float(plan.tick)
        # A user who halted on the way has fewer looks than the bound is for.
        short = np.asarray(weights) < math.fsum(f * f for f in split) * (1.0 - 1e-9)
        spread = np.where(short, math.inf, radius * plan.stretch / price)
    else:
        spread = deviation(plan, users, weights) * gaussian_radius(size, beta)
    rounding = plan.step * (math.sqrt(size) / 2.0 if plan.columns else 1.0)
    rounding += plan.grid * score_error(plan.score.dimension) * 2.0**31
    return np.asarray(spread * (1.0 + 1e-9) + rounding)
