"""Sums of cells."""

import math
import warnings

import numpy as np
import pytest
from posterior_tables import FREE, NEAR, RELEASED, TRUE, noisy

from opendp_optimal.extend import known
from opendp_optimal_bayes import PosteriorWarning, posterior
from opendp_optimal_bayes.table_posterior.observed import read
from opendp_optimal_bayes.table_posterior.sums import chosen_noise


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
    assert chosen.deviation >= chosen.raw_deviation
    assert abs(chosen.estimate - truth) < 0.1 * abs(chosen.raw - truth)
    assert abs(chosen.estimate - truth) < 3 * chosen.deviation
    # Chosen in another way: the posterior sum.
    some = largest[::2]
    assert found.sum(some, selected=True).estimate == pytest.approx(found.mean.ravel()[some].sum())


def scattered(law: known.Law, count: int, rng: np.random.Generator) -> np.ndarray:
    """Noise of a law, for a simulation."""
    if isinstance(law, known.Geometric):
        return noisy(np.zeros(count, dtype=int), law.rate, int(rng.integers(1 << 30)))
    return rng.laplace(0, 1 / law.rate, count)


@pytest.mark.parametrize("law", [known.Laplace(0.2), known.Geometric(0.2)], ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_noise_that_was_looked_for_is_known_without_a_prior(law: known.Law, sign: int) -> None:
    rng = np.random.default_rng(9)
    # A hard end at 40, which no prior of smooth parts has.
    true = rng.integers(20, 41, 3000)
    away = []
    for _ in range(60):
        released = true + scattered(law, 3000, rng)
        cells = np.argsort(-sign * released, kind="stable")[:150]
        observed = read(released, law, None, (0, None))
        noise, _ = chosen_noise(observed, cells)
        away.append(noise - (released - true)[cells].sum())
    # The noise of 150 chosen cells is about 2500; its estimate has no bias.
    assert abs(np.mean(away)) < 4 * np.std(away) / math.sqrt(60) + (30 if law.integer else 0)
    assert abs(np.mean(away)) < 0.05 * abs(noise)
    found = posterior(released, law)
    chosen = found.sum(cells, selected=True)
    truth = true[cells].sum()
    assert abs(chosen.estimate - truth) < 0.2 * abs(chosen.raw - truth)
    assert abs(chosen.estimate - truth) < 3 * chosen.deviation


def test_no_noise_was_looked_for_in_other_cells() -> None:
    observed = read(RELEASED, known.Geometric(0.5), None, (0, None))
    assert chosen_noise(observed, np.arange(900)) is None
    assert chosen_noise(observed, np.arange(0)) is None
    assert chosen_noise(observed, np.array([0, 450, 899])) is None


def test_sums_of_medians_warn() -> None:
    for adds in (lambda m: m.sum(), lambda m: m[:3].sum(axis=0), np.sum, np.mean):
        with pytest.warns(PosteriorWarning, match="sum of medians"):
            adds(FREE.median)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.abs(FREE.median - TRUE).sum()
        FREE.mean.sum()
