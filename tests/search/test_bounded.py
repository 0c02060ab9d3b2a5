"""Data-dependent noise from end to end: the paper's figure, the laws, bad input."""

import itertools
import json
import math
import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import (
    BoundedTable,
    CertificateError,
    GapWarning,
    Loss,
    known,
    solve,
    solve_bounded,
)
from opendp_optimal.certify import channel as proofs
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.model.bounded import channel_above
from opendp_optimal.model.channel import ChannelProgram
from opendp_optimal.round.channel import private_rows
from opendp_optimal.table.files.bounded import KIND as BOUNDED
from tests.strategies import examples

FIGURE = json.loads((Path(__file__).parents[1] / "golden" / "figure_3.json").read_text())
SLOW = pytest.mark.slow
ASKED = {"sensitivity": 2, "range": (0, 4), "cache": False}


@pytest.mark.slow
@pytest.mark.parametrize("regime", FIGURE["regimes"], ids=lambda regime: regime["name"])
def test_figure_3(regime):
    """Truncated Laplace > data-independent optimum > data-dependent optimum, certified."""
    epsilon, delta = regime["epsilon"], regime["delta"]
    size = FIGURE["sensitivity"]
    table = solve_bounded(
        epsilon,
        delta,
        sensitivity=size,
        range=tuple(FIGURE["range"]),
        loss=FIGURE["loss"],
        gap=regime["gap"],
        cache=False,
    )
    assert table.gap <= regime["gap"]
    table.verify()
    alike = solve(epsilon, delta, loss="l1", gap=0.01, cache=False)
    laplace = size * known.expected_loss("truncated_laplace", epsilon, delta, "l1")
    assert laplace > size * alike.upper
    assert size * alike.lower > table.upper
    # The printed claims: substantially better in medium and high privacy.
    saved = 1 - table.upper / (size * alike.lower)
    assert (
        saved > {"low privacy": 0.15, "medium privacy": 0.4, "high privacy": 0.79}[regime["name"]]
    )


def constant(noise, table):
    """Data-independent noise of the same lattice as a channel: added, then moved to the ends."""
    size = table.bins + 1
    law = noise.weights / noise.total
    out = np.zeros((size, size + 2))
    for x in range(size):
        places = np.clip(x + np.arange(-noise.radius, noise.radius + 1), 0, size - 1)
        np.add.at(out[x], places + 1, law)
        out[x, 0] = out[x, -1] = noise.atom / noise.total / 2
    return out


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (1.0, 0.2),
        *(pytest.param(*pair, marks=SLOW) for pair in [(0.2, 0.05), (3.0, 1e-3), (1.0, 0.75)]),
    ],
)
@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_never_worse_than_the_same_noise_for_all_on_the_same_lattice(epsilon, delta, loss):
    table = solve_bounded(epsilon, delta, bins=8, loss=loss, **ASKED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        alike = solve(epsilon, delta, loss=loss, cells=table.cells, cache=False)
    problem = channel_above(table.problem, table.bins, table.cells)
    rows = constant(alike, table)
    assert ChannelProgram.of(problem).shortfalls(
        rows[: ChannelProgram.of(problem).cost.shape[0]]
    ).max() <= (delta * (1 + 1e-9) + 1e-12)
    weights = private_rows(rows, problem)
    units = 2.0 if loss == "l1" else 4.0
    assert float(proofs.expected_cost(weights, problem)) <= units * alike.upper * (1 + 1e-9)
    assert table.upper <= float(proofs.expected_cost(weights, problem)) * (1 + 1e-3)


@pytest.mark.slow
@settings(max_examples=examples(12))
@given(
    st.floats(0.05, 4.0),
    st.floats(-8, -0.5).map(lambda x: 10.0**x),
    st.sampled_from([(4, 0.5), (6, 1 / 3), (4, 1.0), (6, 2 / 3)]),
    st.sampled_from(["l1", "l2", "pinball:0.7"]),
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=3),
)
def test_laws(epsilon, delta, lattice, loss, prior):
    """Rows add up exactly, bounds are ordered, refining never loosens."""
    bins, share = lattice
    options = {
        "sensitivity": 3.0 * share,
        "range": (-1.0, 2.0),
        "loss": loss,
        "prior": [w / sum(prior) for w in prior],
        "cache": False,
    }
    coarse = solve_bounded(epsilon, delta, bins=bins, **options)
    fine = solve_bounded(epsilon, delta, bins=2 * bins, **options)
    for table in (coarse, fine):
        assert {sum(row) for row in table.weights.tolist()} == (
            {TOTAL} if table.noise is None else set()
        )
        assert table.lower <= table.upper
        table.verify()
    assert fine.upper <= coarse.upper
    assert fine.lower >= coarse.lower


