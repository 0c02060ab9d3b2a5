"""Cholesky factors of positive definite matrices of blocks that join near rows only."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from opendp_optimal.arrays import Floats


class BlockBand:
    """The factor of a matrix of ``size`` x ``size`` blocks, zero beyond ``reach`` blocks.

    Only the lower triangle is looked at; the matrix is overwritten. With a reach of all blocks it
    is a plain factor.

    >>> BlockBand(np.diag([4.0, 9.0]), 1, 0).solve(np.ones(2)).tolist()
    [0.25, 0.1111111111111111]
    """

    def __init__(self, matrix: Floats, size: int, reach: int) -> None:
        """Factor, window by window."""
        self.windows: list[tuple[int, int, int, Floats, Floats]] = []
        count = len(matrix)
        wide = count if (reach + 1) * size >= count else size
        for low in range(0, count, wide):
            high = min(low + wide, count)
            end = min(high + reach * size, count)
            factor = cholesky(matrix[low:high, low:high], lower=True, check_finite=False)
            panel = solve_triangular(
                factor, matrix[high:end, low:high].T, lower=True, check_finite=False
            )
            matrix[high:end, high:end] -= panel.T @ panel
            self.windows.append((low, high, end, factor, panel))

    def solve(self, right: Floats) -> Floats:
        """Solve for one or more right-hand sides."""
        out = np.array(right, dtype=float)
        for low, high, end, factor, panel in self.windows:
            found = solve_triangular(factor, out[low:high], lower=True, check_finite=False)
            out[low:high] = found
            out[high:end] -= panel.T @ found
        for low, high, end, factor, panel in reversed(self.windows):
            rest = out[low:high] - panel @ out[high:end]
            out[low:high] = solve_triangular(
                factor, rest, lower=True, trans="T", check_finite=False
            )
        return out
