"""Draws: exact by construction, so tests look for wiring errors, with false alarms below 1e-9."""

import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opendp_optimal import solve
from opendp_optimal.sample.weights import WeightedSampler, spread_over_cells
from opendp_optimal.sample.words import one_below, random_words, uniform_below
from opendp_optimal.table.noise import NoiseTable
from tests.strategies import chances

ALARM = 1e-9


def scripted(*values):
    """A random source that gives these words in turn."""
    data = b"".join(int(v).to_bytes(8, "little") for v in values)
    state = {"at": 0}

    def source(count):
        start = state["at"]
        state["at"] += count
        return data[start : start + count]

    return source


def test_each_word_goes_where_its_cumulative_weight_says():
    weights = np.array([1, 0, 3, (1 << 62) - 4], np.int64)
    sampler = WeightedSampler.of(weights)
    cases = [(0, 0), (1, 2), (3, 2), (4, 3), ((1 << 62) - 1, 3)]
    for place, expected in cases:
        for low_bits in (0, 3):
            word = place * 4 + low_bits
            assert sampler.draw(1, scripted(word)).tolist() == [expected]
            assert sampler.draw_one(scripted(word)) == expected


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=50))
def test_scalar_and_vector_agree(drawn):
    sampler = WeightedSampler.of(np.array([1 << 60, 1 << 60, 1 << 61], np.int64))
    together = sampler.draw(len(drawn), scripted(*drawn)).tolist()
    assert together == [sampler.draw_one(scripted(word)) for word in drawn]


def test_uneven_words_are_drawn_again():
    bound = 3 * 2**60
    last = (1 << 64) - (1 << 64) % bound
    assert uniform_below(bound, 1, scripted(last, 5)).tolist() == [5]
    assert uniform_below(bound, 1, scripted(last - 1)).tolist() == [bound - 1]


@given(
    st.one_of(st.integers(1, 1 << 62), st.sampled_from([1, 2, 3, 3 * 2**60, 1 << 62])),
    st.lists(st.integers(2**64 - 2**61, 2**64 - 1), max_size=3),
    st.integers(0, 2**63),
)
def test_one_integer_and_many_agree(bound, high, low):
    drawn = [*high, low]  # below half of all words: the last is never drawn again
    assert one_below(bound, scripted(*drawn)) == uniform_below(bound, 1, scripted(*drawn))[0]


@pytest.mark.parametrize("bound", [0, -1, (1 << 62) + 1])
def test_one_integer_has_a_bound(bound):
    with pytest.raises(ValueError, match=r"bound .* must be in \[1, 2\^62\]"):
        one_below(bound)
    assert one_below(1 << 62, scripted(2**62 + 7)) == 7


def test_offsets_are_centred():
    low = spread_over_cells(np.array([7], np.int64), 5, scripted(0))
    high = spread_over_cells(np.array([7], np.int64), 5, scripted(4))
    assert (low[0], high[0]) == (33, 37)


@pytest.mark.parametrize("weights", [[], [1, 2], [-1, (1 << 62) + 1]])
def test_weights_must_add_up(weights):
    with pytest.raises(ValueError, match="add up"):
        WeightedSampler.of(np.array(weights, np.int64))


def test_a_short_or_failing_source_is_an_error():
    with pytest.raises(OSError, match="random source"):
        random_words(4, lambda n: b"\0" * (n - 1))

    def broken(n):
        raise OSError("no randomness")

    with pytest.raises(OSError, match="no randomness"):
        WeightedSampler.of(np.array([1 << 62], np.int64)).draw(1, broken)


def chi_square(table: NoiseTable, draws: np.ndarray) -> float:
    chance = chances(table)
    counts = np.bincount(draws + table.radius, minlength=len(chance))
    common = chance * len(draws) >= 10
    expected = np.append(chance[common], chance[~common].sum()) * len(draws)
    seen = np.append(counts[common], counts[~common].sum())
    keep = expected > 0
    statistic = float(((seen - expected)[keep] ** 2 / expected[keep]).sum())
    return float(stats.chi2.sf(statistic, keep.sum() - 1))


@pytest.mark.parametrize(
    "asked",
    [
        {"epsilon": 1.0, "delta": 0.1},
        {"epsilon": 5.0, "delta": 0.75},
        {"epsilon": 1.0, "delta": 1e-3, "integer_sensitivity": 2},
    ],
    ids=str,
)
def test_draws_follow_the_weights(asked):
    table = solve(**asked, cache=False, gap=0.05)
    draws = table.draw(200_000)
    assert chi_square(table, draws) > ALARM
    # The same test notices draws that are moved by a single cell.
    assert chi_square(table, np.clip(draws + 1, -table.radius, table.radius)) < ALARM


@pytest.mark.parametrize("kind", [{}, {"integer_sensitivity": 1}], ids=["real", "integer"])
def test_pure_draws_follow_the_law(kind):
    table = solve(1.0, 0.0, cache=False, **kind)
    draws = np.abs(table.draw(200_000))
    cells = table.cells
    # Far out, each further unit of sensitivity is exp(-epsilon) as likely.
    start = table.radius + 1
    beyond = int((draws >= start).sum())
    further = int((draws >= start + cells).sum())
    chance = stats.binomtest(further, beyond, np.exp(-1.0)).pvalue
    assert chance > ALARM
    assert abs(draws.mean() / (1 if kind else cells) - table.upper) < 0.02


def test_grid_draws_fill_cells_evenly():
    table = solve(1.0, 0.1, cache=False, gap=0.05)
    steps = 5
    draws = table.draw(100_000, steps=steps)
    inside = (draws + steps // 2) % steps
    away = np.abs(draws) > steps + steps // 2
    counts = np.bincount(inside[away], minlength=steps)
    assert stats.chisquare(counts).pvalue > ALARM


def test_arguments():
    table = solve(1.0, 0.1, cache=False, gap=0.05)
    for steps in (0, 2, -1, 1 << 60):
        with pytest.raises(ValueError, match="steps"):
            table.draw(1, steps=steps)
    with pytest.raises(ValueError, match="size"):
        table.draw(-1)
    integer = solve(1.0, 0.1, integer_sensitivity=1, cache=False)
    with pytest.raises(ValueError, match="steps"):
        integer.draw(1, steps=3)
    assert isinstance(integer.draw(), int)
    assert len(table.draw(0)) == 0
    assert isinstance(table.sample(), float)


@pytest.mark.process
def test_forked_processes_draw_different_words():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, random_words(64).tobytes())
        os._exit(0)
    mine = random_words(64).tobytes()
    os.waitpid(child, 0)
    assert os.read(read, 512) != mine


def test_threads_draw_different_words():
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(random_words(64).tobytes())) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 8