@pytest.mark.slow
def test_more_privacy_costs_more():
    uppers = [solve_bounded(e, 0.05, bins=8, gap=1e-4, **ASKED) for e in (0.2, 0.5, 1.0, 2.0)]
    for more, less in itertools.pairwise(uppers):
        assert more.lower <= more.upper
        assert less.upper <= more.upper * (1 + 1e-5)


@pytest.mark.slow
def test_a_cap_binds_and_has_a_price():
    free = solve_bounded(1.0, 0.2, bins=8, **ASKED)
    cap = 0.9 * free.largest_conditional_loss
    table = solve_bounded(1.0, 0.2, bins=8, cap=cap, **ASKED)
    assert table.largest_conditional_loss <= cap
    answers = np.linspace(0, 4, 41)
    assert max(table.loss_at(float(a)) for a in answers) <= cap
    assert max(free.loss_at(float(a)) for a in answers) > cap
    assert table.upper > free.upper
    assert table.lower >= free.lower * (1 - 1e-3)
    assert table.gap < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (1.0, 0.2),
        pytest.param(5.0, 0.25, marks=SLOW),
        pytest.param(0.2, 0.05, marks=SLOW),
    ],
)
def test_instance_optimality(epsilon, delta):
    """Never worse than the data-independent optimum at any answer, and what that costs."""
    alike = 2 * solve(epsilon, delta, gap=0.01, cache=False).upper
    options = {"bins": 28 if epsilon == 5 else 12, **ASKED}
    free = solve_bounded(epsilon, delta, **options)
    table = solve_bounded(epsilon, delta, cap=alike, **options)
    assert table.largest_conditional_loss <= alike
    assert free.upper <= table.upper * (1 + 1e-3)
    assert table.upper < alike
    table.verify()


@pytest.mark.parametrize("bins", [8, [0, 0.5, 1, 2, 3, 3.5, 4], None])
def test_an_infeasible_cap(bins):
    with pytest.raises(ValueError, match=r"cap \(0.01\) must be larger: .* keeps to \d"):
        solve_bounded(1.0, 0.2, bins=bins, cap=0.01, gap=0.2, **ASKED)


@pytest.mark.slow
def test_unequal_bins():
    edges = [0, 0.25, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 3.75, 4]
    table = solve_bounded(1.0, 0.2, bins=edges, **ASKED)
    assert (table.bins, table.cells) == (10, 0)
    assert 0.64 < table.lower < table.upper < 0.75
    equal = solve_bounded(1.0, 0.2, bins=np.linspace(0, 4, 9), **ASKED)
    assert equal.upper < 0.7
    weighted = solve_bounded(1.0, 0.2, bins=[0, 1, 2, 4], prior=[0.2, 0.3, 0.5], **ASKED)
    weighted.verify()


@pytest.mark.slow
def test_a_prior_pulls_the_noise():
    left = solve_bounded(1.0, 0.2, bins=8, prior=[0.9, 0.1], **ASKED)
    right = solve_bounded(1.0, 0.2, bins=8, prior=[0.1, 0.9], **ASKED)
    even = solve_bounded(1.0, 0.2, bins=8, **ASKED)
    assert left.upper == pytest.approx(right.upper, rel=1e-3)
    assert left.upper < even.upper
    assert left.loss_at(0.5) < right.loss_at(0.5)


