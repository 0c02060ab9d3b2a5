"""Noise for a mean and its count: found, certified, kept, drawn."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy import stats

from opendp_optimal import GapWarning, TableFormatError
from opendp_optimal.certify.pair import unfolded
from opendp_optimal.losses.base import loss_of
from opendp_optimal.problem.pair import PairProblem
from opendp_optimal.search import pair as search
from opendp_optimal.search.pair import solve_pair
from opendp_optimal.table import store
from opendp_optimal.table.base import kind_for
from opendp_optimal.table.pair import PairTable

PROTOTYPE = {(1.0, 1e-6): (1.2373, 1.2425), (4.0, 1e-6): (0.0411, 0.0417)}
"""Bounds found independently, by a general solver on coarser lattices."""


@pytest.fixture(scope="module")
def table() -> PairTable:
    return solve_pair(3.0, 1e-2, gap=0.02, cache=False)


@pytest.mark.slow
@pytest.mark.parametrize("target", [pytest.param((1.0, 1e-6), marks=pytest.mark.slow), (4.0, 1e-6)])
def test_certified_within_one_percent(target: tuple[float, float]) -> None:
    table = solve_pair(*target, gap=0.01, cache=False)
    assert table.gap <= 0.01
    low, high = PROTOTYPE[target]
    assert low * 0.997 <= table.lower <= table.upper <= high * 1.003
    # One mean by OpenDP's route has variance 32/3 at epsilon 1: half the budget for each of two.
    assert table.upper * 8 < 32 / 3 / target[0] ** 2


def test_kept_and_loaded(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OPENDP_OPTIMAL_CACHE", str(tmp_path))
    table = solve_pair(3.0, 1e-2, gap=0.02)
    (place,) = tmp_path.rglob("*.pair")
    assert store.load(table.problem, 0.02) == table
    assert store.describe(place)["epsilon"] == 3.0
    assert solve_pair(3.0, 1e-2, gap=0.02) == table
    data = bytearray(kind_for(table.problem).encode(table))
    data[len(data) // 2] ^= 1
    with pytest.raises(TableFormatError, match="digest"):
        kind_for(table.problem).decode(bytes(data))


def test_copies_are_frozen_and_equal(table: PairTable) -> None:
    for other in (pickle.loads(pickle.dumps(table)), copy.deepcopy(table)):
        assert other == table
        with pytest.raises(ValueError, match="read-only"):
            other.weights[0, 0] = 1
        other.verify()


def test_draws_have_the_law(table: PairTable) -> None:
    steps = 5
    place, count = table.draw(200_000, steps=steps)
    every = unfolded(table.weights) / table.total
    rows, columns = every.shape
    cell = (place + steps // 2) // steps
    seen = np.zeros(every.shape)
    np.add.at(seen, (count + rows // 2, cell + columns // 2), 1)
    likely = every * len(place) > 20
    expected = np.append(every[likely], every[~likely].sum()) * len(place)
    found = np.append(seen[likely], seen[~likely].sum())
    assert stats.chisquare(found, expected).pvalue > 1e-6
    within = np.bincount((place + steps // 2) % steps, minlength=steps)
    assert stats.chisquare(within).pvalue > 1e-6


def test_the_profile_falls_and_meets_the_target(table: PairTable) -> None:
    deltas = [table.delta_at(epsilon) for epsilon in (0.0, 1.0, 2.0, 3.0, 4.0)]
    assert deltas == sorted(deltas, reverse=True)
    assert table.delta_at(3.0) <= 1e-2


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"epsilon": 0.0, "delta": 1e-6}, "epsilon"),
        ({"epsilon": float("nan"), "delta": 1e-6}, "epsilon"),
        ({"epsilon": "1", "delta": 1e-6}, "epsilon"),
        ({"epsilon": 33.0, "delta": 1e-6}, "epsilon"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"epsilon": 1.0, "delta": None}, "delta"),
        ({"epsilon": 1.0, "delta": 1e-6, "loss": loss_of("pinball:0.5")}, "loss"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} \\("):
        PairProblem(**arguments)


@pytest.mark.slow
def test_a_gap_that_is_out_of_reach_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_MOST_TERMS", 20_000)
    with pytest.warns(GapWarning):
        table = solve_pair(8.0, 1e-8, gap=1e-6, cache=False)
    assert table.lower <= table.upper
