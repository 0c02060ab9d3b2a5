import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal_select import Catalogue, VectorCatalogue

numbers = st.floats(-1e6, 1e6)


@given(
    positions=st.lists(st.integers(-50, 50), min_size=1, max_size=40),
    signals=st.lists(st.floats(-80.0, 80.0), min_size=1, max_size=10),
    offsets=st.lists(st.floats(-30.0, 30.0), min_size=1, max_size=12),
)
def test_answers_are_distinct_and_contain_every_nearest_item(positions, signals, offsets):
    catalogue = Catalogue(positions, range(len(positions)))
    offsets = offsets[: len(catalogue)]
    rows = catalogue.answer_batch(signals, offsets)
    spread = np.array(positions, dtype=float)
    for signal, row in zip(signals, rows.tolist(), strict=True):
        assert len(set(row)) == len(offsets)
        for offset in offsets:
            nearest = np.abs(spread - (signal + offset)).min()
            reached = min(abs(positions[i] - (signal + offset)) for i in row)
            assert reached == pytest.approx(nearest, abs=1e-9)


@given(
    positions=st.lists(st.integers(-20, 20), min_size=3, max_size=20, unique=True),
    signal=st.floats(-30.0, 30.0),
)
def test_a_full_tie_answers_with_the_nearest_items(positions, signal):
    catalogue = Catalogue(positions)
    answer = catalogue.answer(signal, [0.0, 0.0, 0.0])
    nearest = sorted(abs(p - signal) for p in positions)[:3]
    assert sorted(abs(p - signal) for p in answer) == pytest.approx(nearest)


def test_batches_and_single_answers_agree():
    catalogue = Catalogue(np.random.default_rng(0).normal(size=500))
    signals = np.linspace(-4.0, 4.0, 37)
    rows = catalogue.answer_batch(signals, (-1.0, -0.01, 0.0, 0.01, 1.0))
    for signal, row in zip(signals, rows, strict=True):
        single = catalogue.answer(float(signal), (-1.0, -0.01, 0.0, 0.01, 1.0))
        assert single == [catalogue.item(int(i)) for i in row]


def test_the_optimum_map_decides():
    """OPT sends values to the parity of their floor: results live in another set."""
    catalogue = Catalogue(
        [0.0, 1.0], ["even", "odd"], optimum=lambda v: np.floor(v).astype(int) % 2
    )
    assert catalogue.answer(4.5, [0.0]) == ["even"]
    assert catalogue.answer(4.5, [1.0]) == ["odd"]
    assert sorted(catalogue.answer(4.5, [0.0, 2.0])) == ["even", "odd"]


@pytest.mark.parametrize(
    "optimum", [lambda v: v, lambda v: np.array([0]), lambda v: np.full(v.shape, 9)]
)
def test_a_bad_optimum_map_is_refused(optimum):
    with pytest.raises(ValueError, match="optimum must return"):
        Catalogue([0.0, 1.0], optimum=optimum).answer(0.0, [0.0, 1.0])


def test_vectors_are_distinct_and_contain_every_nearest_item():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(60, 3))
    catalogue = VectorCatalogue(points)
    offsets = rng.normal(size=(7, 3)) * 0.3
    signals = rng.normal(size=(40, 3))
    for signal, row in zip(signals, catalogue.answer_batch(signals, offsets), strict=True):
        assert len(set(row.tolist())) == 7
        for offset in offsets:
            nearest = np.linalg.norm(points - signal - offset, axis=1).min()
            reached = np.linalg.norm(points[row] - signal - offset, axis=1).min()
            assert reached == pytest.approx(nearest)


@pytest.mark.parametrize(
    ("positions", "items", "message"),
    [
        ([], None, "non-empty"),
        ([[1.0]], None, "1 dimension"),
        ([1.0, float("nan")], None, "must be finite"),
        ([1.0, float("inf")], None, "must be finite"),
        (["a"], None, "array of numbers"),
        ([1.0, 2.0], ["a"], r"items \(1 of them\) must be one per position \(2\)"),
        ([1.0, 2.0], ["a", "a"], r"items \('a' appears twice\) must be distinct"),
        ([1.0, 1.0], None, "must be distinct"),
        ([1.0, 2.0], [[], []], "must be hashable"),
    ],
)
def test_bad_catalogues(positions, items, message):
    with pytest.raises(ValueError, match=message):
        Catalogue(positions, items)


def test_bad_questions():
    catalogue = Catalogue([1.0, 2.0])
    with pytest.raises(ValueError, match=r"k \(3\) must be in \[1, 2\]"):
        catalogue.answer(0.0, [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="signals must be finite"):
        catalogue.answer(float("nan"), [0.0])
    with pytest.raises(ValueError, match=r"signals \(3 coordinates\) must have 2"):
        VectorCatalogue([[0.0, 1.0]]).answer([0.0, 1.0, 2.0], [[0.0, 0.0]])
    with pytest.raises(ValueError, match=r"offsets \(1 coordinates\) must have 2"):
        VectorCatalogue([[0.0, 1.0]]).answer([0.0, 1.0], [[0.0]])