def test_integers():
    table = solve_bounded(1.0, 1e-3, sensitivity=1, range=(3, 9), integer=True, cache=False)
    assert table.gap < 1e-3
    assert table.weights.shape == (7, 7)
    assert table.loss_at(3) < table.loss_at(6)
    prior = [0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
    tilted = solve_bounded(
        1.0, 1e-3, sensitivity=1, range=(3, 9), integer=True, prior=prior, cache=False
    )
    assert tilted.loss_at(3) <= table.loss_at(3)
    draw = table.releaser()
    assert {3 <= draw(a) <= 9 for a in (-5, 3, 6, 9, 100)} == {True}
    with pytest.raises(ValueError, match="must be an integer"):
        table.loss_at(3.5)


def test_pure_privacy():
    table = solve_bounded(1.0, 0.0, bins=12, **ASKED)
    assert table.delta_at(1.0) == 0.0
    assert table.gap < 0.05
    assert not table.revealing
    assert table.upper < 2 * solve(1.0, 0.0, cache=False).lower


def test_every_answer_may_be_a_neighbour():
    """A sensitivity beyond the range is handled as one of its length."""
    wide = solve_bounded(1.0, 0.1, sensitivity=100, range=(0, 4), bins=6, cache=False)
    exact = solve_bounded(1.0, 0.1, sensitivity=4, range=(0, 4), bins=6, cache=False)
    assert wide.upper == exact.upper
    assert np.array_equal(wide.weights, exact.weights)
    assert wide.problem.sensitivity == 100


@pytest.mark.slow
@pytest.mark.parametrize("units", [1e-9, 1.0, 1e6, 1e18])
def test_units_do_not_matter(units):
    table = solve_bounded(
        1.0, 0.1, sensitivity=2 * units, range=(-units, 3 * units), bins=8, cache=False
    )
    plain = solve_bounded(1.0, 0.1, bins=8, **ASKED)
    assert table.upper / units == pytest.approx(plain.upper, rel=1e-4)
    assert table.lower / units == pytest.approx(plain.lower, rel=1e-4)
    released = table.releaser()(units)
    assert -units <= released <= 3 * units


@pytest.mark.slow
def test_lengths_that_are_no_whole_number_of_sensitivities():
    table = solve_bounded(
        0.7, 0.05, sensitivity=math.pi, range=(0, 10.000001), gap=0.05, cache=False
    )
    assert table.gap <= 0.05
    tenth = solve_bounded(1.0, 0.1, sensitivity=0.1, range=(0, 0.3), bins=9, cache=False)
    assert tenth.cells == 3


@pytest.mark.slow
def test_a_users_loss():
    table = solve_bounded(1.0, 0.2, bins=8, loss=Loss(lambda x: abs(x) ** 1.5, "p"), **ASKED)
    assert table.gap < 0.1
    table.verify()
    dull = solve_bounded(1.0, 0.2, bins=8, loss=Loss(lambda x: abs(x) ** 0.5, "root"), **ASKED)
    assert dull.lower > 0


@pytest.mark.parametrize("towards", [0.0, 3**1.5, math.inf])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_a_cap_next_to_the_largest_loss_of_a_function(delta, towards):
    cap = math.nextafter(3**1.5, towards)
    asked = {"sensitivity": 1, "range": (0, 3), "integer": True, "cap": cap}
    table = solve_bounded(1.0, delta, loss=lambda x: abs(x) ** 1.5, cache=False, **asked)
    table.verify()
    assert table.largest_conditional_loss <= cap
    assert table.gap <= 1e-3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"range": 4}, r"range \(4\) must be a pair"),
        ({"range": (4, 0)}, r"range \(4.0, 0.0\) must have its low end"),
        ({"range": (1, 1)}, r"range \(1.0, 1.0\) must have"),
        ({"sensitivity": -1}, r"sensitivity \(-1.0\) must be positive"),
        ({"bins": 7}, r"bins \(7\) must divide the sensitivity: 3.5 of them"),
        ({"bins": 1}, r"bins \(1\) must divide"),
        ({"bins": 0}, r"bins \(0\) must be a positive integer"),
        ({"bins": "8"}, r"bins \('8'\) must be a positive integer"),
        ({"bins": 8, "integer": True}, r"bins \(8\) must not be given for integers"),
        ({"prior": [0.5, 0.6]}, "prior must add up to 1"),
        ({"prior": [-1, 2]}, "prior .* negative"),
        ({"gap": 0}, r"gap \(0\) must be positive"),
        ({"method": "magic"}, r"method \('magic'\) must be one of"),
        ({"bins": 400}, r"bins \(400\) makes a programme of 401 x 401 = 160801 weights.* GB"),
        ({"range": (0, 1000), "integer": True}, "of integers.* makes a programme of 1001 x 1001"),
        ({"bins": list(np.linspace(0, 4, 500))}, r"bins \(499 of them\) makes a programme"),
    ],
)
def test_bad_input(changes, words):
    with pytest.raises(ValueError, match=words):
        solve_bounded(1.0, 0.2, **{**ASKED, **changes})


@pytest.mark.slow
def test_a_gap_that_is_not_reached_is_a_warning(monkeypatch):
    monkeypatch.setattr("opendp_optimal.search.bins._MOST_VARIABLES", 100)
    with pytest.warns(GapWarning, match="above the 0.001%"):
        table = solve_bounded(1.0, 0.2, gap=1e-5, **ASKED)
    assert table.gap > 1e-5


