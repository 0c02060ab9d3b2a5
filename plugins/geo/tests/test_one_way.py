"""Data goes one way: looks know no budgets, eliminations no people, and neither calls back."""

import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from opendp_optimal.budget import open_ledger
from opendp_optimal_geo import (
    KernelDensity,
    Nearest,
    Points,
    Population,
    RangeCount,
    Schedule,
    rectangle,
)

SQUARE = rectangle((0, 0), 1000, 1000)
QUERIES = [RangeCount(SQUARE), KernelDensity((0, 0), 200.0), Nearest((0, 0), 5)]


def crowd(users=300):
    return np.random.default_rng(7).normal(0.0, 2000.0, (users, 2))


def calls_during(ask):
    """Return how often a frame of one module was entered from another, by their names."""
    calls = Counter()

    def watch(frame, event, _):
        if event == "call" and frame.f_back is not None:
            files = (Path(f.f_code.co_filename) for f in (frame.f_back, frame))
            calls[tuple(f.stem for f in files if "opendp_optimal" in str(f))] += 1

    sys.setprofile(watch)
    try:
        ask()
    finally:
        sys.setprofile(None)
    return Counter({pair: n for pair, n in calls.items() if len(set(pair)) == 2})


@pytest.mark.parametrize("privacy", [("cgp", 1e-3), ("gp", 0.1)])
@pytest.mark.parametrize("method", ["point", "distance"])
@pytest.mark.parametrize("query", QUERIES)
def test_nothing_calls_back(query, method, privacy, tmp_path):
    """With a ledger and without, also where somebody cannot pay."""
    kind, budget = privacy
    ledger = open_ledger(tmp_path / "budgets.db")
    for options in ({}, {"ledger": ledger, "ids": np.arange(300)}):
        people = Population(crowd(), budget=budget, privacy=kind, **options)
        people.release_points(budget=np.linspace(0.0, 0.5 * budget, 300))
        answer = []
        ask = partial(people.ask, query, budget=0.9 * budget, method=method)
        calls = calls_during(lambda a=answer, ask=ask: a.append(ask()))
        assert calls["asking", "elimination"]
        assert calls["asking", "look"]
        assert calls["allowances", "accounts"] == bool(options) * len(answer[-1].rounds)
        for caller in ("look", "elimination", "plan", "radius", "score", "answer"):
            assert not calls[caller, "population"]
            assert not calls[caller, "asking"]
            assert not calls[caller, "accounts"]
            assert not calls[caller, "allowances"] or caller == "look"  # pick and put
        assert not calls["look", "elimination"]
        assert not calls["elimination", "look"]


def test_the_old_methods_are_the_queries():
    asked = {"budget": 2e-2, "method": "distance", "looks": ("even", 2), "beta": 1e-9}
    far = np.vstack([np.zeros((3, 2)), np.full((4, 2), 1e6)])  # noise changes nothing
    for query, old in (
        (RangeCount(SQUARE), lambda p: p.range_count(SQUARE, **asked)),
        (Nearest((0, 0), 3), lambda p: p.nearest((0, 0), 3, **asked)),
    ):
        first, second = (Population(far, budget=1e-1) for _ in range(2))
        new = first.ask(query, **asked)
        again = old(second)
        assert sorted(np.atleast_1d(new.value)) == sorted(np.atleast_1d(again.value))
        assert new.rounds == again.rounds
        assert first.spent.tolist() == second.spent.tolist()
    schedule = Schedule(Population(far, budget=1e-1), 2)
    assert schedule.ask(RangeCount(SQUARE)).value == schedule.ask("range_count", SQUARE).value == 3


def test_queries_are_values():
    assert Nearest([0, 0], 3) == Nearest((0.0, 0.0), np.int64(3))
    assert KernelDensity((0, 1), 2) == KernelDensity(np.array([0, 1]), 2.0)
    with pytest.raises(FrozenInstanceError):
        QUERIES[2].k = 9
    for make, named in (
        (lambda: RangeCount("square"), "region"),
        (lambda: KernelDensity((0, 0), -1.0), "bandwidth"),
        (lambda: KernelDensity((0, np.nan), 1.0), "point"),
        (lambda: Nearest((0, 0), 0), "k"),
        (lambda: Nearest((), 1), "point"),
    ):
        with pytest.raises(ValueError, match=named):
            make()


def test_points_are_a_query_with_an_error_bound():
    points = crowd(200)
    people = Population(points, budget=1e-2)
    answer = people.ask(Points(), budget=np.linspace(0.0, 1e-2, 200), beta=1e-6)
    errors = np.hypot(*(answer.value - points).T)
    assert answer.missing == 1
    assert np.isnan(errors[0])
    assert np.nanmax(errors) <= answer.error_bound
    with pytest.raises(ValueError, match="method"):
        people.ask(Points(), budget=1e-3, method="distance")


@pytest.mark.parametrize("baseline", [False, True])
def test_all_users_are_the_nearest_of_so_many(baseline):
    """Asked for as many as there are, everybody is looked at once, and ranked."""
    points = np.array([[300.0, 0.0], [10.0, 0.0], [2000.0, 0.0]])
    answer = Population(points, budget=1.0).nearest((0, 0), 3, budget=0.5, baseline=baseline)
    assert answer.value == (1, 0, 2)
    assert answer.missing == 0
    assert len(answer.rounds) == 1


def test_an_engine_may_map_the_looks():
    """Any executor's map will do; small blocks show that their order does not matter."""
    points = crowd(200_000)
    people = Population(points, budget=1e-2)
    with ThreadPoolExecutor(3) as executor:
        people.engine = executor.map
        answers = [
            people.ask(query, budget=2e-3, beta=1e-6, method=method)
            for query, method in ((QUERIES[0], "distance"), (QUERIES[2], "point"))
        ]
    inside = int((np.abs(points) < 500.0).all(axis=1).sum())
    assert abs(answers[0].value - inside) <= answers[0].error_bound
    distance = np.hypot(*points.T)
    found = np.sort(distance[list(answers[1].value)])
    assert (found - np.sort(distance)[:5] <= answers[1].error_bound).all()
    assert (people.spent <= 4e-3 * (1 + 1e-9)).all()


@pytest.mark.process
def test_importing_the_hooks_loads_no_geometry():
    """Shapely and pyproj are loaded where they are used; the import enrols what the hook does."""
    program = (
        "import sys, opendp_optimal_geo\n"
        "from opendp_optimal_geo import plugin\n"
        "from opendp.context import constructors\n"
        "names = []\n"
        "plugin.opendp_optimal_register_mechanisms(lambda make, name: names.append(name))\n"
        "assert names and set(names) <= set(constructors), names\n"
        "from opendp_optimal_geo import commands\n"
        "late = {'shapely', 'pyproj', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "assert not late, late\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
