"""A measurement that draws from a channel's table."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import CertificateError, solve_channel
from opendp_optimal.extend import record_of
from opendp_optimal.measure.channel import make_optimal_channel

dp.enable_features("contrib")

WHOLE = dp.atom_domain(T=int), dp.absolute_distance(T=int)
FAR = [[abs(x - z) for z in range(5)] for x in range(5)]
TABLE = solve_channel([0.2] * 5, FAR, 0.5, FAR)


@pytest.mark.slow
def test_releases_have_the_chances_of_the_rows() -> None:
    meas = make_optimal_channel(*WHOLE, TABLE, lo=10)
    assert [meas.map(d) for d in (0, 1, 2, 4, 9)] == [0.0, 0.5, 1.0, 2.0, 2.0]
    drawn = np.array([meas(99) for _ in range(4000)])
    chances = [float((drawn == y).mean()) for y in range(10, 15)]
    # A false alarm once in 10^12 (Hoeffding): answers beyond the ends count as the last.
    assert np.abs(np.array(chances) - TABLE.channel[-1]).max() < math.sqrt(28 / (2 * 4000))
    assert record_of(meas) != record_of(make_optimal_channel(*WHOLE, TABLE))


def test_what_proves_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="optimum"):
        make_optimal_channel(*WHOLE, "channel")
    neighbours = [
        [0 if x == z else 1 if abs(x - z) == 1 else math.inf for z in range(3)] for x in range(3)
    ]
    loose = solve_channel(
        [0.25, 0.5, 0.25], [row[:3] for row in FAR[:3]], 0.5, neighbours, delta=0.1
    )
    with pytest.raises(ValueError, match="delta"):
        make_optimal_channel(*WHOLE, loose)
    weights = TABLE.weights.copy()
    weights[0] = weights[-1]
    with pytest.raises(CertificateError):
        make_optimal_channel(*WHOLE, dataclasses.replace(TABLE, weights=weights))