def test_progress_and_methods():
    said: list[str] = []
    one = solve_bounded(1.0, 0.2, bins=6, progress=said.append, method="highs", **ASKED)
    other = solve_bounded(1.0, 0.2, bins=6, method="interior", **ASKED)
    assert "mechanism on 6 bins" in said
    assert "bound on 6 bins" in said
    assert one.upper == pytest.approx(other.upper, rel=1e-3)
    assert isinstance(one, BoundedTable)


@pytest.mark.slow
def test_never_worse_than_noise_that_is_the_same_for_all():
    """At little privacy and long ranges, bins are too coarse: plain noise is the best there is."""
    epsilon, length = 10.0, 20
    options = {"sensitivity": 3, "range": (1, 1 + 3 * length), "bins": length, "cache": False}
    table = solve_bounded(epsilon, 0.0, **options)
    # The least loss of noise that is added, by the theorem on staircases.
    staircase = 3 * math.exp(epsilon / 2) / math.expm1(epsilon)
    # Moving releases into the range saves a little of it.
    assert table.lower <= 0.99 * staircase < table.upper < staircase
    assert table.noise is not None
    assert table.delta_at(epsilon) == 0.0
    assert table.loss_at(5.0) == table.largest_conditional_loss > table.upper
    draw = table.releaser()
    draws = [draw(7.0) for _ in range(300)] + [draw(-9.0), draw(1e9), draw(math.nan)]
    assert all(1 <= d <= 1 + 3 * length for d in draws)
    assert np.median(np.abs(np.array(draws[:300]) - 7)) < 0.05
    answers, outputs, chances = table.family()
    assert len(answers) == len(outputs) == len(chances)
    assert chances.sum(axis=1) == pytest.approx(np.ones(len(answers)))
    again = BOUNDED.decode(BOUNDED.encode(table))
    assert again == table
    for change in (
        {"noise": None},
        {"bins": 20, "cells": 1},
        {"upper": table.upper / 2},
        {"noise": replace(table.noise, upper=0.0)},
        {"problem": replace(table.problem, epsilon=9.0)},
        {"problem": replace(table.problem, sensitivity=4.0)},
        {"problem": replace(table.problem, cap=table.upper / 2)},
    ):
        with pytest.raises(CertificateError):
            replace(table, **change).verify()
    # The grid hides the sensitivity and the step by which rounding moves answers apart.
    step = Fraction(2) ** -table.bits
    assert (table.clamped.reach - 1) * step >= 3
    assert table.clamped.reach * step < 3 + Fraction(1, 10**9)
    assert table.apart(Fraction(3)) <= table.clamped.reach


def test_a_cap_that_bins_cannot_keep_may_be_kept_by_plain_noise():
    table = solve_bounded(8.0, 0.0, sensitivity=1, range=(0, 8), bins=8, cap=0.03, cache=False)
    assert table.noise is not None
    assert table.largest_conditional_loss <= 0.03


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"sensitivity": 1e271, "range": (0, 1e272), "loss": "l2"},
            r"range \(0.0, 1e\+272\).*loss",
        ),
        ({"sensitivity": 1e-227, "range": (0, 4e-227), "loss": "l2"}, r"sensitivity \(1e-227\)"),
        ({"sensitivity": 5e-324, "range": (0, 1e-323)}, r"sensitivity \(5e-324\)"),
    ],
)
def test_lengths_that_floats_do_not_hold(changes, words):
    with pytest.raises(ValueError, match=words):
        solve_bounded(1.0, 0.1, cache=False, **changes)


def test_units_far_from_one():
    for units in (1e-227, 1e271):
        table = solve_bounded(
            1.0, 0.2, sensitivity=2 * units, range=(0, 4 * units), bins=4, cache=False
        )
        plain = solve_bounded(1.0, 0.2, bins=4, **ASKED)
        assert table.lower / units == pytest.approx(plain.lower, rel=1e-3)
        assert table.upper / units == pytest.approx(plain.upper, rel=1e-3)


@pytest.mark.parametrize("cap", [10, 1e200])
def test_a_cap_on_costs_that_are_nothing(cap):
    table = solve_bounded(1.0, 0.9, sensitivity=1, range=(0, 1), cap=cap, bins=4, cache=False)
    assert 0 <= table.lower <= table.upper < 0.05
