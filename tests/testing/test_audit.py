"""Lower bounds on delta by drawing, and what they are made of."""

import math
import secrets
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opendp_optimal.testing import AuditResult, audit
from opendp_optimal.testing.bounds import clopper_high, clopper_low
from opendp_optimal.testing.distinguish import features, lowest_bit
from opendp_optimal.testing.repeats import repeats

ALARM = 1e-6


def test_clopper_pearson_is_exact():
    for hits, count in [(0, 50), (1, 50), (25, 50), (50, 50)]:
        low, high = clopper_low(hits, count, 1e-3), clopper_high(hits, count, 1e-3)
        if hits:
            assert stats.binom.sf(hits - 1, count, low) == pytest.approx(1e-3)
        else:
            assert low == 0
        if hits < count:
            assert stats.binom.cdf(hits, count, high) == pytest.approx(1e-3)
        else:
            assert high == 1


def test_the_bound_is_below_the_truth_as_often_as_promised():
    # At a false-alarm rate of 10 % the bound exceeds the true delta in at most 10 % of audits.
    # 200 audits: more than 45 would be a false alarm of this test below 1e-6.
    truth = 0.75 - math.exp(0.5) * 0.25

    def coin(bit):
        return bit if secrets.randbelow(4) else 1 - bit

    too_high = sum(
        audit(coin, 0, 1, 0.5, 0.0, draws=200, alarm=0.1, fork=False).lower > truth
        for _ in range(200)
    )
    assert stats.binom.sf(45, 200, 0.1) < ALARM
    assert too_high <= 45


def test_a_result_is_frozen_and_says_what_was_found():
    found = audit(lambda x: x, "a", "b", 1.0, 0.1, draws=200, fork=False)
    assert isinstance(found, AuditResult)
    assert found.violated
    assert found.lower > 0.4
    assert found.event.startswith("output")
    with pytest.raises(AttributeError):
        found.lower = 0.0


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 1.5}, "delta"),
        ({"draws": 10}, "draws"),
        ({"alarm": 0.0}, "alarm"),
    ],
)
def test_arguments(change, word):
    asked = {"epsilon": 1.0, "delta": 0.1, **change}
    with pytest.raises(ValueError, match=word):
        audit(lambda x: x, 0, 1, **asked)


def test_vectors_ragged_and_missing_values():
    assert set(features([[1.5, 2.0], [3.0, 4.0]]).columns) >= {"value 0", "value 1", "sum"}
    assert features([[1.0], [1.0, 2.0]]).labels is not None
    leak = audit(lambda x: [x, secrets.randbelow(9)], 0, 1, 1.0, 0.1, draws=400, fork=False)
    assert leak.violated
    nothing = audit(lambda x: math.nan if x else math.inf, 0, 1, 1.0, 0.1, draws=400, fork=False)
    assert nothing.violated


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_lowest_bit(value):
    (place,) = lowest_bit(np.array([value])).tolist()
    if value == 0:
        assert place == 2000
    else:
        whole = Fraction(value) / Fraction(2) ** int(place)
        assert whole.denominator == 1
        assert whole.numerator % 2 == 1


@pytest.mark.process
def test_repeats():
    rng = np.random.default_rng(3)
    assert repeats(lambda x: x + rng.normal(), 0.0, ALARM)
    assert not repeats(lambda x: x + secrets.randbelow(100), 0, ALARM)
    assert not repeats(lambda x: x, 0, ALARM)  # nothing random: nothing to say

    def broken(x, calls=[]):  # noqa: B006 (state on purpose)
        calls.append(x)
        if len(calls) > 200:
            raise OSError("no randomness")
        return secrets.randbelow(100)

    with pytest.raises(RuntimeError, match="forked"):
        repeats(broken, 0, ALARM)
