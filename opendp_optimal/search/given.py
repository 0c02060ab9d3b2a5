"""Noise with a given law as a certified table: rounded to integers, repaired, proved private."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from opendp_optimal.arrays import Floats
from opendp_optimal.certify.noise import TOTAL, delta_units, no_prices
from opendp_optimal.checks import whole
from opendp_optimal.errors import CertificateError
from opendp_optimal.known.real import truncated_laplace_radius
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.round.noise import private_weights, round_weights
from opendp_optimal.search.stairs import MARGINS
from opendp_optimal.table.noise import MOST_CELLS, NoiseTable

_MOST_POINTS = 20_000
"""Of truncated Laplace noise."""


def certified_noise(
    epsilon: float,
    delta: float,
    masses: ArrayLike,
    *,
    cells: int,
    loss: str | Loss | Callable[[float], float] = "l1",
) -> NoiseTable:
    """Noise with given masses as a certified table: rounded to integers, repaired, proved private.

    Rounding may cost a little of delta. It is repaired by mixing in up to a thousandth of truncated
    Laplace noise, which may reach one sensitivity farther than the masses. The table's lower bound
    is that of the loss: nothing is claimed about how good the noise is.

    :param epsilon: privacy parameter; the guarantee holds for exactly this float
    :param delta: privacy parameter, above 0: noise that ends is not private without
    :param masses: of the lattice points -radius..radius, in any unit
    :param cells: lattice points per unit of sensitivity
    :param loss: what the table's expected loss is of
    :raises CertificateError: if the masses are farther from private than rounding explains

    >>> fall = [0.5 ** abs(i) for i in range(-8, 9)]
    >>> table = certified_noise(1.0, 0.01, fall, cells=1)
    >>> table.verify()
    >>> round(table.upper, 3)
    1.394
    """
    problem = NoiseProblem(epsilon=epsilon, delta=delta, loss=loss_of(loss))
    if problem.delta == 0:
        raise ValueError(
            f"delta ({delta!r}) must be above 0: noise that ends is not private without"
        )
    cells = whole("cells", cells, most=MOST_CELLS)
    law = _law(masses)
    for more in (0, cells):
        try:
            weights, atom = private_weights(
                np.pad(law, more), 0.0, cells=cells, epsilon=problem.epsilon, delta=problem.delta
            )
        except CertificateError:
            continue
        return NoiseTable.rounded(problem, cells, weights, atom, no_prices(cells))
    rounded, _ = round_weights(law, 0.0)
    needed = delta_units(rounded, 0, cells, problem.epsilon, Fraction(cells)) / TOTAL
    raise CertificateError(
        f"masses need a delta of {float(needed):.6g} at epsilon ({epsilon}) with {cells} cells per "
        f"sensitivity, more than delta ({delta}) and than rounding explains"
    )


def _law(masses: ArrayLike) -> Floats:
    """Masses, checked, in units of their sum."""
    try:
        law = np.array(masses, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("masses must be numbers") from None
    if law.ndim != 1 or len(law) % 2 != 1:
        raise ValueError(f"masses (of shape {law.shape}) must be an odd number: of -radius..radius")
    if not np.all(np.isfinite(law)) or law.min() < 0 or law.max() == 0:
        raise ValueError("masses must be finite, not negative and not all 0")
    law = law / law.max()
    return np.asarray(law / law.sum())


@lru_cache(maxsize=64)
def truncated_laplace(epsilon: float, delta: float) -> NoiseTable:
    """Truncated Laplace noise (Geng, Ding, Guo and Kumar 2020) at sensitivity 1, certified.

    Its lower bound is 0: nothing is claimed about how good it is.

    :param epsilon: privacy parameter; the guarantee holds for exactly this float
    :param delta: privacy parameter, above 0
    :raises ValueError: if delta is 0: then there is nothing to truncate

    >>> round(truncated_laplace(1.0, 0.1).upper, 3)  # the paper's closed form: 0.7368
    0.737
    """
    if not NoiseProblem(epsilon=epsilon, delta=delta, loss=loss_of("l1")).delta > 0:
        raise ValueError(f"delta ({delta!r}) must be above 0 for truncated Laplace noise")
    length = truncated_laplace_radius(epsilon, delta)
    cells = int(max(4, min(64 * max(1.0, epsilon), _MOST_POINTS / (2 * length + 2))))
    for margin in MARGINS:
        law = _laplace_masses(epsilon * (1 - margin), delta * (1 - margin), cells)
        try:
            return certified_noise(epsilon, delta, law, cells=cells)
        except CertificateError:
            continue
    raise CertificateError("no truncated Laplace noise of integers is private")


def _laplace_masses(epsilon: float, delta: float, cells: int) -> Floats:
    """What the density of truncated Laplace noise has in each cell, each to the last digit."""
    cut = truncated_laplace_radius(epsilon, delta)
    radius = math.ceil(cut * cells) + 1
    starts = np.minimum((np.arange(radius + 1) - 0.5) / cells, cut)
    starts[0] = 0.0
    ends = np.minimum((np.arange(radius + 1) + 0.5) / cells, cut)
    right = np.exp(-epsilon * starts) * -np.expm1(-epsilon * (ends - starts))
    return np.concatenate([right[:0:-1], [2 * right[0]], right[1:]])
