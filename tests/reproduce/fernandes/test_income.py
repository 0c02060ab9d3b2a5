"""Real priors: truncated Laplace approaches the certified optimum. Needs data; see conftest."""

import itertools

import numpy as np
import pytest

from docs.reproduce.fernandes.income import compare, prior_of, read_incomes


@pytest.mark.parametrize("name", ["cps", "oregon"])
@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_laplace_approaches_the_optimum(data_folder, name, loss):
    incomes, weights = read_incomes(data_folder, name)
    rows = list(compare(incomes, weights, epsilon=4.0, loss=loss, steps=(4, 8, 16)))
    for row in rows:
        assert row.lower <= row.geometric * (1 + 1e-12)
        assert row.geometric <= row.upper * (1 + 1e-9)
        assert row.upper - row.lower < 1e-6 * row.upper
        assert 0 <= row.excess <= row.bound
    # Each doubling divides what Laplace loses by three or more.
    excess = [row.excess for row in rows]
    assert all(b < a / 3 for a, b in itertools.pairwise(excess))


def test_without_data_everything_else_works():
    rng = np.random.default_rng(0)
    incomes, weights = rng.lognormal(11, 0.8, 5000), np.ones(5000)
    rows = list(compare(incomes, weights, epsilon=3.0, steps=(4, 8)))
    assert rows[1].excess < rows[0].excess / 2
    assert prior_of(incomes, weights, 8, 2e5).sum() == pytest.approx(1.0)


def test_missing_data_is_said_clearly(tmp_path):
    with pytest.raises(ValueError, match="must be a folder that holds income/cps_households"):
        read_incomes(tmp_path, "cps")
    with pytest.raises(ValueError, match=r"name \('uk'\) must be one of cps, oregon"):
        read_incomes(tmp_path, "uk")
    for bad in ({"epsilon": 0.0}, {"epsilon": 1.0, "loss": "l3"}, {"epsilon": 1.0, "top": -1.0}):
        with pytest.raises(ValueError, match="must be"):
            list(compare(np.ones(3), np.ones(3), **bad))
