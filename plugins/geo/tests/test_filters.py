import copy
import math
import os
import pickle
from fractions import Fraction

import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from opendp.mod import OpenDPException

from opendp_optimal.extend import float_down
from opendp_optimal_geo import (
    ApproxGpFilter,
    BudgetError,
    CgpFilter,
    Curator,
    Filter,
    GaussianFilter,
    GpFilter,
    LocalProtocol,
    Status,
    approximate_loss,
    filter_context,
    gaussian_delta,
    simple_loss,
    then_grid_gaussian,
)

budgets = st.floats(1e-6, 1e3)
deltas = st.floats(1e-12, 0.99)
reaches = st.floats(1e-2, 1e4)


@given(budgets, st.lists(st.floats(0.0, 1e3), max_size=30))
def test_the_sum_never_passes_the_budget(budget, prices):
    f = CgpFilter(budget)
    passed = [p for p in prices if f.charge(p)]
    assert sum(map(Fraction, passed)) == f.total <= Fraction(budget)


def test_a_thousand_tenths_are_not_a_hundred():
    """Floats sum 0.1 ten times to 0.9999999999999999, and would let an eleventh through."""
    f = GpFilter(1.0)
    assert sum([0.1] * 10) < 1.0
    assert [f.charge(0.1) for _ in range(10)] == [True] * 9 + [False]


@given(budgets, deltas, reaches)
@pytest.mark.slow
def test_equation_10_against_brute_force(budget, delta, reach):
    f = ApproxGpFilter(budget, delta=delta, reach=reach)
    total = float(f.capacity)
    assert approximate_loss(total, delta=delta, reach=reach) <= budget
    best = math.inf
    for k in range(1, 400):  # only where (s + 1) delta < 2
        s = 1.0 + (2.0 / delta - 2.0) ** (k / 200 - 1.0 if delta < 0.5 else 1.0) * (k / 400)
        if (s + 1.0) * delta < 2.0:
            first = s / (s - 1.0) * 2.0 * math.sqrt(total * math.log(2.0 / ((s + 1.0) * delta)))
            best = min(best, max(first, s * reach * total))
    assert approximate_loss(total, delta=delta, reach=reach) <= best * (1.0 + 1e-9)


@given(budgets, st.floats(1e-12, 0.3), reaches, st.floats(0.01, 1.0))
@pytest.mark.slow
def test_equation_10_holds_for_gaussian_noise(budget, delta, reach, part):
    """Gaussian noise is CGP: its exact delta must be below, at every distance."""
    total = float(ApproxGpFilter(budget, delta=delta, reach=reach).capacity)
    assert gaussian_delta(budget, total, distance=part * reach) <= delta


@given(budgets, st.floats(1e-12, 0.3), reaches)
@pytest.mark.slow
def test_the_exact_curve_is_tighter(budget, delta, reach):
    loose = ApproxGpFilter(budget, delta=delta, reach=reach)
    tight = GaussianFilter(budget, delta=delta, reach=reach)
    assert tight.capacity >= loose.capacity
    assert gaussian_delta(budget, float(tight.capacity), distance=reach) <= delta


def test_equation_10_leaves_a_factor_of_delta_unused():
    total = float(ApproxGpFilter(1.0, delta=1e-6, reach=1.0).capacity)
    assert gaussian_delta(1.0, total, distance=1.0) < 1e-6 / 5


@given(st.floats(1e-3, 10.0), st.floats(1e-6, 10.0), st.floats(1e-2, 10.0), st.floats(1e-2, 10.0))
def test_delta_rises_with_the_distance(epsilon, total, one, other):
    near, far = sorted((one, other))
    low = gaussian_delta(epsilon, total, distance=near)
    assert low <= gaussian_delta(epsilon, total, distance=far) + 1e-12


def test_gaussian_filter_is_for_gaussian_noise():
    f = GaussianFilter(1.0, delta=1e-6, reach=1.0)
    with pytest.raises(ValueError, match="gaussian"):
        f.charge(1e-6)
    assert f.charge(1e-6, gaussian=True)


@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan, "1", None, True])
def test_bad_budgets(bad):
    for make in (GpFilter, CgpFilter):
        with pytest.raises(ValueError, match="budget"):
            make(bad)
    with pytest.raises(ValueError, match="budget"):
        ApproxGpFilter(bad, delta=1e-6, reach=1.0)
    with pytest.raises(ValueError, match="reach"):
        GaussianFilter(1.0, delta=1e-6, reach=bad)
    with pytest.raises(ValueError, match="delta"):
        GaussianFilter(1.0, delta=bad if bad is not True else 2.0, reach=1.0)


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


def test_filters_stay_in_their_process_and_are_not_copied():
    kept = CgpFilter(1.0)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="spent twice"):
            copied(kept)
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            kept.charge(0.5)
        except BudgetError:
            os.write(tell, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(tell)
    assert os.read(told, 100) == b"refused"
    os.close(told)
    assert kept.total == 0


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

    @initialize(kind=st.sampled_from(["gp", "cgp", "approx"]), budget=budgets)
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


def test_corollary_4_2_uses_the_total():
    """Printed with rho, which is the price of one mechanism, in place of B, the sum."""
    price, mechanisms, delta = 0.01, 4, 1e-6
    f = CgpFilter(price * mechanisms)
    for _ in range(mechanisms):
        f.charge(price)
    total = float(f.total)
    claimed = simple_loss(f.total, delta=delta, reach=1.0)
    printed = total + 2.0 * math.sqrt(price * math.log(1.0 / delta))
    assert gaussian_delta(claimed, total, distance=1.0) <= delta
    assert gaussian_delta(printed, total, distance=1.0) > delta  # the misprint is not private


def test_equation_10_stays_where_the_logarithm_is_positive():
    """Printed for all s > 1; from (s + 1) delta = 2 on the logarithm is negative."""
    delta, total = 0.9, 0.3
    s = 2.0 / delta - 1.0 + 0.5
    with pytest.raises(ValueError, match=r"domain|nonnegative"):
        math.sqrt(total * math.log(2.0 / ((s + 1.0) * delta)))
    loss = approximate_loss(total, delta=delta, reach=1.0)
    assert 0.0 < loss <= (2.0 / delta - 1.0) * total


@pytest.mark.parametrize(
    ("epsilon", "total", "distance"),
    [(1.0, 0.5, 1.0), (1e-6, 3e-14, 1.0), (2.0, 0.02, 1.0), (0.1, 5.0, 9.0), (3.0, 1.0, 0.7)],
)
def test_gaussian_delta_against_integration(epsilon, total, distance):
    """The hockey-stick divergence itself, as an integral over the releases."""
    from scipy.integrate import quad

    sigma = math.sqrt(0.5 / total)
    m = distance / sigma

    def excess(x):
        log_ratio = m * x + 0.5 * m * m - epsilon * distance  # at a release x scales above its mean
        return math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) * -math.expm1(-log_ratio)

    start = epsilon * sigma - 0.5 * m
    value, _ = quad(excess, start, start + 40.0, epsabs=0.0, epsrel=1e-12, limit=500)
    assert gaussian_delta(epsilon, total, distance=distance) == pytest.approx(value, rel=1e-9)
