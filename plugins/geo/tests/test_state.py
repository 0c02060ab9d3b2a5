from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal_geo import Population
from opendp_optimal_geo.prices import Ledger
from opendp_optimal_geo.state import load_ledger, save_ledger

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
    save_ledger(path, Ledger(Fraction(1), 10), {})
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
        load_ledger(path)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "budgets"
    ledger = Ledger(Fraction(1), 3)
    save_ledger(path, ledger, {})
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("opendp_optimal_geo.state.os.replace", fail)
    ledger.charge(np.array([0]), np.array([5]))
    with pytest.raises(OSError, match="disk full"):
        save_ledger(path, ledger, {})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["budgets"]


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
