import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from shapely.geometry import Polygon

from opendp_optimal.budget import open_ledger
from opendp_optimal_geo import (
    CgpFilter,
    LocalProtocol,
    Population,
    Status,
    make_signed_distance,
    rectangle,
    then_grid_gaussian,
)
from opendp_optimal_geo.allowances import WHOLE
from opendp_optimal_geo.plan import price_of, shares

SQUARE = rectangle((0, 0), 1000, 1000)


def crowd(users=300, spread=2000.0, seed=0):
    return np.random.default_rng(seed).normal(0.0, spread, (users, 2))


PRIVACY = [
    {"privacy": "cgp", "budget": 1e-3},
    {"privacy": "gp", "budget": 0.2},
    {"privacy": "approx-gp", "budget": 0.1, "delta": 1e-6, "reach": 500.0},
    {"privacy": "approx-gp", "budget": 0.1, "delta": 1e-6, "reach": 500.0, "tight": False},
]


@pytest.mark.parametrize("options", PRIVACY, ids=["cgp", "gp", "approx", "equation-10"])
@pytest.mark.parametrize("method", ["point", "distance"])
def test_queries_stay_within_their_bounds(options, method):
    points = crowd()
    people = Population(points, **options)
    part = float(people.capacity) / 4
    inside = int((np.abs(points) < 500.0).all(axis=1).sum())
    answer = people.range_count(SQUARE, budget=part, method=method, beta=1e-6)
    assert abs(answer.value - inside) <= answer.error_bound
    assert 0.0 <= answer.saving < 1.0
    assert answer.rounds[0].asked == 300
    truth = float(np.exp(-(points**2).sum(axis=1) / (2 * 300.0**2)).mean())
    answer = people.kde((0, 0), 300.0, budget=part, method=method, beta=1e-6)
    assert abs(answer.value - truth) <= answer.error_bound
    distance = np.hypot(*points.T)
    answer = people.nearest((0, 0), 5, budget=part, method=method, beta=1e-6)
    found = np.sort(distance[list(answer.value)])
    assert (found - np.sort(distance)[:5] <= answer.error_bound).all()
    answer = people.range_count(SQUARE, budget=part, method=method, baseline=True, beta=1e-6)
    assert abs(answer.value - inside) <= answer.error_bound
    assert answer.saving == 0.0
    assert not people.halted.any()
    assert (people.spent <= float(people.capacity) * (1 + 1e-12)).all()


def test_tight_budgets_go_farther():
    loose, tight = (Population(crowd(3), **options) for options in (PRIVACY[3], PRIVACY[2]))
    assert tight.capacity > loose.capacity


def test_a_price_beyond_the_rest_halts_for_good():
    people = Population(crowd(20), budget=1e-3)
    people.release_points(budget=6e-4)
    again = people.release_points(budget=6e-4)
    assert np.isnan(again).all()
    assert people.halted.all()
    assert np.isnan(people.release_points(budget=1e-5)).all()  # affordable, but too late
    assert people.spent.tolist() == pytest.approx([6e-4] * 20)
    answer = people.range_count(SQUARE, budget=1e-5)
    assert answer.missing == 20
    assert answer.error_bound == 20
    assert people.nearest((0, 0), 2, budget=1e-5).value == ()


def test_users_may_have_different_budgets():
    people = Population(crowd(50), budget=1e-3)
    budget = np.linspace(0.0, 1e-3, 50)
    answer = people.range_count(SQUARE, budget=budget, looks=("even", 3), baseline=False)
    assert answer.missing == 1  # the one with nothing
    assert (people.spent <= budget * (1 + 1e-9)).all()
    answer = people.range_count(SQUARE, budget=people.remaining, baseline=True)
    assert people.remaining.max() <= 1e-3 * 2**-39


