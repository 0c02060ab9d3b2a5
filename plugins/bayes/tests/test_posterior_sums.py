"""Sums of cells."""

import math
import warnings

import numpy as np
import pytest
from posterior_tables import FREE, NEAR, RELEASED, TRUE, noisy

from opendp_optimal.extend import known
from opendp_optimal_bayes import PosteriorWarning, posterior
from opendp_optimal_bayes.table_posterior.chosen import chosen_noise
from opendp_optimal_bayes.table_posterior.observed import read


def test_sums_follow_the_rules() -> None:
    for found in (FREE, NEAR):
        sigma = math.sqrt(known.Geometric(0.5).moment(2))
        total = found.sum()
        assert total.estimate == total.raw == RELEASED.sum()
        assert total.raw_deviation == total.deviation == pytest.approx(30 * sigma)
        block = np.zeros((30, 30), dtype=bool)
        block[3:6, 3:6] = True
        assert found.sum(selected=True) == total
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
    if isinstance(law, known.Gaussian):
        return rng.normal(0, law.scale, count)
    if isinstance(law, known.Geometric):
        return noisy(np.zeros(count, dtype=int), law.rate, int(rng.integers(1 << 30)))
    return rng.laplace(0, 1 / law.rate, count)


@pytest.mark.parametrize(
    "law", [known.Laplace(0.2), known.Geometric(0.2), known.Gaussian(7.0)], ids=str
)
@pytest.mark.parametrize("sign", [1, -1])
def test_noise_that_was_looked_for_is_known_without_a_prior(law: known.Law, sign: int) -> None:
    rng = np.random.default_rng(9)
    # A hard end at 40, which no prior of smooth parts has.
    true = rng.integers(20, 41, 3000)
    away, deviations, looked_for = [], [], []
    for _ in range(60):
        released = true + scattered(law, 3000, rng)
        cells = np.argsort(-sign * released, kind="stable")[:150]
        observed = read(released, law, None, (0, None))
        noise, deviation = chosen_noise(observed, cells)
        away.append(noise - (released - true)[cells].sum())
        deviations.append(deviation)
        looked_for.append(sign * noise)
    # The noise of 150 chosen cells is about 2000; its estimate has hardly a bias, and the deviation
    # that it comes with is right: the mean of 60 squares is within 45 % with a chance of 0.98.
    assert min(looked_for) > 1000
    assert abs(np.mean(away)) < 0.02 * np.mean(looked_for) + 3 * np.std(away) / math.sqrt(60)
    assert 0.55 < np.mean(np.square(away)) / np.mean(np.square(deviations)) < 1.45
    found = posterior(released, law)
    chosen = found.sum(cells, selected=True)
    truth = true[cells].sum()
    assert abs(chosen.estimate - truth) < 0.2 * abs(chosen.raw - truth)
    assert abs(chosen.estimate - truth) < 3 * chosen.deviation


def test_sums_of_chosen_cells_stay_within_the_bounds() -> None:
    released = noisy(np.zeros(900, dtype=int), 0.5)
    found = posterior(released - 3, known.Geometric(0.5), bounds=(0, 5))
    for sign in (1, -1):
        cells = np.argsort(sign * released)[:100]
        assert 0.0 <= found.sum(cells, selected=True).estimate <= 500.0


def test_only_some_of_the_cells_at_the_edge_were_chosen() -> None:
    law = known.Geometric(1.0)
    away = []
    for draw in range(60):
        released = noisy(np.full(2000, 30), 1.0, draw)
        top = np.sort(released)[-100]
        assert (released == top).sum() > (released[np.argsort(-released)[:100]] == top).sum()
        cells = np.argsort(-released, kind="stable")[:100]
        noise, _ = chosen_noise(read(released, law, None, (0, None)), cells)
        away.append(noise - (released - 30)[cells].sum())
    # The noise is about 400, and cutting all cells at the edge off would miss 50 of it.
    assert abs(np.mean(away)) < 4 * np.std(away) / math.sqrt(60) + 4


def test_cells_with_different_noise_have_each_their_own() -> None:
    rng = np.random.default_rng(3)
    true = rng.poisson(5, 3000)
    laws = known.Laplace(0.1), known.Gaussian(3.0), known.Laplace(0.5)
    ratios = []
    for _ in range(20):
        parts = [scattered(law, 1000, rng) for law in laws]
        released = true + np.stack(parts, axis=1).ravel()
        observed = read(released, list(laws) * 1000, None, (0, None))
        cells = np.argsort(-released)[:100]
        ratios.append(chosen_noise(observed, cells)[0] / (released - true)[cells].sum())
    assert abs(np.mean(ratios) - 1) < 0.05
    both = read((released, released), (laws[0], laws[0]), None, (0, None))
    assert chosen_noise(both, cells) is None


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
