import pytest

from opendp_optimal.losses.base import loss_of
from opendp_optimal.problem.noise import NoiseProblem


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"epsilon": 0.0}, r"epsilon \(0"),
        ({"epsilon": -1.0}, r"epsilon \(-1"),
        ({"epsilon": float("inf")}, r"epsilon \(inf"),
        ({"epsilon": float("nan")}, r"epsilon \(nan"),
        ({"epsilon": "one"}, r"epsilon \('one'"),
        ({"epsilon": True}, r"epsilon \("),
        ({"delta": 1.0}, r"delta \(1"),
        ({"delta": -1e-9}, r"delta \(-1e-09"),
        ({"delta": float("nan")}, r"delta \(nan"),
        ({"integer_sensitivity": 0}, r"integer_sensitivity \(0"),
        ({"integer_sensitivity": 1.5}, r"integer_sensitivity \(1.5"),
        ({"support": -1.0}, r"support \(-1"),
        ({"support": float("inf")}, r"support \(inf"),
        ({"support": 0.5}, r"support \(0.5\) must be larger"),
        ({"impossible": 0.2}, r"impossible \(0.2"),
        ({"delta": 0.0, "monotone": True}, r"delta \(0\)"),
    ],
)
def test_bad_arguments_are_named(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        NoiseProblem(**{"epsilon": 1.0, "delta": 0.1, **change})


def test_fingerprints_tell_problems_apart():
    base = {"epsilon": 1.0, "delta": 0.1}
    variants = [
        {},
        {"epsilon": 1.0000000000000002},
        {"delta": 0.2},
        {"loss": loss_of("l2")},
        {"loss": loss_of("pinball:0.9")},
        {"loss": loss_of(lambda x: abs(x) ** 1.5)},
        {"loss": loss_of(lambda x: abs(x) ** 1.6)},
        {"integer_sensitivity": 1},
        {"symmetric": True},
        {"monotone": True},
        {"support": 4.0},
        {"impossible": 0.05},
    ]
    prints = [NoiseProblem(**{**base, **change}).fingerprint for change in variants]
    assert len(set(prints)) == len(prints)
    assert NoiseProblem(**base).fingerprint == prints[0]
