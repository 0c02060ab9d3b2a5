"""The whole range of epsilon and delta: more privacy loss never costs accuracy.

`python -m tests.search.test_spiked` goes through a grid of all of it (minutes).
"""

import itertools
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from opendp_optimal import GapWarning, NoiseTable, known, solve
from opendp_optimal.certify.noise import TOTAL, delta_units
from opendp_optimal.certify.spike import Spike
from opendp_optimal.errors import CertificateError
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.search import spiked
from opendp_optimal.search.closed import whole_spike
from opendp_optimal.table.files.noise import KIND
from opendp_optimal.testing.independent import holds
from tests.tails import surprising

GAP = 1e-3
EPSILONS, DELTAS = {"l1": (19.0, 32.0), "l2": (29.0, 32.0)}, (0.0, 1e-6, 0.5)


def solved(epsilon: float, delta: float, loss: str) -> NoiseTable:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        return solve(epsilon, delta, loss=loss, gap=GAP, cache=False)


@pytest.mark.parametrize("loss", EPSILONS)
def test_spikes_from_start_to_end(loss: str) -> None:
    for table in law_holds(loss, EPSILONS[loss], DELTAS):
        assert table.spike is not None
        table.verify()
        assert KIND.decode(KIND.encode(table)) == table


def law_holds(
    loss: str, epsilons: Iterable[float], deltas: Iterable[float]
) -> Iterator[NoiseTable]:
    """No loss is above one for less privacy loss, or above a closed form."""
    tables = {(e, d): solved(e, d, loss) for e, d in itertools.product(epsilons, deltas)}
    for (epsilon, delta), table in tables.items():
        for (less, smaller), other in tables.items():
            if less <= epsilon and smaller <= delta:
                assert table.upper <= (1 + GAP) * other.upper, (epsilon, delta, less, smaller)
        for name in ("staircase", "laplace", "truncated_laplace", "tulap", "uniform_bernoulli"):
            closed = known.expected_loss(name, epsilon, delta, loss)
            assert table.upper <= (1 + GAP) * closed, (epsilon, delta, name)
        # The answer itself with a chance of delta, and a staircase otherwise.
        pure = known.expected_loss("staircase", epsilon, 0.0, loss)
        assert table.upper <= (1 + GAP) * (1 - delta) * pure, (epsilon, delta)
        yield table


def spiked_table(delta: float) -> NoiseTable:
    return solved(20.0, delta, "l1")


@pytest.mark.parametrize("delta", [0.0, 0.25])
def test_a_spike_that_is_higher_is_refused_by_both_proofs(delta: float) -> None:
    table = spiked_table(delta)
    assert table.spike is not None
    assert holds(table)
    thinner, moved = table.weights.copy(), 1 << 20
    thinner[[0, -1]] -= moved
    for weights, spike in (
        (table.weights, Spike(table.spike.weight, table.spike.parts + 2)),
        (thinner, Spike(table.spike.weight + 2 * moved, table.spike.parts)),
    ):
        made = replace(table, weights=weights, spike=spike)
        assert not holds(made)
        with pytest.raises(CertificateError):
            made.verify()


def test_spikes_are_private_by_brute_force_on_a_fine_lattice() -> None:
    """Spread a small spiked law over a lattice with a point for each part, and add up."""
    draw = np.random.default_rng(5)
    for _ in range(40):
        cells, parts = int(draw.integers(1, 4)), int(draw.choice([3, 5]))
        weights = draw.integers(0, 30, size=2 * int(draw.integers(1, 6)) + 1).astype(np.int64)
        spike = Spike(int(draw.integers(1, 20)), parts)
        fine = np.repeat(weights, parts).astype(np.int64)
        fine[len(fine) // 2] += spike.weight * parts
        for epsilon in (0.0, 0.5, 2.0):
            growth = np.exp(epsilon)
            wide = np.pad(fine, cells * parts).astype(float)
            worst = max(
                np.maximum(wide - growth * np.roll(wide, m), 0).sum() / parts
                for m in range(-cells * parts, cells * parts + 1)
                if m
            )
            claimed = float(delta_units(weights, 0, cells, epsilon, cells, spike))
            assert worst <= claimed + 1e-9


@pytest.mark.parametrize("steps", [1, 7, 1001])
def test_draws_fall_into_the_spike_as_often_as_it_weighs(steps: int) -> None:
    table = spiked_table(0.25)
    assert table.spike is not None
    drawn = table.draw(20_000, steps)
    inside = int((np.abs(drawn) <= table.spike.width(steps) // 2).sum())
    weight = (table.spike.weight + table.atom) / TOTAL
    assert not surprising(inside, 20_000, weight)
    one = [table.draw(steps=steps) for _ in range(200)]
    assert sum(abs(x) <= table.spike.width(steps) // 2 for x in one) > 190


def whole_loss(epsilon: float, whole: int, power: int) -> float:
    """The least loss of staircases of integers: -t..t, then steps of so many, each e^-epsilon."""
    fall, least = np.exp(-epsilon), np.inf
    for t in range(60):
        steps = [(np.arange(1, whole + 1) + t + j * whole, fall ** (j + 1)) for j in range(3)]
        costs = 2 * sum(height * (x.astype(float) ** power).sum() for x, height in steps)
        costs += 2 * (np.arange(t + 1.0) ** power).sum()
        mass = 2 * t + 1 + 2 * sum(height * whole for _, height in steps)
        least = min(least, costs / mass)
    return float(least)


@pytest.mark.parametrize(("epsilon", "delta"), [(16.0, 0.0), (20.0, 1e-6), (32.0, 0.0)])
@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_integers_that_move_far_get_noise_of_whole_numbers(epsilon, delta, loss) -> None:
    whole, real = 5000, solved(epsilon, delta, loss)
    made = whole_spike(real, whole)
    if made is None:
        assert (epsilon, loss) == (16.0, "l2")  # more than 31 integers are as likely as 0
        return
    made.verify()
    assert holds(made)
    drawn = made.law(float(whole)).rounded().expected_loss(made.loss)
    assert drawn <= 1.01 * whole_loss(epsilon, whole, int(made.loss.power))


def test_where_a_lattice_is_fine_enough_there_is_no_spike() -> None:
    assert spiked.layout(NoiseProblem(epsilon=5.0, delta=0.0)) is None
    assert spiked.layout(NoiseProblem(epsilon=32.0, delta=0.1, impossible=0.1)) is None
    with pytest.raises(CertificateError, match="spike"):
        Spike(1, 4).check()


if __name__ == "__main__":
    for loss in sys.argv[1:] or EPSILONS:
        grid = (1e-4, 1e-2, 0.3, 1.0, 3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 24.0, 32.0)
        for table in law_holds(loss, grid, (0.0, 1e-14, 1e-9, 1e-4, 0.05, 0.5, 0.999)):
            print(table, flush=True)
