"""Factors of block-banded matrices against dense algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import LinAlgError

from opendp_optimal.solvers.blockband import BlockBand


@settings(max_examples=40)
@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 9), st.integers(0, 2**32))
def test_solutions_are_those_of_the_dense_matrix(blocks, size, reach, seed):
    draw = np.random.default_rng(seed)
    count = blocks * size
    at = np.arange(count) // size
    near = np.abs(at[:, None] - at[None, :]) <= reach
    root = draw.normal(size=(count, count)) * near
    matrix = (root + root.T) * 0.5 + 4 * count * np.eye(count)
    right = draw.normal(size=(count, 3))
    lower = np.tril(matrix)
    factor = BlockBand(lower.copy(), size, reach)
    assert factor.solve(right) == pytest.approx(np.linalg.solve(matrix, right), rel=1e-9, abs=1e-12)
    one = np.linalg.solve(matrix, right[:, 0])
    assert factor.solve(right[:, 0]) == pytest.approx(one, rel=1e-9, abs=1e-12)


def test_an_indefinite_matrix_is_refused():
    with pytest.raises(LinAlgError):
        BlockBand(np.diag([1.0, -1.0, 1.0]), 1, 0)
