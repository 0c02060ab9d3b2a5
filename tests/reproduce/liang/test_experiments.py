"""The experiments run, on a small made-up folder always and on the real one where it is."""

import pytest

from docs.reproduce.liang import datasets, experiments

SMALL = {
    "3": {"widths": (1000.0,), "budgets": (1e-5, 1e-4)},
    "4": {"bandwidths": (500.0,), "budgets": (1e-4,), "users": 500},
    "5": {"ks": (5,), "budgets": (1e-3,)},
    "6": {"widths": (2000.0,), "queries": (2, 4), "budgets": (1e-4, 1e-3)},
    "8": {"widths": (1000.0,), "budgets": (1e-5,)},
    "9": {"households": 200, "fractions": (0.05,), "budgets": (1e-2, 1e-1)},
}


@pytest.mark.parametrize("name", sorted(SMALL))
def test_every_figure_has_numbers(name, small_data):
    steps = []
    result = experiments.FIGURES[name](
        small_data,
        repetitions=2,
        progress=lambda done, total: steps.append((done, total)),
        **SMALL[name],
    )
    assert steps[-1][0] == steps[-1][1]
    methods = {row.method.split()[0] for row in result.rows}
    assert methods >= {"BM_1", "PM_1"}
    for row in result.rows:
        assert 0.0 <= row.saving <= 1.0
        assert row.error >= 0.0
        if row.method.startswith("BM"):
            assert row.saving == pytest.approx(0.0, abs=1e-6)


def test_bad_sources(small_data):
    with pytest.raises(ValueError, match="source"):
        experiments.figure_3(small_data, source="taxis")


def test_missing_data_are_named(tmp_path):
    with pytest.raises(ValueError, match="nyc_uber_pickups"):
        experiments.figure_3(tmp_path)


def test_claims_on_real_data(data_folder):
    """Many queries: PM below BM; one query: large savings at a large budget."""
    many = experiments.figure_6(
        data_folder, repetitions=1, queries=(56,), budgets=(1e-3,), widths=(2000.0,)
    )
    error = {row.method: row.error for row in many.rows}
    assert error["PM_0 log-c10"] < 0.8 * error["BM_0"]
    assert error["PM_1 log-c10"] < 0.8 * error["BM_1"]
    one = experiments.figure_3(data_folder, repetitions=2, widths=(2000.0,), budgets=(1e-3,))
    assert all(row.saving > 0.85 for row in one.rows if row.method.endswith(("c64", "log-c10")))
    assert len(datasets.pickups(data_folder)) == 315_055
    assert datasets.images(data_folder)[0].shape == (60_000, 784)
