"""The fast exact proofs against the definition, in plain fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal.certify.noise import (
    TOTAL,
    delta_units,
    prove_impossible,
    prove_private,
    prove_shape,
    rises_then_falls,
    shortfalls,
)
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import BITS, exp_bounds


@st.composite
def laws(draw, most=13):
    raw = draw(st.lists(st.integers(0, 10**6), min_size=3, max_size=most).filter(sum))
    if len(raw) % 2 == 0:
        raw.append(draw(st.integers(0, 10**6)))
    weights = np.array([w * TOTAL // (2 * sum(raw)) for w in raw], np.int64)
    atom = draw(st.integers(0, TOTAL // 4))
    weights[len(weights) // 2] += TOTAL - atom - int(weights.sum())
    return weights, atom


def definition(weights, epsilon, shift):
    growth = Fraction(exp_bounds(epsilon)[0], 1 << BITS)
    values = weights.tolist()
    out = []
    for m in (shift, -shift):
        terms = (
            w - growth * (values[i - m] if 0 <= i - m < len(values) else 0)
            for i, w in enumerate(values)
        )
        out.append(sum((t for t in terms if t > 0), Fraction(0)))
    return max(out)


@given(laws(), st.floats(0, 5), st.integers(1, 20))
def test_shortfalls_are_the_definition_rounded_up(law, epsilon, most):
    weights, _ = law
    fast = shortfalls(weights, epsilon, most).tolist()
    assert fast[0] >= 0
    for m in range(1, most + 1):
        exact = definition(weights, epsilon, m)
        assert exact <= fast[m] <= exact + len(weights)


@pytest.mark.slow
@given(laws(), st.floats(0, 3), st.integers(1, 4), st.fractions(Fraction(1, 50), 1))
@settings(max_examples=60)
def test_between_lattice_points(law, epsilon, cells, part):
    """A shift of part of a cell, on a grid that resolves it, by the definition."""
    weights, atom = law
    shift = part * cells
    bound = delta_units(weights, atom, cells, epsilon, shift)
    steps = shift.denominator if shift.denominator % 2 else 2 * shift.denominator
    steps = min(steps, 60)
    growth = Fraction(exp_bounds(epsilon)[0], 1 << BITS)
    fine = [Fraction(w, steps) for w in weights.tolist() for _ in range(steps)]
    moved = math.floor(shift * steps)
    short = Fraction(0)
    for i, mass in enumerate(fine):
        other = fine[i - moved] if i - moved >= 0 else Fraction(0)
        short += max(Fraction(0), mass - growth * other)
    if moved:
        assert short + atom <= bound + len(weights)


def test_accepts_and_refuses_at_the_edge():
    half = TOTAL // 2
    weights = np.array([0, half, half], np.int64)
    assert prove_private(weights, 0, 1, 0.0, 0.5) == 0
    with pytest.raises(CertificateError, match="shortfall"):
        prove_private(weights, 0, 1, 0.0, math.nextafter(0.5, 0))


def test_an_off_by_one_in_the_shifts_would_show():
    """Private for one cell, far from private for two: a check that stops early accepts it."""
    weights = np.zeros(41, np.int64)
    weights[10:30:2] = TOTAL // 20
    weights[11:30:2] = TOTAL // 20
    weights[20] += TOTAL - int(weights.sum())
    one = delta_units(weights, 0, 2, 0.5, Fraction(1))
    two = delta_units(weights, 0, 2, 0.5, Fraction(2))
    assert two > one
    prove_private(weights, 0, 1, 0.5, float(one / TOTAL) * 1.0001)
    with pytest.raises(CertificateError):
        prove_private(weights, 0, 2, 0.5, float(one / TOTAL) * 1.0001)


@pytest.mark.parametrize(
    ("weights", "atom"),
    [
        (np.array([1, TOTAL - 2, 2]), 0),
        (np.array([-1, TOTAL + 1, 0]), 0),
        (np.array([0, TOTAL]), 0),
        (np.array([0, TOTAL + 1, 0]), -1),
        (np.array([0.0, 1.0, 0.0]), 0),
    ],
)
def test_what_is_no_law_is_refused(weights, atom):
    with pytest.raises(CertificateError):
        prove_private(weights, atom, 1, 1.0, 0.99)


def test_shapes():
    flat = np.array([1, 3, 3, 2, 1], np.int64)
    prove_shape(flat, symmetric=False, monotone=True)
    with pytest.raises(CertificateError, match="symmetric"):
        prove_shape(flat, symmetric=True, monotone=False)
    with pytest.raises(CertificateError, match="fall"):
        prove_shape(np.array([1, 3, 2, 3, 1], np.int64), symmetric=True, monotone=True)


def test_impossible_outputs():
    weights = np.array([TOTAL // 8, TOTAL // 4, TOTAL // 4, TOTAL // 4, TOTAL // 8], np.int64)
    prove_impossible(weights, 0, 1, 0.125)
    with pytest.raises(CertificateError, match="impossible"):
        prove_impossible(weights, 0, 2, 0.125)
    with pytest.raises(CertificateError, match="impossible"):
        prove_impossible(weights, 1, 1, 0.125)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=9),
    st.lists(st.integers(0, 30), min_size=0, max_size=9),
    st.sampled_from([1e-4, 0.3, 1.0, 3.0]),
)
@settings(deadline=None)
def test_the_longest_shift_decides_where_weights_rise_and_fall(up, down, epsilon):
    weights = np.array([*sorted(up), *sorted(down, reverse=True)], np.int64) * 10**6
    assert rises_then_falls(weights)
    for law in (weights, weights[::-1]):
        fall = shortfalls(law, epsilon, 12).tolist()
        assert fall == sorted(fall)
        assert shortfalls(law, epsilon, 12, 7).tolist() == fall[7:]


def test_other_weights_do_not_rise_and_fall():
    assert not rises_then_falls(np.array([3, 1, 2]))
    assert not rises_then_falls(np.array([0, 2, 1, 2, 0]))
    # Here a shorter shift is worse than the longest.
    weights = np.array([0, 8, 0, 8, 0], np.int64)
    fall = shortfalls(weights, 0.5, 2).tolist()
    assert fall[1] > fall[2]
