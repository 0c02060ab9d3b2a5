"""Maps of counts in the central model, and their posteriors."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner

from opendp_optimal import SolverError
from opendp_optimal_geo import BudgetError, Population
from opendp_optimal_geo.commands import geo
from opendp_optimal_geo.maps import noise_law

BOUNDS = (-4000, -4000, 4000, 4000)


def homes(count: int = 20_000) -> np.ndarray:
    return np.random.default_rng(0).normal(0.0, 900.0, (count, 2))


def true_counts(points: np.ndarray, cells: int) -> np.ndarray:
    ends = [(-4000, 4000)] * 2
    return np.histogram2d(points[:, 1], points[:, 0], bins=cells, range=ends)[0]


def test_counts_have_the_noise_that_was_paid_for() -> None:
    people = Population(homes(), budget=1.0, central_budget=0.5)
    found = people.count_map(BOUNDS, 60, budget=0.1)
    true = true_counts(homes(), 60)
    noise = found.counts - true
    assert found.deviation == pytest.approx(math.sqrt(10.0), rel=0.01)
    # 3600 squares: their mean is off by more than a fifth once in 10^8 times.
    assert (noise**2).mean() == pytest.approx(found.deviation**2, rel=0.2)
    assert people.central_remaining == Fraction(0.5) - Fraction(0.1)
    assert found.posterior is None
    assert found.density.sum() * (8000 / 60) ** 2 == pytest.approx(found.counts.sum())


def test_one_record_moves_two_cells_by_one() -> None:
    changed = homes()
    changed[7] = (3000.0, -3000.0)
    away = true_counts(changed, 60) - true_counts(homes(), 60)
    assert np.sum(away**2) == 2
    # The price of Gaussian noise is d^2 / (2 sigma^2): with d^2 = 2, the variance is 1 / rho.
    law = noise_law(0.1 / 2)
    assert law.cdf(10.5) - law.cdf(-10.5) == pytest.approx(math.erf(10.5 / math.sqrt(20)), rel=1e-9)


def test_the_posterior_is_asked_for_by_one_argument() -> None:
    pytest.importorskip("opendp_optimal_bayes")
    people = Population(homes(), budget=1.0, central_budget=0.05)
    found = people.count_map(BOUNDS, 60, budget=0.02, posterior=True)
    true = true_counts(homes(), 60)
    released, estimated = (np.abs(t - true).mean() for t in (found.counts, found.best))
    assert estimated < 0.5 * released
    assert found.posterior.shape == found.counts.shape
    assert people.central_remaining == Fraction(0.05) - Fraction(0.02)  # it costs nothing


def test_without_the_plugin_nothing_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    people = Population(homes(100), budget=1.0, central_budget=0.5)
    monkeypatch.setitem(sys.modules, "opendp_optimal_bayes", None)
    with pytest.raises(ImportError, match="needs opendp-optimal-bayes"):
        people.count_map(BOUNDS, 10, budget=0.1, posterior=True)
    assert people.central_remaining == Fraction(0.5)


def test_what_was_paid_for_is_told_even_if_nothing_is_learnt_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bayes = pytest.importorskip("opendp_optimal_bayes")

    def fails(*_: object, **__: object) -> None:
        raise SolverError("no fit")

    for name in ("posterior", "fit_weights"):
        monkeypatch.setattr(bayes, name, fails, raising=False)
    people = Population(homes(500), budget=1.0, central_budget=0.5)
    with pytest.warns(UserWarning, match="what was released stays"):
        counted = people.count_map(BOUNDS, 30, budget=0.1, posterior=True)
    assert counted.posterior is None
    assert counted.counts.shape == (30, 30)
    near = (-1500, -1500, 1500, 1500)
    with pytest.warns(UserWarning, match="what was released stays"):
        dense = people.density_map(near, 20, 200.0, budget=2e-6, posterior=True)
    assert dense.posterior is None
    assert dense.answered == 500


def test_bad_maps_cost_nothing() -> None:
    people = Population(homes(100), budget=1.0, central_budget=0.5)
    for options, kind, message in (
        ({"bounds": (0, 0, 0, 1)}, ValueError, "bounds"),
        ({"cells": 0}, ValueError, "cells"),
        ({"cells": 5000}, ValueError, "cells"),
        ({"budget": 0.6}, BudgetError, "at most what is left"),
        ({"budget": 1e-300}, ValueError, "neither so small"),
        ({"budget": math.nan}, ValueError, "budget"),
        ({"budget": -1}, ValueError, "budget"),
        ({"component": "work"}, ValueError, "points of the plane"),
    ):
        given = {"bounds": BOUNDS, "cells": 10, "budget": 0.1} | options
        with pytest.raises(kind, match=message):
            people.count_map(**given)
    assert people.central_remaining == Fraction(0.5)
    with pytest.raises(ValueError, match="central_budget"):
        Population(homes(100), budget=1.0).count_map(BOUNDS, 10, budget=0.1)


def test_the_command(tmp_path) -> None:
    pytest.importorskip("opendp_optimal_bayes")
    points, table = tmp_path / "points.csv", tmp_path / "counts.csv"
    np.savetxt(points, homes(3000), delimiter=",", header="x,y", comments="")
    words = ["count-map", points, "--rho", 0.1, "--bounds", "-4000,-4000,4000,4000"]
    words += ["--cells", 30, "--posterior", "--table", table]
    result = CliRunner().invoke(geo, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    assert "mean absolute error to expect" in result.output
    assert np.loadtxt(table, delimiter=",").shape == (30, 30)


def towns(count: int = 6000) -> np.ndarray:
    """Three towns of different sizes."""
    rng = np.random.default_rng(1)
    middle = np.array([[-1500.0, 0.0], [1200.0, 900.0], [600.0, -1400.0]])[
        rng.integers(0, 3, count)
    ]
    return middle + rng.normal(0.0, 250.0, (count, 2))


def test_the_noise_of_a_density_is_taken_out_by_one_argument() -> None:
    pytest.importorskip("opendp_optimal_bayes")
    people = Population(towns(), budget=1e-5)
    # The noise has a deviation of 500 along each axis, twice the width of a town.
    given = {"bounds": (-2500,) * 2 + (2500,) * 2, "cells": 25, "bandwidth": 200.0, "budget": 2e-6}
    found = people.density_map(**given, posterior=True)
    assert found.gap <= 1e-6
    exact = Population(towns(), budget=1.0).density_map(**given | {"budget": 1.0}).density
    plain, better = (np.abs(d - exact).sum() * 200**2 for d in (found.density, found.posterior))
    assert better < 0.75 * plain
    assert found.best is found.posterior
    assert found.posterior.sum() * 200**2 == pytest.approx(6000, rel=0.1)
    assert found.posterior.min() >= 0
    assert people.density_map(**given).posterior is None


def test_small_noise_is_smoothed_away_as_it_was() -> None:
    pytest.importorskip("opendp_optimal_bayes")
    people = Population(towns(), budget=1.0)
    found = people.density_map(BOUNDS, 40, 200.0, budget=1.0, posterior=True)
    assert np.array_equal(found.posterior, found.density)


def test_the_noise_of_points_is_what_is_taken_out() -> None:
    points = towns()
    released = Population(points, budget=1.0).release_points(budget=2e-6)
    # 12,000 squares: off by a tenth once in 10^13 times.
    assert ((released - points) ** 2).mean() == pytest.approx(500.0**2, rel=0.1)


def test_what_cannot_be_taken_out_is_refused_before_anybody_pays() -> None:
    pytest.importorskip("opendp_optimal_bayes")
    pure = Population(towns(50), budget=1.0, privacy="gp")
    people = Population(towns(50), budget=1.0)
    for whom, options, message in (
        (pure, {}, "needs Gaussian noise"),
        (people, {"budget": np.full(50, 1e-6)}, "one budget for all"),
        (people, {"bandwidth": 5.0, "budget": 4e-3}, "bandwidth"),
        (people, {"budget": -1}, "budget"),
    ):
        given = {"bounds": BOUNDS, "cells": 10, "bandwidth": 200.0, "budget": 2e-6} | options
        before = np.array(whom.remaining, dtype=float)
        with pytest.raises(ValueError, match=message):
            whom.density_map(**given, posterior=True)
        assert np.array_equal(np.array(whom.remaining, dtype=float), before)


def test_the_command_of_densities(tmp_path) -> None:
    pytest.importorskip("opendp_optimal_bayes")
    points, table = tmp_path / "points.csv", tmp_path / "density.csv"
    np.savetxt(points, towns(500), delimiter=",", header="x,y", comments="")
    words = ["density", points, "--budget", 2e-6, "--bounds", "-1500,-1500,1500,1500"]
    words += ["--bandwidth", 200, "--cells", 20, "--posterior", "--table", table]
    result = CliRunner().invoke(geo, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    assert np.loadtxt(table, delimiter=",").min() >= 0
