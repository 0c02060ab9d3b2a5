"""Algorithm 1 on a device, and filters where they are passed on: no price is believed."""

import math
from fractions import Fraction

import opendp.prelude as dp
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from opendp.mod import OpenDPException

from opendp_optimal.extend import float_down
from opendp_optimal_geo import (
    ApproxGpFilter,
    CgpFilter,
    Curator,
    Filter,
    GaussianFilter,
    GpFilter,
    LocalProtocol,
    Status,
    approximate_loss,
    filter_context,
    then_grid_gaussian,
)

WHOLE = dp.atom_domain(T=int), dp.absolute_distance(T=int)


def user_with(budget, data=5, **options):
    return LocalProtocol(budget, data, space=WHOLE, **options)


def costing(price, pure=False, function=lambda x: x):
    """A measurement of a loss that is proportional to the distance, or its square."""
    price = Fraction(price)
    notion = dp.max_divergence() if pure else dp.zero_concentrated_divergence()

    def privacy_map(d_in):
        return float(price * (d_in if pure else d_in**2))

    return dp.m.make_user_measurement(*WHOLE, notion, function, privacy_map)


def test_prices_are_those_of_the_map():
    """Of OpenDP's own noise, and of noise of this package, at whatever distance."""
    for d_in in (1, 3):
        user = user_with(GpFilter(1.0), d_in=d_in)
        assert user.ask(WHOLE >> dp.m.then_laplace(scale=4.0)).status is Status.CONT
        assert user.filter.total == Fraction(1, 4)
        user = user_with(CgpFilter(1.0), d_in=d_in)
        assert user.ask(WHOLE >> dp.m.then_gaussian(scale=2.0)).status is Status.CONT
        assert user.filter.total == pytest.approx(Fraction(1, 8))
        user = user_with(GaussianFilter(1.0, delta=1e-6, reach=3.0), d_in=d_in)
        assert user.ask(WHOLE >> then_grid_gaussian(rho=2.0**-13)).status is Status.CONT
        assert user.filter.total == pytest.approx(Fraction(1, 8192))


def test_what_cannot_be_priced_is_refused():
    user = user_with(CgpFilter(1.0))
    other = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    for wrong in (
        lambda x: x,
        None,
        WHOLE >> dp.m.then_laplace(scale=1.0),  # another notion of privacy
        other >> dp.m.then_gaussian(scale=1.0),  # other data
    ):
        with pytest.raises(ValueError, match="query"):
            user.ask(wrong)
    with pytest.raises(ValueError, match="grid_gaussian"):
        user_with(GaussianFilter(1.0, delta=1e-6, reach=1.0)).ask(
            WHOLE >> dp.m.then_gaussian(scale=1.0)
        )
    for price in (-1.0, 1e308):  # less than nothing, and beyond all numbers
        with pytest.raises((ValueError, OpenDPException)):
            user_with(CgpFilter(1.0), d_in=10**9).ask(costing(price))
    assert user.filter.total == 0
    assert user.status is Status.CONT


def test_filters_of_users_are_fresh_and_reach():
    spent = CgpFilter(1.0)
    spent.charge(0.5)
    for wrong, options in (
        (spent, {}),
        (Filter(1.0), {}),
        (1.0, {}),
        (ApproxGpFilter(1.0, delta=1e-6, reach=0.5), {}),
        (ApproxGpFilter(1.0, delta=1e-6, reach=2.0), {"d_in": 3}),
        (CgpFilter(1.0), {"d_in": 0}),
        (CgpFilter(1.0), {"d_in": math.inf}),
    ):
        with pytest.raises(ValueError, match=r"budget|d_in"):
            user_with(wrong, **options)
    for space in (None, WHOLE[0], (WHOLE[1], WHOLE[0]), ()):
        with pytest.raises(ValueError, match="space"):
            LocalProtocol(CgpFilter(1.0), 5, space=space)


