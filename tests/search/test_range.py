"""Requests at the edges of the documented range get tables that verify, or errors that say why."""

import warnings
from itertools import pairwise

import numpy as np
import pytest

from opendp_optimal import GapWarning, solve
from opendp_optimal.certify.noise import prove_bound
from opendp_optimal.losses.base import loss_of
from opendp_optimal.model.noise import floats
from opendp_optimal.search.closed import largest_shift_prices
from opendp_optimal.table.files.noise import KIND as NOISE
from opendp_optimal.testing import independent

pytestmark = pytest.mark.slow


def solved(*asked, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        table = solve(*asked, cache=False, **options)
    table.verify()
    assert table.lower <= table.upper
    return table


@pytest.mark.parametrize("factor", [1e7, 1e30, 1e-30, 1e250])
def test_costs_in_any_unit(factor):
    table = solved(1.0, 1e-6, loss=lambda x: factor * abs(x), gap=0.01)
    plain = solved(1.0, 1e-6, gap=0.01)
    assert table.gap <= 0.01
    assert table.lower <= factor * plain.upper
    assert factor * plain.lower <= table.upper
    assert NOISE.decode(NOISE.encode(table)).lower == table.lower


def test_large_losses_at_a_small_epsilon():
    assert solved(5e-4, 1e-6, loss="l2").gap <= 1e-3


def test_highs_at_delta_zero():
    assert solved(1.0, 0.0, method="highs").gap <= 1e-3


@pytest.mark.parametrize("level", ["1e-320", "1e-6", "0.9999999999999999"])
def test_uneven_losses(level):
    table = solved(1.0, 0.01, loss=f"pinball:{level}", cells=3, gap=10.0)
    assert independent.holds(table)


def test_a_small_epsilon_and_no_delta():
    assert solved(1e-4, 0.0, loss="l2").gap <= 1e-4


def test_integers_too_many_to_solve_for():
    table = solved(1.0, 1e-3, integer_sensitivity=2048)
    assert table.gap < 0.2


@pytest.mark.parametrize("cells", [1, 2, 5])
@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_prices_of_the_largest_shift_prove_a_close_bound(loss, cells):
    """What they prove is the loss of geometric noise on multiples of the sensitivity."""
    from opendp_optimal.round.noise import round_prices

    epsilon, blocks = 0.1, 300
    exact = loss_of(loss).on_integers((blocks + 1) * cells)
    solution = largest_shift_prices(
        floats(exact.lower, exact.denominator), cells, epsilon, 0.0, blocks
    )
    reach = blocks * cells + cells + 1
    cost = loss_of(loss).on_integers(reach)
    dual = round_prices(
        solution, cost, cells=cells, epsilon=epsilon, delta=0.0, mirrored=True, temper=True
    )
    cost = loss_of(loss).on_integers(dual.reach)
    proved = float(prove_bound(dual, cost, epsilon=epsilon, delta=0.0))
    places = np.arange(-400, 401)
    chances = np.exp(-epsilon * np.abs(places))
    paid = np.abs(places * cells) if loss == "l1" else (places * cells) ** 2
    known = float(chances @ paid / chances.sum())
    assert known * 0.999 <= proved <= known * (1 + 1e-9)


def test_a_lattice_that_is_too_fine_to_solve_is_not_the_last_word():
    """Where errors to one side cost next to nothing, prices of fine lattices are lost in floats."""
    with pytest.warns(GapWarning):
        table = solve(1.0, 1e-6, loss="pinball:1e-12", cache=False)
    assert table.lower > 0
    assert table.gap < 0.1


@pytest.mark.parametrize("epsilon", [24.0, 30.0])
def test_integers_are_never_worse_off_with_a_larger_delta(epsilon):
    uppers = [
        solved(epsilon, delta, integer_sensitivity=100).upper for delta in (0.0, 1e-6, 1e-3, 0.1)
    ]
    assert all(more <= 1.001 * less for less, more in pairwise(uppers)), uppers
