"""What the plugin proposes to the advisor."""

from decimal import Decimal, localcontext

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import advise
from opendp_optimal.extend import Bound, Candidate, Request
from opendp_optimal.losses.base import loss_of
from opendp_optimal.plugins import load
from opendp_optimal_bayes.candidates import within_bounds


def proposed(**asked):
    found = list(within_bounds(Request(**asked)))
    return {c.name: c for c in found if isinstance(c, Candidate)}, [
        b for b in found if isinstance(b, Bound)
    ]


def test_the_host_knows_them():
    assert load().candidates["within_bounds"].distribution == "opendp-optimal-bayes"
    assert "bayes" in load().commands
    assert {"bounded_geometric", "bounded_laplace"} <= set(load().mechanisms)


def test_nothing_without_bounds():
    assert proposed(epsilon=1.0) == ({}, [])


def test_many_counts_are_a_table():
    asked = {"epsilon": 20.0, "integer": True}
    told = [item.text for item in within_bounds(Request(**asked, releases=50))]
    assert ["posterior(released, noise)" in text for text in told] == [True]
    assert list(within_bounds(Request(**asked, releases=2))) == []


def test_a_remap_never_hurts():
    found, _ = proposed(epsilon=0.3, delta=1e-3, integer=True, bounds=(0, 15))
    assert len(found) == 6
    for name in ("bounded geometric", "clamped gaussian", "clamped table"):
        assert found[f"{name} + remap"].loss <= found[name].loss


def test_real_answers_and_priors():
    flat, _ = proposed(epsilon=1.0, delta=1e-3, bounds=(0.0, 3.0))
    known, _ = proposed(epsilon=1.0, delta=1e-3, bounds=(0.0, 3.0), prior=(0.1, 0.8, 0.1))
    assert flat.keys() == known.keys()
    assert known["bounded laplace + remap"].loss < flat["bounded laplace + remap"].loss


@pytest.mark.slow
def test_small_noise_on_a_long_range_is_left_alone():
    assert proposed(epsilon=5.0, bounds=(0.0, 1000.0)) == ({}, [])
    assert proposed(epsilon=5.0, integer=True, bounds=(0, 10**6)) == ({}, [])


@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_the_theorem_agrees_with_the_certified_bound(loss):
    advice = advise(epsilon=0.4, integer=True, bounds=(0, 20), loss=loss)
    by_theorem, certified = (
        max(b.value for b in advice.bounds if b.by == by and not b.additive)
        for by in ("opendp-optimal-bayes", "opendp-optimal")
    )
    assert certified == pytest.approx(by_theorem, rel=1e-4)


@pytest.mark.slow
def test_losses_of_the_calls(integers):
    dp.enable_features("contrib")
    request = Request(epsilon=0.5, delta=1e-2, integer=True, bounds=(0, 6))
    rng = np.random.default_rng(0)
    for candidate in within_bounds(request):
        assert isinstance(candidate, Candidate)
        meas = candidate.make(*integers)
        errors = np.array([abs(meas(x) - x) for x in rng.integers(0, 7, 1500).tolist()])
        # Six standard errors: false alarms once in a hundred million runs.
        assert abs(errors.mean() - candidate.loss) <= 6 * errors.std() / np.sqrt(1500)


@pytest.mark.parametrize("loss", ["l1", "l2"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 24.0, 28.0, 32.0])
def test_the_bound_by_the_theorem_is_below_the_exact_optimum(epsilon, loss):
    prior = (0.5, 0.125, 0.0, 0.25, 0.125)
    with localcontext(prec=60):
        decay = (-Decimal(epsilon)).exp()
        exact = Decimal(0)
        for y in range(5):
            share = (1 if y in (0, 4) else 1 - decay) / (1 + decay)
            chances = [Decimal(p) * share * decay ** abs(x - y) for x, p in enumerate(prior)]
            power = 1 if loss == "l1" else 2
            exact += min(
                sum(c * abs(x - d) ** power for x, c in enumerate(chances)) for d in range(5)
            )
        request = Request(
            epsilon=epsilon, integer=True, bounds=(0, 4), loss=loss_of(loss), prior=prior
        )
        found = list(within_bounds(request))
        (bound,) = [item for item in found if isinstance(item, Bound)]
        assert exact * (1 - Decimal("2e-9")) <= Decimal(bound.value) <= exact
        for candidate in found:
            if isinstance(candidate, Candidate):
                assert candidate.loss >= bound.value
