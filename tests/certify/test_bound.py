"""Weak duality: whatever the prices, no private law costs less than the bound they prove."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import solve
from opendp_optimal.certify.noise import DualCertificate, prove_bound
from opendp_optimal.errors import CertificateError
from opendp_optimal.losses.base import loss_of
from opendp_optimal.table.noise import NoiseTable


@st.composite
def prices(draw, cells=3, radius=6):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mirrored = draw(st.booleans())
    shifts = np.arange(1, cells + 1)
    if not mirrored:
        shifts = np.concatenate([shifts, -shifts])
    budget = rng.integers(0, 1 << 12, len(shifts))
    share = rng.random((len(shifts), 2 * radius + 1))
    return DualCertificate(
        cells=cells,
        shifts=shifts,
        budget=budget,
        slack=(share * budget[:, None]).astype(np.int64),
        mirrored=mirrored,
        order=np.zeros((0, 0), np.int64),
        tail=np.zeros(0, np.int64),
        scale=draw(st.integers(8, 14)),
    )


TABLES = [
    (e, d, solve(e, d, cells=3, cache=False, gap=10.0))
    for e, d in ((0.5, 0.1), (1.0, 0.01), (2.0, 0.3))
]


@pytest.mark.parametrize("target", TABLES, ids=lambda t: f"{t[0]},{t[1]}")
@given(prices())
@settings(max_examples=60)
def test_weak_duality_in_rationals(target, dual):
    epsilon, delta, table = target
    for name in ("l1", "l2"):
        cost = loss_of(name).on_lattice(3, dual.reach)
        bound = prove_bound(dual, cost, epsilon=epsilon, delta=delta)
        assert bound <= Fraction(table.mean_loss(name))


def test_a_price_above_its_budget_is_refused():
    table = TABLES[0][2]
    slack = table.dual.slack.copy()
    row = int(np.argmax(table.dual.budget))
    slack[row, 0] = table.dual.budget[row] + 1
    with pytest.raises(CertificateError, match="above its budget"):
        replace(table.dual, slack=slack).check()


def test_negative_and_misfitting_prices_are_refused():
    dual = TABLES[0][2].dual
    for change in (
        {"budget": -dual.budget},
        {"slack": dual.slack[:, :-1]},
        {"shifts": dual.shifts + dual.cells},
        {"budget": dual.budget[:-1]},
        {"budget": np.full_like(dual.budget, 1 << 61)},
    ):
        with pytest.raises(CertificateError):
            replace(dual, **change).check()


def test_bound_needs_all_points_that_prices_reach():
    _, _, table = TABLES[0]
    short = loss_of("l1").on_lattice(3, table.dual.reach - 1)
    with pytest.raises(CertificateError, match="cover"):
        prove_bound(table.dual, short, epsilon=0.5, delta=0.1)


@pytest.mark.parametrize(
    "asked",
    [
        {"epsilon": 1.0, "delta": 0.1, "monotone": True},
        {"epsilon": 1.0, "delta": 0.1, "monotone": True, "loss": "pinball:0.8"},
        {"epsilon": 1.0, "delta": 0.1, "support": 3.0},
        {"epsilon": 1.0, "delta": 0.1, "support": 3.5, "impossible": 0.05},
    ],
    ids=lambda a: ",".join(k for k in a if k not in ("epsilon", "delta")),
)
def test_options_never_prove_more_than_is_attained(asked):
    """Lower bounds of a coarse lattice stay below upper bounds of a finer one."""
    coarse = solve(**asked, cells=6, gap=10.0, cache=False)
    fine = solve(**asked, cells=17, gap=10.0, cache=False)
    assert coarse.lower <= fine.upper
    assert fine.lower <= coarse.upper
    assert isinstance(coarse, NoiseTable)
