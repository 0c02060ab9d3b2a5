"""Made-up tables and their releases, for the tests of posteriors."""

import math

import numpy as np

from opendp_optimal.extend import known
from opendp_optimal_bayes import posterior

HALF = known.Geometric(0.5)


def sparse_table(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Counts in which neighbours are alike and most are 0."""
    rng = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.linspace(0, 3, n) for n in shape), indexing="ij")
    return rng.poisson(25 * np.exp(-sum(a**2 for a in axes) * 1.5))


def noisy(table: np.ndarray, rate: float, seed: int = 0) -> np.ndarray:
    """A release with geometric noise."""
    rng, p = np.random.default_rng([7, seed]), -math.expm1(-rate)
    return table + rng.geometric(p, table.shape) - rng.geometric(p, table.shape)


TRUE = sparse_table((30, 30))
RELEASED = noisy(TRUE, 0.5)
FREE = posterior(RELEASED, HALF)
NEAR = posterior(RELEASED, HALF, like="neighbours")
