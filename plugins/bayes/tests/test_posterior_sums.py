"""Sums of cells."""

import math
import warnings

import numpy as np
import pytest
from posterior_tables import FREE, NEAR, RELEASED, TRUE, noisy

from opendp_optimal.extend import known
from opendp_optimal_bayes import PosteriorWarning, posterior


def test_sums_follow_the_rules() -> None:
    for found in (FREE, NEAR):
        sigma = math.sqrt(known.Geometric(0.5).moment(2))
        total = found.sum()
        assert total.estimate == total.raw == RELEASED.sum()
        assert total.raw_deviation == total.deviation == pytest.approx(30 * sigma)
        block = np.zeros((30, 30), dtype=bool)
        block[3:6, 3:6] = True
        some = found.sum(block)
        assert some.raw == RELEASED[block].sum()
        assert some.raw_deviation == pytest.approx(3 * sigma)
        assert some.deviation >= some.raw_deviation - 1e-9
        ends = sorted((some.raw, float(found.mean[block].sum())))
        assert ends[0] - 1e-9 <= some.estimate <= ends[1] + 1e-9


def test_the_largest_cells_are_smaller_than_they_look() -> None:
    true = np.random.default_rng(4).poisson(3, (50, 50))
    released = noisy(true, 0.2)
    found = posterior(released, known.Geometric(0.2))
    largest = np.argsort(-released.ravel(), kind="stable")[:100]
    chosen = found.sum(largest, selected=True)
    truth = true.ravel()[largest].sum()
    assert chosen.estimate == pytest.approx(found.mean.ravel()[largest].sum())
    assert chosen.deviation >= chosen.raw_deviation
    assert abs(chosen.estimate - truth) < 0.1 * abs(chosen.raw - truth)


def test_sums_of_medians_warn() -> None:
    for adds in (lambda m: m.sum(), lambda m: m[:3].sum(axis=0), np.sum):
        with pytest.warns(PosteriorWarning, match="sum of medians"):
            adds(FREE.median)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.abs(FREE.median - TRUE).sum()
        FREE.mean.sum()
