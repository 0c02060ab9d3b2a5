"""The theorems on random priors and losses."""

import math

import numpy as np
import pytest

from docs.reproduce.fernandes.trials import (
    illegal_trial,
    laplace_excesses,
    legal_loss,
    random_trials,
)
from opendp_optimal_bayes import is_legal


def test_geometric_is_optimal_for_every_prior_and_legal_loss():
    trials = list(random_trials(24, largest=30, seed=3))
    assert max(t.n for t in trials) >= 25
    for t in trials:
        assert t.gap < 1e-6
        # Above the certified bound, and not above the best channel.
        assert t.lower * (1 - 1e-12) <= t.geometric <= t.upper * (1 + 1e-9)


def test_random_losses_are_legal():
    assert is_legal(legal_loss(np.random.default_rng(0), 9))


def test_geometric_is_not_optimal_for_a_loss_that_is_not_legal():
    t = illegal_trial()
    assert t.geometric > 1.19 * t.upper
    # Randomised response on the parity, which is 1 step away from everything.
    assert t.upper == pytest.approx(1 / (1 + math.e), rel=1e-6)


def test_theorem_14():
    found = list(laplace_excesses(20, seed=5))
    assert all(-1e-15 <= e.measured <= e.bound for e in found)  # but for rounding
    assert max(e.ratio for e in found) < 0.05  # far from tight


def test_bad_counts_are_named():
    with pytest.raises(ValueError, match=r"count \(0\) must be at least 1"):
        list(random_trials(0))
