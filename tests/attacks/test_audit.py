"""Audits: every planted bug is found, nothing honest is accused (false alarms below 1e-6)."""

import pytest

from opendp_optimal.testing import audit
from tests.attacks.mechanisms import cases
from tests.attacks.planted import honest, planted

ALARM = 1e-6


def run(mechanism):
    return audit(
        mechanism,
        mechanism.x,
        mechanism.x_prime,
        mechanism.epsilon,
        mechanism.delta,
        draws=mechanism.draws,
        alarm=ALARM,
        batch=mechanism.batch,
        fork=mechanism.fork,
    )


@pytest.mark.parametrize("mechanism", planted(), ids=lambda m: m.name)
def test_planted_bugs_are_caught(mechanism):
    found = run(mechanism)
    assert found.violated, found


@pytest.mark.parametrize("mechanism", honest(), ids=lambda m: m.name)
def test_honest_mechanisms_are_not_accused(mechanism):
    assert not run(mechanism).violated


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.name)
def test_every_measurement_passes_a_short_audit(case):
    found = audit(case.release, case.x, case.x_prime, case.epsilon, case.delta, draws=1000)
    assert not found.violated, found
