from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal_geo import Population, rectangle
from opendp_optimal_geo import curator as threshold
from opendp_optimal_geo.allowances import Allowances
from opendp_optimal_geo.state import load_allowances, save_allowances

POINTS = np.arange(20.0).reshape(10, 2)


def test_round_trip(tmp_path):
    path = tmp_path / "budgets"
    people = Population(POINTS, budget=1e-3)
    people.release_points(budget=np.linspace(0.0, 9e-4, 10))
    people.save(path)
    again = Population.restore(POINTS, path)
    assert again.spent.tolist() == people.spent.tolist()
    assert again.capacity == people.capacity == Fraction(1e-3)
    assert np.isfinite(again.release_points(budget=9e-5)).all()
    assert again.spent.min() > people.spent.min()


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text", "missing"])
def test_damaged_files_are_refused(tmp_path, damage):
    path = tmp_path / "budgets"
    save_allowances(path, Allowances(Fraction(1), 10), {})
    whole = path.read_bytes()
    damaged = {
        "cut": whole[:-9],
        "flip": whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],
        "empty": b"",
        "text": b"{}\nhello",
    }
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(damaged[damage])
    with pytest.raises(ValueError, match="saved budgets"):
        load_allowances(path)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "budgets"
    allowances = Allowances(Fraction(1), 3)
    save_allowances(path, allowances, {})
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("opendp_optimal_geo.state.os.replace", fail)
    allowances.charge(np.array([0]), np.array([5]))
    with pytest.raises(OSError, match="disk full"):
        save_allowances(path, allowances, {})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["budgets"]


def test_the_central_budget_is_saved(tmp_path, monkeypatch):
    journal = tmp_path / "budgets"
    people = Population(POINTS, budget=1.0, central_budget=0.75, journal=journal)
    written = []
    honest = threshold.gaussian_noise

    def noise(*args):
        written.append(Population.restore(POINTS, journal).central_remaining)
        if len(written) == 3:
            raise RuntimeError("lost the power")
        return honest(*args) * 0  # at the threshold: never decided

    monkeypatch.setattr(threshold, "gaussian_noise", noise)
    half = rectangle((4, 5), 10, 10)
    with pytest.raises(RuntimeError, match="lost"):
        people.threshold(half, 0.5, budget=0.5, looks=("even", 4))
    assert written == [Fraction(5, 8), Fraction(1, 2), Fraction(3, 8)]
    again = Population.restore(POINTS, journal, journal=journal)
    assert again.central_remaining == people.central_remaining == Fraction(3, 8)
    with pytest.raises(ValueError, match="left"):
        again.threshold(half, 0.5, budget=0.5)
    with pytest.raises(ValueError, match="central_budget"):
        Population.restore(POINTS, journal, central_budget=1.0)


@pytest.mark.parametrize(
    "central", [1, [], ["1"], ["1", "2"], ["1/0", "0"], ["-1", "0"], [1, 0], ["1e9", "0"], "10"]
)
def test_wrong_central_budgets_are_refused(tmp_path, central):
    path = tmp_path / "budgets"
    Population(POINTS, budget=1.0, central_budget=1.0).save(path)
    allowances, settings = load_allowances(path)
    save_allowances(path, allowances, {**settings, "central": central})
    with pytest.raises(ValueError, match="central budget"):
        Population.restore(POINTS, path)


def test_other_people_are_refused(tmp_path):
    path = tmp_path / "budgets"
    Population(POINTS, budget=1.0).save(path)
    with pytest.raises(ValueError, match="users saved"):
        Population.restore(POINTS[:5], path)


def test_a_journal_that_cannot_be_written_stops_the_look(tmp_path, monkeypatch):
    people = Population(POINTS, budget=1.0, journal=tmp_path / "budgets")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("opendp_optimal_geo.state.os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        people.release_points(budget=0.5)
    assert people.spent.min() > 0.0  # charged, though nothing was released
