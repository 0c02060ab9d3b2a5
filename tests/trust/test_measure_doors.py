"""Doors of measurements: defaults, ranges and budgets, at their very edges."""

from __future__ import annotations

import inspect
from fractions import Fraction
from types import SimpleNamespace

import opendp.prelude as dp
import pytest

from opendp_optimal import (
    make_optimal,
    make_optimal_bounded,
    make_optimal_bounded_noise,
    make_optimal_noise,
    then_optimal_bounded_noise,
    then_optimal_noise,
)
from opendp_optimal.measure import bounded, noise
from opendp_optimal.measure import guarantee as design
from opendp_optimal.measure.space import Space, space_of

dp.enable_features("contrib")

WHOLE = dp.atom_domain(T=int), dp.absolute_distance(T=int)


class AskedError(Exception):
    """Raised in place of solving."""


@pytest.fixture
def asked(monkeypatch):
    """What is asked of the solver, in a list; nothing is solved."""
    out = []

    def solve(epsilon, delta, **options):
        out.append({"epsilon": epsilon, "delta": delta, **options})
        raise AskedError

    monkeypatch.setattr(bounded, "solve_bounded", solve)
    return out


def question(asked, ends, d_in=1, **options):
    with pytest.raises(AskedError):
        make_optimal_bounded_noise(*WHOLE, d_in, (1.0, 1e-3), range=ends, **options)
    return asked[-1]


@pytest.mark.parametrize(
    ("ends", "listed"),
    [((0, 64), True), ((0, 65), False), ((10, 74), True), ((10, 75), False), ((-40, 40), False)],
)
def test_short_ranges_have_a_row_for_each_integer(asked, ends, listed):
    assert question(asked, ends)["integer"] is listed


@pytest.mark.parametrize(("d_in", "hidden"), [(1, 1.0), (2, 2.0), (3, 2.0), (100, 2.0)])
def test_no_answer_moves_further_than_the_range_is_long(asked, d_in, hidden):
    assert question(asked, (10, 12), d_in)["sensitivity"] == hidden


def test_bounded_tables_are_solved_to_a_hundredth_and_kept(asked):
    budget = 1, (1.0, 1e-3)
    ways = [
        lambda **options: make_optimal_bounded_noise(*WHOLE, *budget, range=(0, 9), **options),
        lambda **options: WHOLE >> then_optimal_bounded_noise(*budget, range=(0, 9), **options),
        lambda **options: make_optimal_bounded(*WHOLE, range=(0, 9), **options).fix(*budget),
    ]
    for way in ways:
        for options in ({}, {"gap": 0.5, "cache": False}):
            with pytest.raises(AskedError):
                way(**options)
            expected = {"gap": 1e-2, "cache": True, **options}
            assert {name: asked[-1][name] for name in expected} == expected
    for make in (make_optimal_bounded_noise, then_optimal_bounded_noise, make_optimal_bounded):
        assert inspect.signature(make).parameters["gap"].default == 1e-2


def test_tables_are_solved_to_a_thousandth_and_kept(monkeypatch):
    asked = []

    def solve(*given):
        asked.append(given)
        raise AskedError

    monkeypatch.setattr(noise, "solved_once", solve)
    budget = 1, (1.0, 1e-3)
    ways = [
        lambda **options: make_optimal_noise(*WHOLE, *budget, **options),
        lambda **options: WHOLE >> then_optimal_noise(*budget, **options),
        lambda **options: make_optimal(*WHOLE, **options).fix(*budget),
    ]
    for way in ways:
        for options in ({}, {"gap": 0.5, "cache": False}):
            with pytest.raises(AskedError):
                way(**options)
            gap, cache = options.get("gap", 1e-3), options.get("cache", True)
            assert asked[-1] == (1.0, 1e-3, "l1", 1, gap, cache)


def test_noise_that_waits_is_chained_after_what_comes_before_its_own_chain():
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    clamp = space >> dp.t.then_clamp((0, 5))
    total = clamp.output_space >> dp.t.then_sum()
    waiting = clamp >> (total >> make_optimal(*total.output_space, gap=10.0))
    released = waiting.fix(1, (1.0, 0.5))
    assert released.map(1) == (1.0, 0.5)
    assert isinstance(released([1, 100]), int)


def test_group_privacy_rounds_the_largest_exponent_up(monkeypatch):
    asked = []

    def bounds(epsilon):
        asked.append(Fraction(epsilon))
        return exp_bounds(epsilon)

    exp_bounds = design.exp_bounds
    monkeypatch.setattr(design, "exp_bounds", bounds)
    for count in range(2, 30):
        for epsilon in (0.1, 0.3, 0.7, 1.9):
            design._geometric_up(epsilon, count)
            each, all_of_them = asked[-2:]
            assert each == Fraction(epsilon)
            assert all_of_them >= count * each


@pytest.mark.parametrize(("d_in", "beyond"), [(9, False), (10, True), (11, True)])
def test_who_hides_the_whole_range_hides_any_distance(d_in, beyond):
    problem = SimpleNamespace(width=10, reach=4)
    table = SimpleNamespace(
        problem=problem, epsilon=1.0, delta=0.25, apart=int, delta_at=lambda e, n: n / 100
    )
    pair = bounded._privacy_map(Space("i32", "absolute"), table, d_in)
    assert pair(0) == (0.0, 0.0)
    assert pair(3) == (1.0, 0.03)
    assert pair(4) == pair(d_in) == (1.0, 0.25)
    if beyond:
        assert pair(20) == (1.0, 0.25)
    else:
        with pytest.raises(ValueError, match="designed for"):
            pair(20)


def test_what_only_looks_like_a_space_is_refused():
    domain, metric = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    assert space_of(domain, metric) == Space("f64", "absolute")
    with pytest.raises(ValueError, match="must be an OpenDP domain"):
        space_of(str(domain), metric)
    with pytest.raises(ValueError, match="must be an OpenDP metric"):
        space_of(domain, str(metric))
