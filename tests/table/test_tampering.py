"""A table that was changed in any field does not verify, unless all that it says is still true."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from opendp_optimal import (
    CertificateError,
    Loss,
    solve,
    solve_bounded,
    solve_channel,
    solve_keys,
    solve_pair,
    solve_radial,
)
from opendp_optimal.losses.base import loss_of
from opendp_optimal.table import store as cache
from opendp_optimal.table.files.noise import KIND as NOISE


def hundredfold(x):
    return 100 * abs(x)


TABLES = [
    solve(1.0, 0.1, cells=3, gap=10.0, cache=False),
    solve(1.0, 0.1, cells=2, gap=10.0, monotone=True, loss="pinball:0.7", cache=False),
    solve(1.0, 0.2, cells=3, gap=10.0, support=4.0, impossible=0.15, loss="l2", cache=False),
    solve(1.0, 0.1, integer_sensitivity=2, cache=False),
    solve(1.0, 0.0, integer_sensitivity=1, cache=False),
    solve(1.0, 0.1, cells=2, gap=10.0, loss=hundredfold, cache=False),
]

INTEGER_RANGES = st.integers(-(2**62), 2**62) | st.integers(-3, 3)
NUMBERS = st.floats() | st.floats(0.5, 2.0)
WRONG = st.sampled_from([None, "1", 1.5, math.nan, True, np.float64(1.0), [1]])


def changed_array(draw, array):
    """An array with one entry changed, or of another shape or type."""
    kind = draw(st.sampled_from(["entry", "shorter", "floats", "flat", "list", "scaled"]))
    if kind == "entry" and array.size:
        out = array.copy()
        out[draw(st.integers(0, array.shape[0] - 1))] += draw(INTEGER_RANGES)
        return out
    if kind == "scaled":
        return array * draw(st.integers(-2, 3))
    if kind == "shorter":
        return array[:-1]
    if kind == "floats":
        return array.astype(float)
    return array.reshape(-1, 1) if kind == "flat" else array.tolist()


def changed_value(draw, value):
    """Another value for a field, of the same type more often than not."""
    if draw(st.integers(0, 4)) == 0:
        return draw(WRONG)
    if isinstance(value, np.ndarray):
        return changed_array(draw, value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + draw(INTEGER_RANGES)
    if isinstance(value, float):
        return value * draw(NUMBERS)
    if isinstance(value, Loss):
        return loss_of(draw(st.sampled_from(["l1", "l2", "pinball:0.5", hundredfold])))
    if isinstance(value, tuple):
        return tuple(changed_value(draw, part) for part in value)
    return changed(draw, value) if dataclasses.is_dataclass(value) else draw(WRONG)


def changed(draw, value):
    field = draw(st.sampled_from([f.name for f in dataclasses.fields(value) if f.init]))
    return dataclasses.replace(value, **{field: changed_value(draw, getattr(value, field))})


def same_claims(one, other):
    """Whether two tables say the same of the same noise (prices may differ)."""
    about = [
        (t.cells, t.atom, t.upper, t.lower, t.problem.epsilon, t.problem.delta)
        for t in (one, other)
    ]
    return about[0] == about[1] and np.array_equal(one.weights, other.weights)


@given(st.sampled_from(TABLES), st.data())
@settings(max_examples=200, phases=[Phase.generate])
def test_a_changed_field_is_noticed(table, data):
    try:
        other = changed(data.draw, table)
    except (ValueError, TypeError, AttributeError, OverflowError):
        return  # refused at the door
    try:
        other.verify()
    except CertificateError:
        return
    assert same_claims(table, other)


AWAY = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
RANGE = {"sensitivity": 1, "range": (0, 2), "gap": 9.0, "cache": False}
OTHERS = [
    solve_bounded(1.0, 0.1, bins=4, **RANGE),
    solve_bounded(1.0, 0.0, integer=True, **RANGE),
    solve_bounded(1.0, 0.1, bins=[0.0, 0.5, 2.0], **RANGE),
    solve_channel([0.5, 0.25, 0.25], AWAY, 1.0, AWAY),
    solve_pair(1.0, 0.01, gap=1.0, cache=False),
    solve_radial(1.0, 1e-3, size=2, norm="l2", loss="l2", cache=False),
    solve_radial(1.0, 0.0, size=2, norm="l1", loss="l1", cache=False),
    solve_radial(1.0, 0.0, size=3, norm="linf", loss="l2", weights=(9.0, 1.0, 1.0), cache=False),
]


@given(st.sampled_from(OTHERS), st.data())
@settings(max_examples=200, phases=[Phase.generate])
def test_a_changed_field_of_any_table_is_noticed(table, data):
    """What still verifies has the same bounds, and claims no more privacy."""
    try:
        other = changed(data.draw, table)
    except (ValueError, TypeError, AttributeError, OverflowError):
        return  # refused at the door
    try:
        other.verify()
    except CertificateError:
        return
    assert (other.upper, other.lower) == (table.upper, table.lower)
    asked, now = (getattr(t, "problem", None) or t.request for t in (table, other))
    assert now.epsilon >= asked.epsilon
    assert now.delta >= asked.delta
    assert np.array_equal(getattr(other, "weights", 0), getattr(table, "weights", 0))


def test_a_changed_threshold_is_private_or_noticed():
    """Any noise and threshold that verify are private, by the definition."""
    table = solve_keys(1.0, 1e-3)
    wrong = [{"threshold": n} for n in range(-2, table.threshold)]
    wrong += [{"nothing": table.nothing // 2}, {"nothing": table.nothing[1:]}, {"rescue": 1.5}]
    wrong += [{"weights": np.roll(table.weights, 1)}, {"weights": table.weights[1:-1]}]
    wrong += [{"problem": dataclasses.replace(table.problem, epsilon=0.5)}, {"problem": None}]
    wrong += [{"problem": dataclasses.replace(table.problem, delta=1e-4)}]
    for change in wrong:
        with pytest.raises(CertificateError):
            dataclasses.replace(table, **change).verify()


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_each_relation_between_fields(table):
    wrong = [
        {"upper": math.nextafter(table.upper, math.inf)},
        {"upper": math.inf},
        {"upper": math.nan},
        {"lower": math.nextafter(table.lower, -math.inf)},
        {"lower": -math.inf},
        {"lower": table.upper * 2},
        {"atom": table.atom + 1},
        {"cells": table.cells + 1},
        {"costs": None if table.costs else (table.problem.loss,)},
        {"problem": dataclasses.replace(table.problem, loss=Loss(lambda x: 3 * abs(x)))},
        {"dual": dataclasses.replace(table.dual, scale=table.dual.scale - 1)},
        {"dual": dataclasses.replace(table.dual, scale=1 << 40)},
        {"dual": dataclasses.replace(table.dual, mirrored=1)},
        {"dual": dataclasses.replace(table.dual, cells=table.dual.cells + 1)},
    ]
    for change in wrong:
        with pytest.raises(CertificateError):
            dataclasses.replace(table, **change).verify()


def test_a_function_with_the_name_of_a_built_in_loss():
    def l1(x):
        return 100 * abs(x)

    with pytest.raises(ValueError, match="delta = 0"):
        solve(1.0, 0.0, loss=l1, cache=False)
    honest = solve(1.0, 0.1, gap=0.05, cache=False)
    table = solve(1.0, 0.1, loss=l1, gap=0.05)
    assert 100 * honest.lower <= table.upper <= 100 * honest.upper * 1.1
    assert table.lower <= table.upper
    stored = NOISE.decode(NOISE.encode(table))
    assert not stored.loss.at_hand
    assert (stored.upper, stored.lower) == (table.upper, table.lower)
    assert stored.mean_loss("l1") < table.upper / 50
    assert cache.load(table.problem) == table


def test_the_function_of_a_stored_table_decides():
    """Two functions that agree wherever they are probed do not share a table."""
    table = solve(1.0, 0.1, loss=Loss(lambda x: abs(x), "mine"), cells=3, gap=10.0)

    def bump(x):
        return abs(x) + max(0.0, 0.001 - abs(abs(x) - 0.3334))

    other = Loss(bump, "mine", lipschitz=3.0)
    forged = dataclasses.replace(table.problem, loss=other)
    with pytest.raises(CertificateError, match="costs"):
        dataclasses.replace(table, problem=forged).verify()
    assert table.mean_loss(bump) >= table.upper
