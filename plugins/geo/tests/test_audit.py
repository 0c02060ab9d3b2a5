"""The audit of released looks, and bugs that it catches."""

import numpy as np
import pytest

from opendp_optimal_geo import audit_looks, audit_population, gaussian_power
from opendp_optimal_geo.plan import Look, Plan

CASES = [
    ("cgp", "point", 1e-4),
    ("cgp", "distance", 1e-4),
    ("gp", "point", 0.02),
    ("gp", "distance", 0.02),
]


@pytest.mark.parametrize(("privacy", "method", "price"), CASES)
def test_released_looks_pass(privacy, method, price):
    report = audit_population(100.0, price, privacy=privacy, method=method, draws=20_000)
    assert not report.violated
    if privacy == "cgp":
        assert report.proven > 0.8 * report.claimed  # the audit is not blind


def test_too_little_noise_is_caught(monkeypatch):
    """Planted: the noise is drawn at twice the price that is charged."""
    honest = Plan.rate.func
    monkeypatch.setattr(Plan, "rate", property(lambda plan: 2.0 * honest(plan)))
    assert audit_population(100.0, 1e-4, draws=20_000).violated
    assert audit_population(100.0, 1e-4, method="distance", draws=20_000).violated


def test_charging_only_the_first_look_is_caught(monkeypatch):
    """Planted: every look spends the whole price."""
    honest = Look.rates
    monkeypatch.setattr(Look, "rates", lambda look, price: honest(look, look.plan.allotment))
    assert audit_population(100.0, 1e-4, draws=20_000).violated


def test_bad_arguments():
    with pytest.raises(ValueError, match="first"):
        audit_looks(np.zeros(5), np.zeros(5), claimed=1.0, gaussian=True)
    with pytest.raises(ValueError, match="claimed"):
        audit_looks(np.zeros(50), np.zeros(50), claimed=0.0, gaussian=True)
    with pytest.raises(ValueError, match="distance"):
        audit_population(-1.0, 1e-4)
    with pytest.raises(ValueError, match="privacy"):
        audit_population(1.0, 1e-4, privacy="dp")
    assert gaussian_power(1.0, 0.05) > 0.05
