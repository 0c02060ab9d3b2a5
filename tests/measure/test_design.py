"""The arguments: shares never add up to more than the whole, and no argument means no design."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal.measure.guarantee import design_for
from opendp_optimal.measure.space import Space

epsilons = st.floats(1e-4, 20)
deltas = st.floats(0, 0.9)
counts = st.integers(2, 60)


@given(epsilons, deltas, counts)
def test_composition_stays_within_budget(epsilon: float, delta: float, count: int) -> None:
    design = design_for(Space("f64", "l1"), 1.0, epsilon, delta, changed=count)
    assert design.argument == "composition"
    assert count * Fraction(design.epsilon) <= Fraction(epsilon)
    assert count * Fraction(design.delta) <= Fraction(delta)
    assert count * design.epsilon == pytest.approx(epsilon)
    assert count * design.delta == pytest.approx(delta)


@given(epsilons, deltas, counts)
def test_steps_stay_within_budget(epsilon: float, delta: float, count: int) -> None:
    design = design_for(Space("i32", "l1"), count, epsilon, delta)
    assert (design.argument, design.copies, design.sensitivity) == ("steps", count, 1)
    assert count * Fraction(design.epsilon) <= Fraction(epsilon)
    grown = math.fsum(design.delta * math.exp(i * design.epsilon) for i in range(count))
    assert grown <= delta * (1 + 1e-12)
    assert grown == pytest.approx(delta, rel=1e-9)


@given(epsilons, deltas, counts)
def test_totals_are_rounded_up(epsilon: float, delta: float, count: int) -> None:
    design = design_for(Space("i32", "l1"), count, epsilon, delta)
    total = design.total(design.epsilon, design.delta, count)
    assert total[0] <= epsilon
    assert total[1] <= max(delta, 1e-300) * (1 + 1e-12)
    assert Fraction(total[0]) >= count * Fraction(design.epsilon)


def test_which_argument() -> None:
    def argument(space: Space, d_in: float, changed: int | None = None) -> str:
        return design_for(space, d_in, 1.0, 1e-6, changed).argument

    assert argument(Space("f64", "absolute"), 0.1) == "scalar"
    assert argument(Space("i32", "l1"), 1) == "single"
    assert argument(Space("i32", "l2"), 1.0) == "single"
    assert argument(Space("i32", "l2"), 1.5) == "steps"
    assert argument(Space("i32", "l1"), 7, changed=1) == "single"
    assert argument(Space("i32", "l1", 1), 7) == "single"
    assert argument(Space("u64", "linf", 3), 1) == "composition"
    assert argument(Space("f64", "l1", 3), 1.0) == "composition"
    assert argument(Space("f64", "linf"), 1.0, changed=1) == "single"


@pytest.mark.parametrize(
    ("space", "d_in", "changed", "words"),
    [
        (Space("f64", "l1"), 1.0, None, "changed="),
        (Space("f64", "l2"), 1.0, None, "changed="),
        (Space("i32", "linf"), 1, None, "changed="),
        (Space("f64", "absolute"), 0.0, None, "d_in .*greater than 0"),
        (Space("i32", "absolute"), 0.5, None, "d_in .*at least 1"),
        (Space("i32", "absolute"), -1, None, "d_in"),
        (Space("f64", "absolute"), 1.0, 2, "changed .*scalar"),
        (Space("f64", "l1"), 1.0, 0, "changed"),
        (Space("f64", "l1"), 1.0, 1.5, "changed"),
    ],
)
def test_refused(space: Space, d_in: float, changed: int | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        design_for(space, d_in, 1.0, 1e-6, changed)
