"""Secret keys through OpenDP: what it costs, what comes out, and that nothing else does."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_optimal as oo
from opendp_optimal.exact.numbers import exp_down
from opendp_optimal.measure.keys import design_keys
from opendp_optimal.testing import audit
from tests.certify.test_keys import TOTAL, released
from tests.tails import too_many


@pytest.fixture(autouse=True)
def contrib():
    dp.enable_features("contrib")


def space(key=str, value=int):
    domain = dp.map_domain(dp.atom_domain(T=key), dp.atom_domain(T=value))
    return domain, dp.l01inf_distance(dp.absolute_distance(T=value))


def law(design, counts):
    """Everything that keys with these counts can become, and how often in TOTAL^keys."""
    each = [released(design.table, count) for count in counts]
    out: dict[tuple, int] = {}
    for chosen in itertools.product(*(row.items() for row in each)):
        values = tuple(value for value, _ in chosen)
        out[values] = out.get(values, 0) + math.prod(weight for _, weight in chosen)
    return out


def delta_between(design, x, y, epsilon):
    growth = exp_down(Fraction(epsilon))
    first, second = law(design, x), law(design, y)
    short = (weight - growth * second.get(value, 0) for value, weight in first.items())
    return sum((s for s in short if s > 0), Fraction(0)) / TOTAL ** len(x)


@pytest.mark.parametrize(
    ("d_in", "d_out"),
    [
        ((2, 2, 1), (2.0, 1e-2)),
        ((2, 2, 2), (3.0, 1e-2)),
        ((2, 4, 2), (6.0, 1e-2)),
        ((2, 3, 2), (4.0, 1e-3)),
        ((1, 3, 3), (6.0, 1e-2)),
    ],
)
def test_all_keys_of_a_person_together(d_in, d_out):
    design = design_keys(d_in, *d_out)
    assert design.unit == 1
    keys, total, most = d_in
    assert design.pair(d_in) == d_out
    tail = design.table.threshold + 1
    starts = {0, 1, design.table.half - 1, design.table.half, tail}
    moves = [
        move for move in itertools.product(range(most + 1), repeat=keys) if 0 < sum(move) <= total
    ]
    worst = Fraction(0)
    for x in itertools.combinations_with_replacement(sorted(starts), keys):
        for move in moves:
            y = tuple(a + b for a, b in zip(x, move, strict=True))
            found = max(
                delta_between(design, x, y, d_out[0]), delta_between(design, y, x, d_out[0])
            )
            assert found <= Fraction(d_out[1])
            worst = max(worst, found)
    assert worst > Fraction(d_out[1]) / 50


def test_smaller_distances_cost_no_more_and_larger_ones_are_answered():
    made = oo.make_optimal_threshold(*space(), (5, 5, 1), (1.0, 1e-6))
    assert made.map((5, 5, 1)) == (1.0, 1e-6)
    assert made.map((0, 0, 0)) == (0.0, 0.0)
    epsilon, delta = made.map((1, 1, 1))
    assert epsilon <= 0.2
    assert delta <= 2e-7
    epsilon, delta = made.map((10, 10, 1))
    assert epsilon >= 2.0
    assert delta >= 2e-6
    # By rows: up to 3 rows touch 3 keys, or one key by 3.
    assert design_keys((3, 3, 3), 1.0, 1e-6).argument == "units"
    # Many keys: composed better than by adding up.
    many = design_keys((100, 100, 1), 1.0, 1e-6)
    assert many.table.epsilon > 1.5 / 100
    assert many.pair((100, 100, 1)) == (1.0, 1e-6)


def test_counts_in_larger_units_stay_near_each_other():
    design = design_keys((1, 10**6, 10**6), 1.0, 1e-3)
    assert design.unit * design.table.problem.move >= 10**6
    assert design.unit > 1
    counts = np.array([0, 1, 10**6, 10**8, 2**63 - 1, -5])
    kept, values = design.release(np.tile(counts, 500))
    kept, values = kept.reshape(500, -1), values.reshape(500, -1)
    assert not kept[:, [0, 5]].any()
    assert kept[:, [3, 4]].all()
    assert np.abs(values[:, 3] - 10**8).max() < 10**8
    assert not too_many(int(kept[:, 2].sum()), 500, 1e-3)


def test_chained_after_a_count_and_in_a_context():
    words = ["the"] * 500 + ["a"] * 300 + ["secret"]
    column = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    counts = column >> dp.t.then_count_by()
    chain = counts >> oo.then_optimal_threshold(counts.map(1), (1.0, 1e-6))
    told = chain(words)
    assert set(told) == {"a", "the"}
    assert chain.map(1) == (1.0, 1e-6)
    context = dp.Context.compositor(
        data=words,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=1,
    )
    told = context.query().count_by().optimal_threshold().release()
    assert set(told) == {"the", "a"}
    assert abs(told["the"] - 500) < 60


@pytest.mark.parametrize("key", [str, int, bool, "i64", "u32"])
@pytest.mark.parametrize("value", ["i32", "i64", "u32"])
def test_any_type_of_keys_and_counts(key, value):
    made = oo.make_optimal_threshold(*space(key, value), (1, 1, 1), (4.0, 1e-3))
    first = {str: "x", bool: True}.get(key, 7)
    other = {str: "y", bool: False}.get(key, 9)
    told = made({first: 127, other: 0})
    assert set(told) == {first}
    assert 80 < told[first] < 180
    assert made({}) == {}


def test_a_key_of_nobody_never_appears_and_order_tells_nothing():
    made = oo.make_optimal_threshold(*space(), (1, 1, 1), (4.0, 0.2))
    assert all(made({"none": 0, "less": -7}) == {} for _ in range(200))
    names = [f"k{i:03}" for i in range(200)]
    told = [made(dict.fromkeys(order, 50)) for order in (names, names[::-1])]
    assert all(set(t) == set(names) for t in told)


def test_the_delta_of_a_key_that_appears_is_audited():
    made = oo.make_optimal_threshold(*space(), (1, 1, 1), (1.0, 0.01))
    draws = 20_000
    released, _ = made.table.draw(np.ones(draws, np.int64))
    assert not too_many(int(released.sum()), draws, 0.01)
    wrong = made.table.chance(2)  # what understating by one count would look like
    assert too_many(round(wrong * draws), draws, 0.01)

    def seen(n, draws=1):
        kept, values = made.table.draw(np.full(draws, n))
        return np.where(kept, values, 0).tolist()

    for n in (0, 1, made.table.half):
        found = audit(seen, n, n + 1, 1.0, 0.01, draws=draws, batch=seen, fork=False)
        assert not found.violated
    assert audit(seen, 1, 3, 1.0, 0.01, draws=draws, batch=seen, fork=False).violated


@pytest.mark.parametrize(
    "wrong",
    [
        {"d_in": 1},
        {"d_in": (1, 1)},
        {"d_in": (0, 1, 1)},
        {"d_in": (1, 1, 1.5)},
        {"d_in": (True, 1, 1)},
        {"d_out": 1.0},
        {"d_out": (1.0, 0.0)},
        {"d_out": (math.nan, 1e-6)},
        {"d_out": (1e-5, 1e-6)},
        {"d_out": (1.0, 1e-20)},
        {"d_in": (10**12, 10**12, 1)},
        {"input_domain": dp.atom_domain(T=int)},
        {"input_domain": dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=float))},
        {"input_domain": None},
        {"input_metric": dp.l1_distance(T=int)},
        {"input_metric": dp.l01inf_distance(dp.absolute_distance(T=float))},
    ],
)
def test_wrong_arguments_are_named(wrong):
    domain, metric = space()
    good = {"input_domain": domain, "input_metric": metric, "d_in": (1, 1, 1), "d_out": (1.0, 1e-6)}
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name}|d_out|epsilon|delta"):
        oo.make_optimal_threshold(**{**good, **wrong})
