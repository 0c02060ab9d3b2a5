"""Bounded tables: frozen, verified, stored, read back; what was tampered with is refused."""

import logging
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from opendp_optimal import CertificateError, Loss, TableFormatError, solve_bounded
from opendp_optimal.losses.base import loss_of
from opendp_optimal.table import store as cache
from opendp_optimal.table.files.bounded import KIND as BOUNDED

OPTIONS = {"sensitivity": 2, "range": (0, 4), "bins": 6}


@pytest.fixture(scope="module")
def table():
    return solve_bounded(1.0, 0.2, **OPTIONS, cache=False)


def test_what_is_written_is_read(table):
    for one in (
        table,
        solve_bounded(1.0, 0.2, **OPTIONS, cap=1.5, prior=[0.3, 0.7], cache=False),
        solve_bounded(0.5, 0.0, **OPTIONS, loss="pinball:0.75", cache=False),
        solve_bounded(1.0, 1e-6, sensitivity=1, range=(0, 5), integer=True, cache=False),
        solve_bounded(1.0, 0.2, sensitivity=2, range=(0, 4), bins=[0, 1, 4], cache=False),
    ):
        again = BOUNDED.decode(BOUNDED.encode(one))
        assert again == one
        assert hash(again) == hash(one)
        assert BOUNDED.peek(BOUNDED.encode(one))["upper"] == one.upper


def test_tables_are_frozen(table):
    with pytest.raises(FrozenInstanceError):
        table.upper = 0.0
    with pytest.raises(ValueError, match="read-only"):
        table.weights[0, 0] = 0
    assert "gap=" in repr(table)
    assert table != 1


@pytest.mark.parametrize("at", [0, 9, 40, 500, -1])
def test_damage_is_seen(table, at):
    data = bytearray(BOUNDED.encode(table))
    data[at] ^= 1
    with pytest.raises(TableFormatError):
        BOUNDED.decode(bytes(data))
    with pytest.raises(TableFormatError):
        BOUNDED.decode(BOUNDED.encode(table)[:-40])
    with pytest.raises(TableFormatError):
        BOUNDED.peek(b"ODPBOUND\xff\xff\xff\xff{}")


def test_claims_that_are_not_proved_are_refused(table):
    weights = table.weights.copy()
    weights[0, 1:3] = weights[0, [2, 1]]
    lifted = table.dual.budget.copy()
    lifted += 1
    for wrong in (
        replace(table, upper=table.upper * (1 - 1e-9)),
        replace(table, lower=table.lower * (1 + 1e-6)),
        replace(table, weights=np.roll(weights, 1, axis=0)),
        replace(table, weights=weights[:, ::-1].copy()),
        replace(table, dual=replace(table.dual, slack=table.dual.slack * 2)),
        replace(table, problem=replace(table.problem, delta=0.1999)),
        replace(table, problem=replace(table.problem, cap=0.5)),
    ):
        with pytest.raises(CertificateError):
            wrong.verify()
        with pytest.raises(CertificateError):
            BOUNDED.decode(BOUNDED.encode(wrong))


@pytest.mark.slow
def test_tables_are_kept_and_checked_on_load(caplog):
    first = solve_bounded(1.0, 0.2, **OPTIONS)
    (place,) = cache.cache_directory().iterdir()
    assert place.name == first.problem.fingerprint + ".bounded"
    assert solve_bounded(1.0, 0.2, **OPTIONS) == first
    assert list(cache.stored_files(BOUNDED)) == [place]
    # Another number of bins goes on from there, and never loosens.
    finer = solve_bounded(1.0, 0.2, **{**OPTIONS, "bins": 8})
    assert finer.upper <= first.upper
    assert finer.lower >= first.lower
    assert set(finer.levels) >= {2, 4, 6, 8}
    data = bytearray(place.read_bytes())
    data[-100] ^= 255
    place.write_bytes(bytes(data))
    with caplog.at_level(logging.WARNING):
        assert cache.load(first.problem) is None
    assert "is not used" in caplog.text
    assert solve_bounded(1.0, 0.2, **OPTIONS).upper == pytest.approx(first.upper, rel=1e-3)
    assert cache.clear() == 1
    assert cache.load(first.problem) is None


