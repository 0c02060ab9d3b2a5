"""A table as a measurement: only where its own guarantee covers what is asked."""

from __future__ import annotations

import dataclasses

import opendp.prelude as dp
import pytest

from opendp_optimal import CertificateError, make_optimal_noise, solve
from opendp_optimal.extend import noise_measurement

dp.enable_features("contrib")

WHOLE = dp.atom_domain(T=int), dp.absolute_distance(T=int)
REAL = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)


def test_the_same_as_optimal_noise() -> None:
    table = solve(1.0, 1e-6)
    meas, other = (
        noise_measurement(*REAL, table, 2.0, (1.0, 1e-6)),
        make_optimal_noise(*REAL, 2.0, (1.0, 1e-6)),
    )
    for d in (0.0, 0.3, 1.0, 2.0):
        assert meas.map(d) == other.map(d)
    assert isinstance(meas(1.0), float)


def test_a_table_that_is_not_private_enough_is_refused() -> None:
    table = solve(1.0, 1e-3)
    for target in ((0.5, 1e-3), (1.0, 1e-6), 1.0):
        with pytest.raises(ValueError, match="private for d_out"):
            noise_measurement(*REAL, table, 1.0, target)
    assert noise_measurement(*REAL, table, 1.0, (2.0, 1e-3)).map(1.0) == (2.0, 1e-3)
    whole = solve(1.0, 1e-3, integer_sensitivity=2)
    assert noise_measurement(*WHOLE, whole, 1, (1.0, 1e-3)).map(1)[0] <= 1.0
    for space, d_in in ((WHOLE, 3), (REAL, 1.0)):
        with pytest.raises(ValueError, match="table"):
            noise_measurement(*space, whole, d_in, (1.0, 1e-3))
    with pytest.raises(ValueError, match="NoiseTable"):
        noise_measurement(*REAL, "table", 1.0, 1.0)  # type: ignore[arg-type]


def test_a_table_that_proves_nothing_is_refused() -> None:
    table = solve(1.0, 1e-3)
    claimed = dataclasses.replace(table.problem, epsilon=0.25)
    with pytest.raises(CertificateError):
        noise_measurement(*REAL, dataclasses.replace(table, problem=claimed), 1.0, (0.25, 1e-3))