def test_one_user_halts_half_way():
    """Asked for more than is left, a user answers the looks that fit, then halts."""
    people = Population(np.zeros((2, 2)) + 490.0, budget=1e-3)
    people.allowances.charge([np.array([0])], [np.array([WHOLE // 2])])
    answer = people.range_count(SQUARE, budget=1e-3, looks=("even", 4), beta=1e-9)
    assert people.halted.tolist() == [True, False]
    assert [r.refused for r in answer.rounds] == [0, 0, 1, 1]
    assert people.allowances.paid.tolist() == [WHOLE, WHOLE]


def test_components_share_the_budget():
    people = Population(crowd(10), budget=1e-3)
    people.add_component("work", crowd(10, seed=1))
    people.add_component("income", np.arange(10.0)[:, None])
    people.range_count(SQUARE, budget=5e-4, component="work", baseline=True)
    people.nearest([3.0], 2, budget=5e-4, component="income", baseline=True)
    assert people.remaining.max() == 0.0
    with pytest.raises(ValueError, match="new component"):
        people.add_component("work", crowd(10))
    with pytest.raises(ValueError, match="one per user"):
        people.add_component("gym", crowd(9))
    with pytest.raises(ValueError, match="coordinates"):
        people.range_count(SQUARE, budget=1e-4, component="income")
    with pytest.raises(ValueError, match="component"):
        people.kde((0, 0), 1.0, budget=1e-4, component="none")


class OwnClients:
    """Users behind Algorithm 1, each with a filter of their own."""

    def __init__(self, points, budget, plane):
        self.users = [LocalProtocol(CgpFilter(budget), p, space=plane) for p in points.tolist()]
        self.plane, self.requests = plane, 0

    def mechanism(self, score, price):
        noise = then_grid_gaussian(rho=price * (1.0 - 2.0**-8), grid=2.0**-12)
        if score is None:
            return self.plane >> noise
        return make_signed_distance(*self.plane, score.region) >> noise

    def __call__(self, request):
        self.requests += 1
        mechanism = self.mechanism(request.score, float(request.prices[0]))
        replies = [self.users[user].ask(mechanism).answer for user in request.users.tolist()]
        missing = math.nan if request.score is not None else [math.nan] * 2
        return np.array([missing if reply is None else reply for reply in replies])


@pytest.mark.parametrize("method", ["point", "distance"])
def test_clients_of_their_own(method, plane):
    points = crowd(60)
    clients = OwnClients(points, 1e-3, plane)
    people = Population(clients, budget=1e-3, size=60, dimension=2)
    inside = int((np.abs(points) < 500.0).all(axis=1).sum())
    answer = people.range_count(SQUARE, budget=1e-3, method=method, looks=("even", 3), beta=1e-6)
    assert abs(answer.value - inside) <= answer.error_bound
    for user, paid in zip(clients.users, people.spent.tolist(), strict=True):
        assert Fraction(paid) / 2 <= user.filter.total <= Fraction(paid)
        assert user.status is Status.CONT
    assert clients.requests == len(answer.rounds)


def test_silent_clients_are_missing():
    people = Population(
        lambda request: np.where(request.users % 2 == 0, math.nan, -400.0),
        budget=1.0,
        size=10,
        dimension=2,
    )
    answer = people.range_count(SQUARE, budget=1.0, method="distance")
    assert answer.value == 5
    assert answer.missing == 5
    with pytest.raises(ValueError, match="clients returned"):
        Population(lambda request: np.zeros(3), budget=1.0, size=2, dimension=2).range_count(
            SQUARE, budget=1.0
        )


def in_ledger(tmp_path, size, **options):
    ledger = open_ledger(tmp_path / "budgets.db")
    return {"ledger": ledger, "ids": np.arange(size), "size": size, "dimension": 2, **options}


def test_a_query_that_dies_leaves_started_looks_charged(tmp_path):
    calls = []

    def dying(request):
        calls.append(len(request.users))
        if len(calls) == 3:
            raise RuntimeError("lost the connection")
        return np.zeros(len(request.users))  # on the border: never decided

    people = Population(dying, budget=1.0, **in_ledger(tmp_path, 4))
    with pytest.raises(RuntimeError, match="lost"):
        people.range_count(SQUARE, budget=0.5, method="distance", looks=("even", 5))
    assert people.spent.tolist() == pytest.approx([0.3] * 4)
    again = Population(lambda request: None, budget=1.0, **in_ledger(tmp_path, 4))
    assert again.allowances.paid.tolist() == people.allowances.paid.tolist()


def test_the_ledger_is_charged_before_anybody_is_asked(tmp_path):
    seen = []

    def clients(request):
        seen.append(Population(clients, budget=1.0, **in_ledger(tmp_path, 2)).spent.tolist())
        return np.zeros(2)

    people = Population(clients, budget=1.0, **in_ledger(tmp_path, 2))
    people.range_count(SQUARE, budget=1.0, method="distance", looks=[0.25, 0.75])
    assert seen == [pytest.approx([0.25] * 2), pytest.approx([1.0] * 2)]


@given(st.integers(64, WHOLE), st.integers(1, 20), st.sampled_from(["even", "doubling"]))
def test_looks_add_up_exactly(allotment, c, kind):
    split = shares((kind, c))
    prices = [price_of(allotment, split, j) for j in range(c)]
    assert sum(prices) == allotment
    assert min(prices) >= 0
    each = [price_of(np.array([allotment]), split, j).tolist() for j in range(c)]
    assert each == [[price] for price in prices]


def test_doubling_doubles():
    split = shares(("doubling", 10))
    assert [round(1023 * s) for s in split] == [2**j for j in range(10)]


BAD_QUERIES = [
    ({"budget": 0.0}, "budget"),
    ({"budget": -1e-4}, "budget"),
    ({"budget": math.nan}, "budget"),
    ({"budget": math.inf}, "budget"),
    ({"budget": 1.0}, "at most"),
    ({"budget": "1"}, "budget"),
    ({"budget": np.full(9, 1e-4)}, "budget"),
    ({"budget": np.full(10, -1e-4)}, "budget"),
    ({"budget": np.zeros(10)}, "budget"),
    ({"method": "both"}, "method"),
    ({"looks": ("even", 0)}, "looks"),
    ({"looks": ("odd", 3)}, "looks"),
    ({"looks": "even"}, "looks"),
    ({"looks": []}, "looks"),
    ({"looks": [1e-4, 1e-4]}, "add up"),
    ({"looks": [-1e-4, 1.1e-3]}, "looks"),
    ({"looks": ("doubling", 31)}, "looks"),
    ({"budget": 1e-13, "looks": ("doubling", 30)}, "budget"),
    ({"beta": 0.0}, "beta"),
    ({"beta": 1.0}, "beta"),
]


@pytest.mark.parametrize(("options", "reason"), BAD_QUERIES)
def test_bad_arguments_charge_nothing(options, reason):
    people = Population(crowd(10), budget=1e-3)
    options = {"budget": 1e-3, **options}
    for ask in (
        lambda: people.range_count(SQUARE, **options),
        lambda: people.kde((0, 0), 10.0, **options),
        lambda: people.nearest((0, 0), 3, **options),
    ):
        with pytest.raises(ValueError, match=reason):
            ask()
    assert not people.allowances.paid.any()
    assert not people.halted.any()


def test_other_bad_arguments_charge_nothing():
    people = Population(crowd(10), budget=1e-3)
    bow_tie = Polygon([(0, 0), (1, 1), (1, 0), (0, 1)])
    for ask, reason in (
        (lambda: people.range_count(Polygon(), budget=1e-3), "region"),
        (lambda: people.range_count(bow_tie, budget=1e-3), "Self-intersection"),
        (lambda: people.nearest((0, 0), 11, budget=1e-3), "k .11. must be at most"),
        (lambda: people.nearest((0, 0), 0, budget=1e-3), "k"),
        (lambda: people.nearest((0, math.nan), 1, budget=1e-3), "point"),
        (lambda: people.nearest((0, 0, 0), 1, budget=1e-3), "point"),
        (lambda: people.kde((0, 0), 0.0, budget=1e-3), "bandwidth"),
        (lambda: people.kde((0, 1e12), 1.0, budget=1e-3), "coordinates"),
        (lambda: people.range_count(rectangle((1e12, 0), 9, 9), budget=1e-3), "coordinates"),
        (lambda: people.threshold(SQUARE, 0.5, budget=1e-3), "central_budget"),
        (lambda: people.density_map((0, 0, 0, 1), 10, 5.0, budget=1e-3), "bounds"),
    ):
        with pytest.raises(ValueError, match=reason):
            ask()
    assert not people.allowances.paid.any()


@pytest.mark.parametrize(
    ("points", "options", "reason"),
    [
        ([[0.0, math.nan]], {}, "finite"),
        ([[0.0, math.inf]], {}, "finite"),
        ([[0.0, 1e300]], {}, "below"),
        ([], {}, "row"),
        ([1.0, 2.0], {}, "row"),
        ([["a", "b"]], {}, "numbers"),
        ([[0.0, 0.0]], {"budget": 0.0}, "budget"),
        ([[0.0, 0.0]], {"budget": -1.0}, "budget"),
        ([[0.0, 0.0]], {"grid": 0.3}, "grid"),
        ([[0.0, 0.0]], {"privacy": "dp"}, "privacy"),
        ([[0.0, 0.0]], {"privacy": "approx-gp"}, "delta"),
        ([[0.0, 0.0]], {"delta": 1e-6, "reach": 1.0}, "approx-gp"),
        ([[0.0, 0.0]], {"privacy": "approx-gp", "delta": 2.0, "reach": 1.0}, "delta"),
        ([[0.0, 0.0]], {"size": 3}, "size"),
        (lambda request: None, {}, "size"),
        (lambda request: None, {"size": 0, "dimension": 2}, "size"),
    ],
)
def test_bad_populations(points, options, reason):
    with pytest.raises(ValueError, match=reason):
        Population(points, **{"budget": 1.0, **options})


def test_messages_do_not_hold_coordinates():
    with pytest.raises(ValueError, match="finite") as caught:
        Population([[1234.5, 6789.0], [4321.0, math.nan]], budget=1.0)
    assert not any(text in str(caught.value) for text in ("1234", "6789", "4321"))


def test_central_threshold():
    points = crowd(1000)
    people = Population(points, budget=1e-3, central_budget=1.0)
    few = float((np.abs(points) < 500.0).all(axis=1).mean())
    assert people.threshold(SQUARE, few + 0.2, budget=0.5).value is True
    assert people.threshold(SQUARE, max(0.001, few - 0.03), budget=0.25).value is False
    assert not people.allowances.paid.any()  # the users' own budgets are another matter
    left = people.central_remaining
    for options, reason in (
        ({"budget": 1.0}, "left"),
        ({"budget": 0.1, "method": "points"}, "method"),
        ({"budget": 0.1, "looks": (0.05, 0.04)}, "looks"),
        ({"budget": 0.1, "beta": 0.0}, "beta"),
    ):
        with pytest.raises(ValueError, match=reason):
            people.threshold(SQUARE, 0.5, **options)
    assert people.central_remaining == left
    assert people.threshold(SQUARE, 0.99, budget=0.25, method="point", baseline=True).value is True
    assert people.central_remaining == left - Fraction(1, 4)


def test_density_map():
    points = crowd(5000, spread=500.0)
    people = Population(points, budget=1e-2)
    result = people.density_map((-2000, -2000, 2000, 2000), 80, 100.0, budget=1e-2)
    assert result.answered == 5000
    assert result.density.sum() * 50.0**2 == pytest.approx(5000, rel=0.02)
    centre = result.density[39:41, 39:41].mean()
    assert centre == pytest.approx(5000 / (2 * math.pi * (500**2 + 100**2)), rel=0.3)


@pytest.mark.parametrize("privacy", PRIVACY)
@pytest.mark.parametrize("method", ["point", "distance"])
@pytest.mark.parametrize("baseline", [False, True])
def test_the_only_user_left_cannot_pay(privacy, method, baseline):
    people = Population(crowd(1), **privacy)
    whole = float(people.capacity)
    people.release_points(budget=0.75 * whole)
    options = {"budget": whole, "method": method, "looks": ("even", 2), "baseline": baseline}
    answers = [
        people.range_count(SQUARE, **options),
        people.kde((0, 0), 200.0, **options),
        people.nearest((0, 0), 1, **options),
    ]
    assert [answer.missing for answer in answers] == [1, 1, 1]
    assert answers[0].value == 0
    assert np.isnan(people.release_points(budget=0.1 * whole)).all()


class Budgets(RuleBasedStateMachine):
    """Queries of all kinds, adaptively, against exact per-user totals."""

    @initialize(privacy=st.sampled_from(PRIVACY), seed=st.integers(0, 99))
    def begin(self, privacy, seed):
        self.points = crowd(12, seed=seed)
        self.people = Population(self.points, **privacy)
        self.previous = self.people.allowances.paid.copy()
        self.was_halted = self.people.halted

    @rule(
        share=st.floats(1e-3, 1.0),
        method=st.sampled_from(["point", "distance"]),
        kind=st.sampled_from(["range_count", "kde", "nearest", "release"]),
        looks=st.sampled_from([("even", 1), ("even", 3), ("doubling", 5)]),
    )
    def ask(self, share, method, kind, looks):
        budget = float(self.people.capacity) * share
        if kind == "range_count":
            self.people.range_count(SQUARE, budget=budget, method=method, looks=looks)
        elif kind == "kde":
            self.people.kde((0, 0), 200.0, budget=budget, method=method, looks=looks)
        elif kind == "nearest":
            self.people.nearest((0, 0), 3, budget=budget, method=method, looks=looks)
        else:
            released = self.people.release_points(budget=budget)
            assert np.isnan(released[self.was_halted]).all()

    @rule(share=st.floats(0.01, 1.0))
    def ask_for_what_each_has_left(self, share):
        budget = self.people.remaining * share
        if budget.max() > float(self.people.capacity) * 1e-6:
            complaint = ""
            try:
                self.people.range_count(SQUARE, budget=budget, looks=("even", 2))
            except ValueError as error:
                complaint = str(error)
            if complaint:  # somebody has too little left for any noise, or any look
                assert "must be coarser" in complaint or "must be larger for" in complaint
                assert (self.people.allowances.paid == self.previous).all()

    @invariant()
    def within_budget(self):
        if not hasattr(self, "people"):
            return
        paid = self.people.allowances.paid
        assert (paid <= WHOLE).all()
        assert (paid >= self.previous).all()
        assert (paid[self.was_halted] == self.previous[self.was_halted]).all()
        assert (self.people.halted | ~self.was_halted).all()
        for ticks, spent, left in zip(
            paid.tolist(), self.people.spent.tolist(), self.people.remaining.tolist(), strict=True
        ):
            exact = ticks * self.people.allowances.tick
            assert exact <= Fraction(spent)
            assert Fraction(left) <= self.people.capacity - exact
        self.previous, self.was_halted = paid.copy(), self.people.halted


TestBudgets = Budgets.TestCase
TestBudgets.settings = settings(max_examples=25, stateful_step_count=10, deadline=None)


@pytest.mark.parametrize(("method", "most"), [("distance", 80), ("point", 96)])
@pytest.mark.slow
def test_memory_per_user_is_bounded(method, most):
    """17 bytes between queries; during one, a bounded number more, and blocks of fixed size."""
    import tracemalloc

    users = 400_000
    points = np.random.default_rng(0).normal(0.0, 2000.0, (users, 2)).astype(np.float32)
    people = Population(points, budget=1e-3)
    assert people.bytes_per_user == 17.0
    people.range_count(SQUARE, budget=1e-4, method=method)  # makes the tables
    tracemalloc.start()
    try:
        people.range_count(SQUARE, budget=1e-6, method=method)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most * users + 12e6


@pytest.mark.parametrize("query", ["range_count", "nearest"])
def test_a_failure_inside_leaves_begun_looks_charged(query, monkeypatch):
    """Users pay for a look before it is taken, and for none that was not begun."""
    from opendp_optimal_geo.look import People

    honest, begun = People.look, []

    def failing(self, look, users):
        begun.append(look.price(users))
        if len(begun) == 3:
            raise MemoryError
        return honest(self, look, users)

    monkeypatch.setattr(People, "look", failing)
    people = Population(np.full((5, 2), 500.0), budget=1e-3)  # on the border: never decided
    options = {"budget": 5e-4, "method": "distance", "looks": ("doubling", 6), "beta": 1e-9}
    where = (SQUARE,) if query == "range_count" else ((0, 0), 1)
    with pytest.raises(MemoryError):
        getattr(people, query)(*where, **options)
    assert people.allowances.paid.tolist() == [sum(begun)] * 5
    assert sum(begun) == pytest.approx(WHOLE / 2 * 7 / 63)


def test_a_ledger_costs_nobody_more(tmp_path):
    """With a ledger and without: everybody pays for the looks that they were asked in."""
    points = np.vstack([np.full((3, 2), 500.0), np.full((3, 2), 9e4)])
    ledger = open_ledger(tmp_path / "budgets.db")
    for options in ({}, {"ledger": ledger, "ids": list("abcdef")}):
        people = Population(points, budget=1e-3, **options)
        answer = people.range_count(SQUARE, budget=5e-4, looks=("even", 4), beta=1e-6)
        assert people.allowances.paid.tolist() == [WHOLE // 2] * 3 + [WHOLE // 8] * 3
        assert answer.saving == pytest.approx(3 / 8)