def test_charged_before_running():
    user = user_with(CgpFilter(1.0))
    with pytest.raises(OpenDPException):
        user.ask(costing(0.75, function=lambda x: 1 // 0))
    assert user.filter.total == Fraction(3, 4)


def test_components():
    user = user_with(CgpFilter(1.0), {"home": 1})
    user.add_component("work", 2)
    assert user.ask(costing(0.5), component="home").answer == 1
    assert user.ask(costing(0.5), component="work").answer == 2
    assert user.ask(costing(1e-9), component="work").status is Status.HALT
    with pytest.raises(ValueError, match="new component"):
        user.add_component("home", 3)
    with pytest.raises(ValueError, match="component"):
        user.ask(costing(0.1), component="gym")
    other = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    user = user_with(CgpFilter(1.0), {"home": 1})
    user.add_component("height", 1.5, space=other)
    assert user.ask(other >> dp.m.then_gaussian(scale=9.0), component="height").answer is not None


@pytest.mark.parametrize("kind", ["spent", "pure", "short", "unknown"])
def test_wrong_filters_are_refused(kind):
    """By the curator, and by contexts behind a filter."""
    wrong = {
        "spent": CgpFilter(1.0),
        "pure": GpFilter(1.0),
        "short": GaussianFilter(1.0, delta=1e-6, reach=0.9),
        "unknown": Filter(1.0),
    }[kind]
    if kind == "spent":
        Curator([1, 2, 3], budget=wrong).threshold(lambda x: x > 1, 0.5, budget=0.25)
    with pytest.raises(ValueError, match="budget"):
        Curator([1, 2, 3], budget=wrong)
    with pytest.raises(ValueError, match="d_out"):
        filter_context(
            [1, 2, 3],
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=(dp.zero_concentrated_divergence(), wrong),
            domain=dp.vector_domain(dp.atom_domain(T=int)),
        )


class Analyst(RuleBasedStateMachine):
    """An adaptive analyst who tries everything against Algorithm 1."""

    @initialize(kind=st.sampled_from(["gp", "cgp", "approx"]), budget=st.floats(1e-6, 1e3))
    def begin(self, kind, budget):
        make = {
            "gp": lambda: GpFilter(budget),
            "cgp": lambda: CgpFilter(budget),
            "approx": lambda: ApproxGpFilter(budget, delta=1e-6, reach=2.0),
        }
        self.user = user_with(make[kind](), 42, d_in=1)
        self.answered, self.halted = [], False
        self.capacity = self.user.filter.capacity
        self.kind, self.budget = kind, budget

    def ask(self, price):
        before, price = self.user.filter.total, Fraction(float(price))
        status, answer = self.user.ask(costing(price, pure=self.kind == "gp"))
        if self.halted or price == 0:
            assert answer is None
            assert self.user.filter.total == before
        if self.halted:
            assert status is Status.HALT
        elif price > 0:
            fits = before + price <= self.capacity
            assert (answer == 42) == fits == (status is Status.CONT)
            self.halted = not fits
            if fits:
                self.answered.append(price)

    @rule(share=st.floats(1e-9, 1.5))
    def ask_a_share_of_what_is_left(self, share):
        self.ask(float(self.user.filter.remaining) * share)

    @rule()
    def ask_for_the_rest(self):
        self.ask(float_down(self.user.filter.remaining))

    @rule(price=st.floats(0.0, 1e4))
    def ask_anything(self, price):
        self.ask(price)

    @rule()
    def ask_for_free(self):
        self.ask(0.0)

    @rule(tiny=st.floats(1e-300, 1e-200))
    def ask_for_next_to_nothing(self, tiny):
        self.ask(tiny)

    @invariant()
    def within_budget(self):
        if not hasattr(self, "user"):
            return
        total = sum(self.answered, Fraction(0))
        assert total == self.user.filter.total <= self.capacity
        if self.kind in ("gp", "cgp"):
            assert total <= Fraction(self.budget)
        else:
            assert approximate_loss(total, delta=1e-6, reach=2.0) <= self.budget


TestAnalyst = Analyst.TestCase
TestAnalyst.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
