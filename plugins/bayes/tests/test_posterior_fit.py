"""Fits of priors are finished, certified, and the same everywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from posterior_tables import FREE, NEAR, RELEASED

from opendp_optimal.extend import known
from opendp_optimal_bayes import posterior
from opendp_optimal_bayes.table_posterior import fit


def objective(chances, counts, pseudo, weights) -> float:
    return float(counts @ np.log(chances @ weights) + pseudo @ np.log(weights))


@pytest.mark.parametrize("seed", range(6))
def test_no_weights_are_better_than_the_certificate_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chances = rng.random((40, 8)) ** 6 * 10.0 ** rng.integers(-200, 3, (40, 1))
    counts, pseudo = rng.integers(1, 500, 40) * 1.0, rng.random(8) * 10.0 ** rng.integers(-3, 1)
    found = fit.fit_weights(chances, counts, pseudo)
    assert found.gap <= 1e-9
    assert found.weights.sum() == pytest.approx(1, abs=1e-12)
    scaled = chances / chances.max(axis=1, keepdims=True)
    best = objective(scaled, counts, pseudo, found.weights)
    weights = np.full(8, 1 / 8)
    for _ in range(3000):  # expectation and maximisation climb, however slowly
        weights = weights * (scaled.T @ (counts / (scaled @ weights))) + pseudo
        weights /= weights.sum()
        gap = fit.certified_gap(scaled, counts, pseudo, weights)
        assert best <= objective(scaled, counts, pseudo, weights) + gap * counts.sum() + 1e-7
    assert objective(scaled, counts, pseudo, weights) <= best + found.gap * counts.sum() + 1e-7


def test_a_certificate_can_fail() -> None:
    chances, counts, pseudo = np.eye(2), np.array([3.0, 1.0]), np.full(2, 1e-9)
    good = fit.certified_gap(chances, counts, pseudo, np.array([0.75, 0.25]))
    assert good < 1e-8 < 0.2 < fit.certified_gap(chances, counts, pseudo, np.array([0.5, 0.5]))


def test_fits_are_finished_and_the_same_each_time() -> None:
    again = posterior(RELEASED, known.Geometric(0.5), like="neighbours")
    assert 0 <= FREE.gap <= NEAR.gap <= 1e-6
    assert np.array_equal(again.mean, NEAR.mean)
    assert np.array_equal(again.median, NEAR.median)


ELSEWHERE = """
import json
from posterior_tables import FREE, NEAR
print(json.dumps([[f.mean.ravel().tolist(), f.median.ravel().tolist()] for f in (FREE, NEAR)]))
"""


@pytest.mark.process
def test_another_blas_gives_the_same_answer() -> None:
    """OpenBLAS has other code, which adds in another order, for each kind of processor."""
    names = "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"
    environment = os.environ | dict.fromkeys(names, "4") | {"OPENBLAS_CORETYPE": "Prescott"}
    here = str(Path(__file__).parent)
    environment["PYTHONPATH"] = os.pathsep.join([here, *filter(None, sys.path)])
    command = [sys.executable, "-W", "ignore", "-c", ELSEWHERE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    for found, (mean, median) in zip((FREE, NEAR), json.loads(done.stdout), strict=True):
        assert found.mean.ravel() == pytest.approx(mean, rel=1e-6, abs=1e-6)
        assert np.mean(np.asarray(found.median).ravel() != median) < 0.005
