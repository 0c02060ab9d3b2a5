from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal.certify.noise import TOTAL, delta_units
from opendp_optimal.errors import CertificateError
from opendp_optimal.round.noise import falling, private_weights, round_weights
from opendp_optimal.search.closed import decaying


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=31).filter(lambda v: sum(v) > 1e-6),
    st.floats(0, 0.5),
)
def test_rounded_weights_add_up(values, atom):
    values = values if len(values) % 2 else [*values, 0.0]
    weights, whole = round_weights(np.array(values), atom)
    assert sum(weights.tolist()) + whole == TOTAL
    scale = sum(values) + atom
    off = np.abs(weights / TOTAL - np.array(values) / scale)
    assert off.max() < 1e-12
    assert weights.min() >= 0


def test_a_slight_violation_is_repaired_and_a_large_one_refused():
    reference = decaying(1.0, 4, 40)
    slightly = reference.copy()
    slightly[20] *= 1.0 + 1e-7
    slightly[60] *= 1.0 + 1e-7
    slightly[:4] = slightly[-4:] = 0.01 / 8 / (1 - 0.01)
    slightly /= slightly.sum()
    delta = 0.0101
    weights, atom = private_weights(slightly, 0.0, reference, cells=4, epsilon=1.0, delta=delta)
    assert delta_units(weights, atom, 4, 1.0, Fraction(4)) <= Fraction(delta) * TOTAL
    spiky = np.zeros(81)
    spiky[40] = 1.0
    with pytest.raises(CertificateError, match="too far"):
        private_weights(spiky, 0.0, reference, cells=4, epsilon=1.0, delta=delta)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=21))
def test_falling(values):
    values = np.array(values if len(values) % 2 else values[:-1])
    out = falling(values)
    middle = len(values) // 2
    assert np.all(np.diff(out[middle:]) <= 0)
    assert np.all(np.diff(out[: middle + 1]) >= 0)
    assert np.all(out <= values)
