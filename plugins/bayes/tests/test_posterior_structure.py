"""Cells that are alike."""

import numpy as np
import pytest
from posterior_tables import FREE, RELEASED, TRUE, noisy, sparse_table

from opendp_optimal.extend import known
from opendp_optimal_bayes import posterior
from opendp_optimal_bayes.table_posterior import structure

ADJACENCY = np.abs(np.subtract.outer(np.arange(900), np.arange(900))) == 1


@pytest.mark.parametrize(
    "like",
    ["margins", "neighbours", ("margins", "neighbours"), np.arange(900).reshape(30, 30) // 7],
    ids=["margins", "neighbours", "both", "labels"],
)
def test_a_cell_never_predicts_itself(like: object) -> None:
    alike = structure.likeness(like, (30, 30))
    changed = RELEASED * 1.0
    changed[11, 4] += 1e5
    first, second = (alike.columns(t, t, 1.0, 1.0).reshape(30, 30, -1) for t in (RELEASED, changed))
    assert second[11, 4] == pytest.approx(first[11, 4], abs=1e-9)
    assert np.abs(second - first).max() > 1


def test_a_region_never_predicts_itself() -> None:
    from scipy.sparse import csr_array

    for matrix in (ADJACENCY, csr_array(ADJACENCY), csr_array(ADJACENCY + np.eye(900))):
        alike = structure.likeness(matrix, (900,))
        flat = RELEASED.ravel() * 1.0
        changed = flat.copy()
        changed[100] += 1e5
        first, second = (alike.columns(t, t, 1.0, 1.0) for t in (flat, changed))
        assert np.array_equal(first[100], second[100])
        moved = np.flatnonzero((first != second).any(axis=1)).tolist()
        assert moved == [96, 97, 98, 99, 101, 102, 103, 104]


def test_every_kind_of_likeness_helps_where_it_is_true() -> None:
    flat = np.abs(FREE.median - TRUE).mean()
    axes = np.meshgrid(*[np.linspace(0, 3, 30)] * 2, indexing="ij")
    rate = 25 * np.exp(-(axes[0] ** 2 + axes[1] ** 2) * 1.5)
    chain = posterior(RELEASED.ravel(), known.Geometric(0.5), like=ADJACENCY)
    for found in (
        posterior(RELEASED, known.Geometric(0.5), like="margins"),
        posterior(RELEASED, known.Geometric(0.5), like=np.floor(np.log(rate)).astype(int)),
        posterior(RELEASED, known.Geometric(0.5), like=np.floor(np.log(rate)).astype(str)),
        posterior(RELEASED, known.Geometric(0.5), like=rate),
        chain,
    ):
        assert np.abs(np.asarray(found.median).reshape(30, 30) - TRUE).mean() < 0.9 * flat
        assert found.gap <= 1e-6


def test_tables_with_many_axes() -> None:
    true = sparse_table((9, 8, 10))
    released = noisy(true, 0.5)
    for like in (None, "margins", "neighbours", ("neighbours", "margins")):
        found = posterior(released, known.Geometric(0.5), like=like)
        assert found.mean.shape == (9, 8, 10)
        assert (
            np.abs(found.median - true).mean() < 0.7 * np.abs(np.maximum(released, 0) - true).mean()
        )


def test_margins_of_any_number_of_axes_leave_the_cell_out() -> None:
    shape = (4, 3, 5, 2, 3)
    alike = structure.likeness("margins", shape)
    assert len(alike.groups) == 5 + 10
    table = np.arange(360.0).reshape(shape)
    changed = table.copy()
    changed[1, 2, 3, 1, 0] += 1e6
    first, second = (alike.columns(t, t, 1.0, 1.0).reshape(*shape, -1) for t in (table, changed))
    assert np.allclose(second[1, 2, 3, 1, 0], first[1, 2, 3, 1, 0], rtol=0, atol=1e-9)
    apart = np.abs(second - first).max(axis=-1) > 1e-6
    assert apart[1, 0, 0, 0, 1]  # shares one coordinate with it
    assert not apart[0, 0, 0, 0, 1]  # shares none


def test_structure_that_is_not_there_costs_little() -> None:
    rng = np.random.default_rng(8)
    table = rng.poisson(rng.gamma(0.3, 12, 3600)).reshape(60, 60)  # no cell is like another
    lost = []
    for seed in range(3):
        released = noisy(table, 0.3, seed)
        free, near = (
            posterior(released, known.Geometric(0.3), like=like) for like in (None, "neighbours")
        )
        lost.append([np.abs(found.median - table).mean() for found in (near, free)])
    near, free = np.sum(lost, axis=0)
    assert near < 1.015 * free
