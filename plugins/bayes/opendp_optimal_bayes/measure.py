"""Bounded noise as OpenDP measurements: native noise and a clamp.

Adding noise and clamping the sum to lo..hi folds the tails onto the ends: that *is* the bounded
mechanism of the theory, so OpenDP's own exact samplers and its own privacy map serve. Integer types
without native noise are taken to one that has it, without loss, and back.
"""

from __future__ import annotations

import math

from opendp import measurements
from opendp.domains import atom_domain
from opendp.metrics import absolute_distance
from opendp.mod import Domain, Measurement, Metric, Transformation

from opendp_optimal.extend import (
    INTEGER_RANGES,
    Space,
    interval,
    known,
    laplace_scale_up,
    make_transformation,
    positive,
    require_features,
    space_of,
    to_then,
    whole,
)
from opendp_optimal_bayes.grid import Law
from opendp_optimal_bayes.remapping import keep_within

NATIVE = ("i32", "i64", "u32", "u64")


def make_bounded_geometric(
    input_domain: Domain, input_metric: Metric, lo: int, hi: int, epsilon: float
) -> Measurement:
    """Make a measurement that adds geometric noise to an integer and keeps the sum in lo..hi.

    For an answer in lo..hi no epsilon-private mechanism serves any Bayesian consumer better, after
    the right :func:`~opendp_optimal_bayes.remap` (Ghosh, Roughgarden, Sundararajan). The privacy
    map is OpenDP's: ``epsilon * d_in``.

    :param input_domain: an atom domain of any integer type
    :param input_metric: the absolute distance
    :param lo: smallest answer
    :param hi: largest answer
    :param epsilon: privacy loss for each step of 1

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    >>> meas = make_bounded_geometric(*space, lo=0, hi=20, epsilon=0.5)
    >>> meas.map(2), 0 <= meas(18) <= 20
    (1.0, True)
    """
    space = _scalar(input_domain, input_metric, "integers")
    low, high = interval(lo, hi)
    for name, value in (("lo", low), ("hi", high)):
        least, most = INTEGER_RANGES[space.carrier]
        if value.denominator != 1 or not least <= value <= most:
            raise ValueError(f"{name} ({value}) must be an integer of the type {space.carrier}")
    scale = laplace_scale_up(positive("epsilon", epsilon))
    if space.carrier in NATIVE:
        noisy = measurements.make_laplace(input_domain, input_metric, scale=scale)
    else:
        noisy = _widened(input_domain, input_metric, space) >> measurements.then_laplace(scale)
    measurement = keep_within(noisy, low, high, space.carrier)
    measurement.law = Law(low, high, True, known.Geometric(1.0 / scale))
    return measurement


then_bounded_geometric = to_then(make_bounded_geometric)


def make_bounded_laplace(
    input_domain: Domain,
    input_metric: Metric,
    lo: float,
    hi: float,
    epsilon: float,
    *,
    k: int | None = None,
) -> Measurement:
    """Make a measurement that adds Laplace noise to a number and keeps the sum in [lo, hi].

    Universally optimal for answers in the interval, for every continuous prior and every
    continuous legal Lipschitz loss (Fernandes, McIver, Morgan), after the right
    :func:`~opendp_optimal_bayes.remap`. Noise is drawn on a grid of powers of two by OpenDP, whose
    privacy map counts the rounding: ``epsilon * d_in`` on the finest grid, which is the default.

    :param input_domain: an atom domain of floats that excludes NaN
    :param input_metric: the absolute distance
    :param lo: smallest answer
    :param hi: largest answer
    :param epsilon: privacy loss for each unit of distance
    :param k: the grid is 2^k; None for the finest

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    >>> meas = make_bounded_laplace(*space, lo=0.0, hi=1.0, epsilon=4.0)
    >>> meas.map(0.5), 0 <= meas(0.9) <= 1
    (2.0, True)
    """
    space = _scalar(input_domain, input_metric, "floats")
    low, high = interval(lo, hi)
    scale = laplace_scale_up(positive("epsilon", epsilon))
    grid = None if k is None else whole("k", k, least=-1074, most=1023)
    noisy = measurements.make_laplace(input_domain, input_metric, scale=scale, k=grid)
    measurement = keep_within(noisy, low, high, space.carrier)
    measurement.law = Law(low, high, False, known.Laplace(1.0 / scale))
    return measurement


then_bounded_laplace = to_then(make_bounded_laplace)


def _scalar(input_domain: Domain, input_metric: Metric, wanted: str) -> Space:
    require_features("contrib")
    space = space_of(input_domain, input_metric)
    if space.vector:
        raise ValueError(f"input_domain ({input_domain}) must hold single numbers")
    if wanted != ("integers" if space.integer else "floats"):
        raise ValueError(f"input_domain ({input_domain}) must hold {wanted}")
    return space


def _widened(input_domain: Domain, input_metric: Metric, space: Space) -> Transformation:
    """Integers of a type without native noise as integers of one that has it."""
    wide = "u64" if space.carrier == "usize" else "i64"
    return make_transformation(
        input_domain, input_metric, atom_domain(T=wide), absolute_distance(T=wide), int, math.floor
    )