def test_a_file_under_another_name_is_not_used(table, caplog):
    other = solve_bounded(1.0, 0.1, **OPTIONS, cache=False)
    cache.write(table.problem.fingerprint + BOUNDED.suffix, BOUNDED.encode(other))
    with caplog.at_level(logging.WARNING):
        assert cache.load(table.problem) is None
    assert "another question" in caplog.text


def test_a_users_loss_is_not_kept():
    own = solve_bounded(1.0, 0.2, **OPTIONS, loss=Loss(lambda x: abs(x) ** 1.5, "p"))
    assert cache.keep(own) is None
    assert cache.load(own.problem) is None
    with pytest.raises(ValueError, match=r"loss \(p\) must have a name"):
        BOUNDED.encode(own)


def test_the_profile(table):
    assert table.delta_at(table.epsilon) <= table.delta
    deltas = [table.delta_at(e) for e in (0.0, 0.5, 1.0, 2.0, 8.0)]
    assert deltas == sorted(deltas, reverse=True)
    near = [table.delta_at(1.0, apart) for apart in (1, 2, 3)]
    assert near == sorted(near)
    for call in (lambda: table.delta_at(-1.0), lambda: table.delta_at(1.0, 0)):
        with pytest.raises(ValueError, match="must"):
            call()


def test_conditional_losses(table):
    assert len(table.conditional_losses) == len(table.answers) == table.bins + 1
    assert table.conditional_losses.max() <= table.largest_conditional_loss
    even = np.mean([table.loss_at(float(a)) for a in (np.arange(200) + 0.5) / 50])
    assert even == pytest.approx(table.upper, rel=2e-3)
    answers, outputs, chances = table.family()
    assert answers == pytest.approx(outputs)
    assert chances.sum(axis=1) == pytest.approx(np.ones(table.bins + 1))
    with pytest.raises(ValueError, match=r"answer \(5\) must be in"):
        table.loss_at(5)


def forged(problem, **changes):
    """A problem that never passed the door."""
    again = replace(problem)
    for name, value in changes.items():
        object.__setattr__(again, name, value)
    return again


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.2, 0.0])
def test_no_field_can_be_changed(delta):
    table = solve_bounded(1.0, delta, **OPTIONS, cap=1.5, cache=False)
    table.verify()
    dual, problem = table.dual, table.problem
    weights, slack = table.weights.copy(), dual.slack.copy()
    weights[0, 0] -= 1
    slack[0, 0] = -1
    wrong = {
        "upper": [table.lower / 2, table.upper * 1.01, -1.0, float("nan"), float("inf")],
        "lower": [table.upper * 2, table.lower * 0.99, -1.0, float("nan"), float("-inf")],
        "bins": [table.bins + 1, 0, -1, 6.0, True],
        "cells": [0, -1, table.bins + 1, 3.0],
        "dual_bins": [table.dual_bins + 1, 0, -3],
        "dual_cells": [0, table.dual_cells + 1, -1],
        "levels": [(99,), (6, 2), (-1, 2, 6), (6.0,)],
        "weights": [weights, weights[:, :-1], np.roll(table.weights, 1, 0), table.weights * 1.0],
        "problem": [
            forged(problem, delta=1.0),
            forged(problem, epsilon=-1.0),
            forged(problem, epsilon=0.5),
            forged(problem, sensitivity=4.0),
            forged(problem, low=3.0),
            forged(problem, cap=0.1),
            forged(problem, cap=-1.0),
            forged(problem, prior=(0.9, 0.1)),
            forged(problem, loss=loss_of("l2")),
            forged(problem, high=float("inf")),
        ],
        "dual": [
            replace(dual, slack=slack),
            replace(dual, slack=dual.slack[:-1]),
            replace(dual, slack=dual.slack // 2),
            replace(dual, budget=dual.budget + (1 << 40)),
            replace(dual, budget=dual.budget - 1),
            replace(dual, pairs=dual.pairs[::-1]),
            replace(dual, pairs=dual.pairs + 10**6),
            replace(dual, scale=dual.scale - 1),
            replace(dual, scale=dual.scale + 1),
            replace(dual, caps=np.full(3, 5)),
            replace(dual, caps=-np.ones(len(dual.caps) or 1, np.int64)),
        ],
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(CertificateError):
                replace(table, **{name: value}).verify()
