"""Truncated Laplace noise as an exact table: the rival that optimal noise is compared with.

Geng, Ding, Guo and Kumar (2020). OpenDP has no such measurement, so it is made here from the same
parts as optimal noise: rounding the noise to a lattice is post-processing that commutes with the
shifts of the lattice, integer weights are proved private in exact arithmetic, and the release
draws from them.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from opendp_optimal import NoiseTable, known
from opendp_optimal.certify.noise import TOTAL, DualCertificate, delta_units
from opendp_optimal.errors import CertificateError
from opendp_optimal.losses.base import loss_of
from opendp_optimal.measure._opendp import make_measurement
from opendp_optimal.measure.guarantee import Guarantee, design_for
from opendp_optimal.measure.release import grid_for, make_direct, releaser
from opendp_optimal.measure.space import space_of
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.round.noise import round_weights

__all__ = ["make_truncated_laplace", "truncated_table"]

_MOST_POINTS = 20_000


@lru_cache(maxsize=64)
def truncated_table(epsilon: float, delta: float) -> NoiseTable:
    """Truncated Laplace noise at sensitivity 1 as a table with a proof of privacy.

    Its lower bound is 0: nothing is claimed about how good it is.

    :param epsilon: privacy parameter; the guarantee holds for exactly this float
    :param delta: privacy parameter, above 0
    :raises ValueError: if delta is 0: then there is nothing to truncate

    >>> table = truncated_table(1.0, 0.1)
    >>> table.verify()
    >>> round(table.upper, 3)  # the paper's closed form: 0.7368
    0.737
    """
    if not delta > 0:
        raise ValueError(f"delta ({delta!r}) must be above 0 for truncated Laplace noise")
    problem = NoiseProblem(epsilon=epsilon, delta=delta, loss=loss_of("l1"))
    length = known.truncated_laplace_radius(epsilon, delta)
    cells = int(max(4, min(64 * max(1.0, epsilon), _MOST_POINTS / (2 * length + 2))))
    radius = int(np.ceil(length * cells)) + 1
    none = DualCertificate(
        cells=cells,
        shifts=np.array([cells], np.int64),
        budget=np.zeros(1, np.int64),
        slack=np.zeros((1, 2 * radius + 1), np.int64),
        mirrored=False,
        order=np.zeros((0, 0), np.int64),
        tail=np.zeros(0, np.int64),
        scale=0,
    )
    for attempt in range(30):
        # Integers are rounded down and may miss the target by a hair: aim a hair below.
        hair = 1 - 2.0 ** (attempt - 45)
        integers, _ = round_weights(_masses(epsilon * hair, delta * hair, cells, radius), 0.0)
        if delta_units(integers, 0, cells, epsilon, Fraction(cells)) <= Fraction(delta) * TOTAL:
            return NoiseTable.rounded(problem, cells, integers, 0, none)
    raise CertificateError("no truncated Laplace noise of integers is private")


def _masses(epsilon: float, delta: float, cells: int, radius: int) -> NDArray[np.float64]:
    """What the density has in each cell, each to the last digit."""
    cut = known.truncated_laplace_radius(epsilon, delta)
    starts = np.minimum((np.arange(radius + 1) - 0.5) / cells, cut)
    starts[0] = 0.0
    ends = np.minimum((np.arange(radius + 1) + 0.5) / cells, cut)
    right = np.exp(-epsilon * starts) * -np.expm1(-epsilon * (ends - starts))
    return np.concatenate([right[:0:-1], [2 * right[0]], right[1:]])


def make_truncated_laplace(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    d_in: float,
    d_out: tuple[float, float],
) -> dp.Measurement:
    """Make a measurement that adds truncated Laplace noise.

    :param input_domain: one number; floats must exclude NaN
    :param input_metric: ``absolute_distance``
    :param d_in: the largest distance between neighbours
    :param d_out: ``(epsilon, delta)``

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    >>> make_truncated_laplace(*space, 2.0, (1.0, 1e-6)).map(2.0)
    (1.0, 1e-06)
    """
    epsilon, delta = d_out
    space = space_of(input_domain, input_metric)
    design = design_for(space, d_in, epsilon, delta)
    table = truncated_table(epsilon, delta)
    grid = grid_for(space, table, design.sensitivity)
    guarantee = Guarantee(space, design, table, grid, d_in, epsilon, delta)
    release = releaser(space, table, grid)
    measurement: Any = make_direct(
        make_measurement(
            input_domain,
            input_metric,
            dp.approximate(dp.max_divergence()),
            release,
            guarantee.pair,
            TO=space.output_type,
        ),
        space,
        release,
    )
    measurement.table = table
    measurement.guarantee = guarantee
    return measurement  # type: ignore[no-any-return]
