import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal_geo import (
    Population,
    Schedule,
    even_rule,
    rectangle,
    saving_rule,
    spread_rule,
)

SQUARE = rectangle((0, 0), 1000, 1000)


def crowd(users=200):
    return np.random.default_rng(1).normal(0.0, 2000.0, (users, 2))


def test_gamma_rises_from_three_quarters_to_one():
    saved = np.array([1.0])  # nothing spent yet
    for m in (2, 5, 56):
        for query in range(1, m + 1):
            gamma = 0.75 + 0.25 * (query - 1) / (m - 1)
            fair = 1.0 / m
            expected = gamma * (1.0 - (m - query + 1) / m) + fair
            assert saving_rule(query, m, saved, 1.0)[0] == pytest.approx(expected)
    assert saving_rule(1, 1, saved, 1.0)[0] == 1.0


@given(st.integers(1, 30), st.lists(st.floats(0.0, 1.0), min_size=30, max_size=30))
def test_budgets_are_never_overdrawn(m, used):
    """Whatever share of its budget each query uses, the next one can be paid."""
    for rule in (saving_rule, spread_rule, even_rule):
        left = 1.0
        for query in range(1, m + 1):
            wanted = float(rule(query, m, np.array([left]), 1.0)[0])
            assert -1e-12 <= wanted <= left + 1e-12
            left -= wanted * used[query - 1]


def test_savings_flow_to_later_queries():
    people = Population(crowd(), budget=1e-3)
    schedule = Schedule(people, 4)
    budgets = []
    for _ in range(4):
        budgets.append(schedule.next_budget().mean())
        schedule.ask("range_count", SQUARE)
    assert budgets == sorted(budgets)
    assert budgets[-1] > 2 * budgets[0]
    assert not people.halted.any()
    with pytest.raises(ValueError, match="done"):
        schedule.next_budget()


def test_run_and_rules():
    people = Population(crowd(), budget=1e-3)
    queries = [("range_count", SQUARE), ("kde", (0, 0), 100.0), ("nearest", (0, 0), 3)]
    answers = Schedule(people, 3, even_rule).run(queries, baseline=True)
    assert len(answers) == 3
    assert people.remaining.max() < 1e-3 * 2**-36
    assert not people.halted.any()
    fixed = Schedule(Population(crowd(), budget=1e-3), 2, lambda query, m, left, budget: left * 0.5)
    fixed.run([("range_count", SQUARE)] * 2, baseline=True)
    assert fixed.population.remaining.mean() == pytest.approx(2.5e-4, rel=1e-6)


def test_bad_arguments():
    people = Population(crowd(5), budget=1.0)
    with pytest.raises(ValueError, match="queries"):
        Schedule(people, 0)
    with pytest.raises(ValueError, match="population"):
        Schedule(None, 3)
    with pytest.raises(ValueError, match="rule"):
        Schedule(people, 3, rule=3)
    with pytest.raises(ValueError, match="query"):
        Schedule(people, 3).ask("everything")
    with pytest.raises(ValueError, match="queries"):
        Schedule(people, 1).run([("range_count", SQUARE)] * 2)
    with pytest.raises(ValueError, match="rule must return"):
        Schedule(people, 2, rule=lambda *_: np.zeros(3)).next_budget()
    assert not people.allowances.paid.any()
