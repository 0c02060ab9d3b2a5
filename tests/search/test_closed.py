"""Closed forms as certified tables."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import CertificateError
from opendp_optimal.extend import certified_noise, truncated_laplace
from opendp_optimal.known import expected_loss
from opendp_optimal.testing import independent


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1.0, 0.1), (0.05, 1e-9), (5.0, 0.3), (20.0, 1e-3), (3.0, 1e-14)]
)
def test_truncated_laplace_noise_is_proved_and_has_the_papers_loss(epsilon, delta):
    table = truncated_laplace(epsilon, delta)
    table.verify()
    known = expected_loss("truncated_laplace", epsilon, delta)
    # Where delta is a few thousand units of weights, rounding takes more.
    assert table.upper == pytest.approx(known, rel=5e-3 if delta > 1e-12 else 0.05)
    assert table.lower == 0


@settings(max_examples=25, deadline=None)
@given(
    epsilon=st.floats(0.2, 4.0),
    cells=st.integers(1, 6),
    width=st.integers(3, 8),
    fall=st.floats(0.5, 1.0),
)
def test_what_is_certified_is_close_to_the_masses(epsilon, cells, width, fall):
    """Laws that fall slowly enough, and whose ends are rare enough, are kept up to the repair."""
    points = np.arange(-width * cells, width * cells + 1)
    masses = np.exp(-fall * epsilon * np.abs(points) / cells)
    delta = min(0.9, 1.01 * float(masses[:cells].sum() / masses.sum()))
    table = certified_noise(epsilon, delta, masses, cells=cells)
    table.verify()
    more = table.radius - width * cells
    assert more in (0, cells)
    law = np.pad(masses / masses.sum(), more)
    assert independent.holds(table)
    assert np.abs(table.weights / 2.0**62 - law).max() <= 1e-3


def test_masses_that_are_not_private_are_no_table():
    with pytest.raises(CertificateError, match="masses need a delta"):
        certified_noise(1.0, 0.01, [1, 1, 1], cells=1)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"masses": [1, 2]}, "masses"),
        ({"masses": []}, "masses"),
        ({"masses": [-1, 2, 1]}, "masses"),
        ({"masses": [0.0, 0.0, 0.0]}, "masses"),
        ({"masses": [float("nan"), 1, 1]}, "masses"),
        ({"masses": [10**400, 1, 1]}, "masses"),
        ({"masses": "abc"}, "masses"),
        ({"cells": 0}, r"cells \(0\)"),
        ({"cells": 1.5}, r"cells \(1.5\)"),
        ({"delta": 0}, r"delta \(0\)"),
        ({"epsilon": -1}, r"epsilon \(-1"),
        ({"loss": "nothing"}, "nothing"),
    ],
)
def test_bad_arguments(change, complaint):
    asked = {"epsilon": 1.0, "delta": 0.1, "masses": [1, 2, 1], "cells": 1, **change}
    with pytest.raises(ValueError, match=complaint):
        certified_noise(**asked)
