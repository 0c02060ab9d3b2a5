"""What can be asked of data-dependent noise, and what cannot."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.problem.bounded import BoundedProblem


def problem(**changes):
    options = {"epsilon": 1.0, "delta": 0.1, "sensitivity": 2.0, "low": 0.0, "high": 4.0}
    return BoundedProblem(**{**options, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": 0.0}, r"epsilon \(0.0\) must be in"),
        ({"epsilon": "x"}, r"epsilon \('x'\) must be a number"),
        ({"delta": 1.0}, r"delta \(1.0\) must be 0 or in"),
        ({"low": 4.0}, r"range \(4.0, 4.0\) must have its low end below"),
        ({"high": float("inf")}, r"high \(inf\) must be finite"),
        ({"sensitivity": 0.0}, r"sensitivity \(0.0\) must be positive"),
        ({"sensitivity": float("nan")}, r"sensitivity \(nan\) must be finite"),
        ({"prior": (0.5, 0.6)}, r"prior must add up to 1, not to 1.1"),
        ({"prior": (1.5, -0.5)}, r"prior \(1.5, -0.5\) must not be empty or have negative"),
        ({"prior": ()}, r"prior \(\) must not be empty"),
        ({"cap": 0.0}, r"cap \(0.0\) must be positive"),
        ({"edges": (0.0, 2.0, 2.0, 4.0)}, r"bins \(.*\) must rise"),
        ({"edges": (1.0, 4.0)}, r"must rise from the low end"),
        ({"edges": (0.0, 1.0, 4.0), "prior": (1.0,)}, r"must have 2 weights, one for each bin"),
        ({"integer": True, "high": 4.5}, r"high \(4.5\) must be an integer"),
        ({"integer": True, "prior": (1.0,)}, r"must have 5 weights, one for each integer"),
        ({"integer": True, "edges": (0.0, 4.0)}, r"bins must not be given for integer"),
        ({"loss": Loss(abs, "bent", lipschitz=2.0)}, r"loss \(bent\) must not fall"),
    ],
)
def test_bad_arguments_are_named_with_their_value(changes, words):
    with pytest.raises(ValueError, match=words):
        problem(**changes)


def test_a_sensitivity_beyond_the_range_is_the_length_of_the_range():
    assert problem(sensitivity=100.0).reach == 4
    assert problem(sensitivity=3.0).reach == 3


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=9).filter(lambda w: sum(w) > 0.1))
def test_prior_weights_add_up_exactly(weights):
    total = sum(weights)
    asked = problem(prior=tuple(w / total for w in weights))
    assert sum(asked.prior_weights) == 1
    assert sum((b - a) * density for a, b, density in asked.densities()) == 1


def test_descriptions_identify_problems():
    asked = [
        problem(),
        problem(cap=2.0),
        problem(prior=(0.25, 0.75)),
        problem(integer=True),
        problem(edges=(0.0, 1.0, 4.0)),
        problem(sensitivity=1.0),
        problem(loss=loss_of("l2")),
    ]
    assert len({one.fingerprint for one in asked}) == len(asked)
    for one in asked:
        again = BoundedProblem.from_description(one.describe(), one.loss)
        assert again == one
        assert again.fingerprint == one.fingerprint


def test_the_uniform_prior():
    assert problem().prior_weights == [1]
    assert problem(integer=True).prior_weights == [Fraction(1, 5)] * 5
    assert problem(edges=(0.0, 1.0, 4.0)).prior_weights == [Fraction(1, 4), Fraction(3, 4)]
