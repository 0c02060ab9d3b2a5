"""Laws for simulation are those of the secure releases."""

import numpy as np
import pytest
from scipy import stats

from docs.reproduce.selvi.laws import LAWS, bounded_law, bounded_table, law
from opendp_optimal import solve
from opendp_optimal.known import expected_loss
from opendp_optimal_learn import plan, truncated_table


@pytest.mark.parametrize("name", LAWS)
def test_laws_have_the_mean_loss_of_their_mechanism(name):
    rng = np.random.default_rng(1)
    draws = np.abs(law(name, 1.0, 0.1).sample(rng, (200_000,)))
    known = {
        "gaussian": stats.norm.expect(np.abs) * np.sqrt(2 * np.log(12.5)),
        "analytic-gaussian": expected_loss("analytic_gaussian", 1.0, 0.1),
        "truncated-laplace": truncated_table(1.0, 0.1).upper,
        "laplace": 1.0,
    }
    if name == "optimal":
        known[name] = solve(1.0, 0.1).upper
    # Six standard errors: a false alarm once in 10^8 runs.
    assert abs(draws.mean() - known[name]) < 6 * draws.std() / np.sqrt(len(draws))


def test_law_with_a_point_mass():
    rng = np.random.default_rng(2)
    draws = law("optimal", 1.0, 0.75).sample(rng, (100_000,))
    table = solve(1.0, 0.75)
    share = table.atom / table.total
    assert share > 0.1
    assert abs((draws == 0).mean() - share) < 6 * np.sqrt(share / 100_000)


@pytest.mark.parametrize("answer", [0.0, 0.7, 2.0])
def test_bounded_law_is_that_of_the_secure_releases(answer):
    drawn = bounded_law(1.0, 0.1, 2).release(np.random.default_rng(3), np.full(20_000, answer))
    release = bounded_table(1.0, 0.1, 2).releaser()
    secure = np.array([release(answer) for _ in range(5000)])
    # The answer itself may be released, rounded to the grid in one of the two.
    drawn, secure = drawn.round(4), secure.round(4)
    assert stats.ks_2samp(drawn, secure).pvalue > 1e-7
    shifted = np.clip(drawn + 0.1, 0, 2)
    assert stats.ks_2samp(shifted, secure).pvalue < 1e-7  # the test can fail


def test_unknown_laws_are_named():
    with pytest.raises(ValueError, match="name"):
        law("uniform", 1.0, 0.1)


@pytest.mark.parametrize("noise", ["optimal", "analytic-gaussian", "laplace", "truncated-laplace"])
def test_the_error_of_a_plan_is_that_of_its_noise(noise):
    made = plan(noise, 1.0, 1e-3, 4)
    sizes = abs(law(noise, made.epsilon, made.delta).sample(np.random.default_rng(3), (200_000,)))
    if made.sigma is not None:
        sizes = abs(made.sigma * np.random.default_rng(3).normal(size=200_000))
    # 1 % is six deviations of the mean of so many draws.
    assert sizes.mean() < made.error * 1.01
    assert sizes.mean() > made.error * (0.97 if noise == "optimal" else 0.99)
