"""Truncated Laplace noise as a measurement: the rival that optimal noise is compared with."""

from __future__ import annotations

import opendp.prelude as dp

from opendp_optimal import NoiseTable
from opendp_optimal.extend import noise_measurement, truncated_laplace


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
    return truncated_laplace(epsilon, delta)


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
    return noise_measurement(input_domain, input_metric, truncated_table(*d_out), d_in, d_out)
