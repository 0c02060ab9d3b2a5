"""Known mechanisms: printed numbers, laws, and independent implementations."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.optimize import minimize_scalar

from opendp_optimal import known
from opendp_optimal.known import (
    INTEGER_NAMES,
    NAMES,
    REAL_NAMES,
    Canonical,
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Tabulated,
    cdf,
    classical_gaussian_sigma,
    expected_loss,
    gaussian_delta,
    gaussian_sigma,
    law_named,
    truncated_laplace_radius,
)
from opendp_optimal.losses.base import Loss, loss_of
from tests.strategies import examples

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "seed_tables.json").read_text())

# Expected |noise| at sensitivity 1, four decimals, from the orientation table for this work.
COLUMNS = ("laplace", "analytic_gaussian", "truncated_laplace", "staircase", "tulap")
ORIENTATION = {
    (1.0, 0.2): (1.0, 0.6670, 0.6120, 0.9595, 0.5787),
    (1.0, 0.1): (1.0, None, 0.7368, 0.9595, 0.7044),
    (5.0, 0.25): (0.2, 0.2830, 0.1961, 0.0826, 0.2563),
    (0.2, 0.05): (5.0, 2.6543, 2.3633, 4.9917, 2.3550),
    (1.0, 1e-6): (1.0, 3.3708, 1.0, 0.95952, 0.9664),
    (3.0, 1e-5): (0.3333, 1.1095, 0.3333, 0.23482, 0.3261),
}

epsilons = st.floats(1e-3, 20.0)
deltas = st.floats(1e-12, 0.99)
losses = st.sampled_from(["l1", "l2"])


@pytest.mark.parametrize("pair", ORIENTATION)
def test_orientation_table(pair: tuple[float, float]) -> None:
    for name, value in zip(COLUMNS, ORIENTATION[pair], strict=True):
        if value is not None:
            assert expected_loss(name, *pair) == pytest.approx(value, abs=6e-5), name


@pytest.mark.parametrize("row", GOLDEN["example_1"]["standard_deviation"])
def test_example_1(row: dict[str, object]) -> None:
    name, epsilon, delta = row["mechanism"], float(row["epsilon"]), float(row["delta"])
    sensitivity = 70000 / 194 if row["sensitivity"] == "exact" else 360.0
    if name == "optimal":
        assert row["value"] < 360 * math.sqrt(
            min(expected_loss(n, 1, 0.2, "l2") for n in REAL_NAMES)
        )
        return
    if name == "classical_gaussian":  # outside its proven range, so expected_loss declines
        assert expected_loss(name, epsilon, delta, "l2") == math.inf
        deviation = classical_gaussian_sigma(epsilon, delta)
    else:
        deviation = math.sqrt(expected_loss(name, epsilon, delta, "l2"))
    assert sensitivity * deviation == pytest.approx(row["value"], abs=0.005)


@given(epsilons, deltas, losses)
def test_all_positive_and_finite(epsilon: float, delta: float, loss: str) -> None:
    for name in NAMES:
        value = expected_loss(name, epsilon, delta, loss)
        assert value > 0.0
        assert value < math.inf or (name == "classical_gaussian" and epsilon >= 1.0)


@given(epsilons, deltas, st.floats(1.0, 1.5), losses)
def test_weaker_privacy_never_costs_more(e: float, d: float, factor: float, loss: str) -> None:
    for name in NAMES:
        value = expected_loss(name, e, d, loss) * (1 + 1e-9)
        assert expected_loss(name, e, min(d * factor, 0.99), loss) <= value, name
        # Tulap keeps its unit steps however large epsilon is, truncated Laplace is meant for
        # delta < 1/2: neither is monotone beyond, which is a property of theirs and not a slip.
        monotone = name != "tulap" and (name != "truncated_laplace" or d <= 0.5)
        if monotone and (name != "classical_gaussian" or e * factor < 1.0):
            assert expected_loss(name, e * factor, d, loss) <= value, name


@given(epsilons, deltas, losses)
def test_known_order(epsilon: float, delta: float, loss: str) -> None:
    def value(name: str) -> float:
        return expected_loss(name, epsilon, delta, loss) * (1 - 1e-9)

    assert value("staircase") <= expected_loss("laplace", epsilon, 0.0, loss)
    assert value("truncated_laplace") <= expected_loss("laplace", epsilon, 0.0, loss)
    assert value("discrete_canonical") <= expected_loss("discrete_laplace", epsilon, 0.0, loss)
    assert value("analytic_gaussian") <= expected_loss("classical_gaussian", epsilon, delta, loss)


@pytest.mark.parametrize("name", REAL_NAMES)
@pytest.mark.parametrize("pair", [(1.0, 0.2), (0.3, 1e-3), (5.0, 0.25), (2.0, 0.8), (0.5, 0.0)])
@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_cdf_integrates_to_the_loss_and_is_private(
    name: str, pair: tuple[float, float], loss: str
) -> None:
    epsilon, delta = pair
    if math.isinf(target := expected_loss(name, epsilon, delta, loss)):
        return
    deviation = math.sqrt(expected_loss(name, epsilon, delta, "l2"))
    per_unit, radius = 60, math.ceil(max(40.0 / epsilon, 12.0 * deviation))
    edges = (np.arange(-radius * per_unit, 1) - 0.5) / per_unit
    left = np.diff(np.append(0.0, cdf(name, epsilon, delta, edges, loss=loss)))
    centre = 1.0 - 2.0 * left.sum()
    weights = np.concatenate([left, [centre], left[::-1]])
    assert (weights >= 0.0).all()
    for shift in (1, 7, per_unit // 2, per_unit - 1, per_unit):
        p, moved = np.append(np.zeros(shift), weights), np.append(weights, np.zeros(shift))
        for one, other in ((p, moved), (moved, p)):
            shortfall = np.maximum(one - math.exp(epsilon) * other, 0.0).sum()
            assert shortfall <= delta + 1e-12, shift
    x = np.linspace(0.0, radius, 400_001)
    tail = cdf(name, epsilon, delta, -x, loss=loss)
    tail[0] = 1.0 - cdf(name, epsilon, delta, 0.0, loss=loss)  # cdf(0) includes an atom at 0
    integrand = tail if loss == "l1" else 2.0 * x * tail
    assert 2.0 * trapezoid(integrand, x) == pytest.approx(target, rel=2e-4)


@given(st.floats(1e-3, 20.0), losses)
@settings(max_examples=examples(40))
def test_staircase_step_is_the_minimiser(epsilon: float, loss: str) -> None:
    b, power = math.exp(-epsilon), 1 if loss == "l1" else 2

    def value(gamma: float) -> float:
        height = -math.expm1(-epsilon) / (2 * (gamma + b * (1 - gamma)))
        i = np.arange(math.ceil(45 / epsilon), dtype=float)
        n = power + 1
        flat = ((i + gamma) ** n - i**n) + b * ((i + 1) ** n - (i + gamma) ** n)
        return float(2 * height * (np.exp(-epsilon * i) * flat).sum() / n)

    # The sum of differences of cubes is only good to some digits for small epsilon.
    assert value(loss_of(loss).staircase_step(epsilon)) == pytest.approx(
        expected_loss("staircase", epsilon, 0.0, loss), rel=1e-6
    )
    if epsilon > 0.1:
        best = minimize_scalar(value, bounds=(0.0, 1.0), method="bounded")
        assert best.fun >= expected_loss("staircase", epsilon, 0.0, loss) * (1 - 1e-9)


@given(epsilons, deltas)
def test_discrete_canonical_noise(epsilon: float, delta: float) -> None:
    law = Canonical(epsilon, delta)
    p = law.pmf(law.reach)
    k = np.arange(len(p)) - len(p) // 2
    assert p.sum() == pytest.approx(1.0, rel=1e-12)
    assert (p == p[::-1]).all()
    assert (p * np.abs(k)).sum() == pytest.approx(
        expected_loss("discrete_canonical", epsilon, delta), rel=1e-9
    )
    assert (p * k**2).sum() == pytest.approx(
        expected_loss("discrete_canonical", epsilon, delta, "l2"), rel=1e-9
    )
    shortfall = np.maximum(np.append(p, 0.0) - math.exp(epsilon) * np.append(0.0, p), 0.0).sum()
    assert shortfall == pytest.approx(delta, rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("sensitivity", [1, 3])
def test_discrete_laplace(sensitivity: int) -> None:
    law = Geometric(0.7 / sensitivity)
    p = law.pmf(400)
    k = np.arange(-400, 401)
    assert p.sum() == pytest.approx(1.0)
    for loss, cost in (("l1", np.abs(k)), ("l2", k**2)):
        assert (p * cost).sum() == pytest.approx(law.expected_loss(loss_of(loss)))
    assert (p[:-sensitivity] <= math.exp(0.7) * p[sensitivity:] * (1 + 1e-12)).all()


@given(epsilons, deltas)
def test_analytic_gaussian_is_calibrated(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_delta(sigma, epsilon) <= delta
    assert gaussian_delta(sigma * (1 - 1e-6), epsilon) > delta


def test_small_values_by_series() -> None:
    """Where q = (e**epsilon - 1)/(2 delta) is tiny, textbook forms cancel; compare with series."""
    epsilon, delta = 1e-5, 0.9
    q = math.expm1(epsilon) / (2 * delta)
    l1 = (q / 2 - q**2 / 3 + q**3 / 4) / epsilon
    assert expected_loss("truncated_laplace", epsilon, delta) == pytest.approx(l1, rel=1e-12)
    l2 = (q**2 / 3 - 5 * q**3 / 12) / epsilon**2
    assert expected_loss("truncated_laplace", epsilon, delta, "l2") == pytest.approx(l2, rel=1e-9)
    assert truncated_laplace_radius(epsilon, delta) == pytest.approx(1 / (2 * delta), rel=1e-5)


def test_limit_of_delta_zero() -> None:
    for name in ("truncated_laplace", "tulap", "discrete_canonical"):
        for loss in ("l1", "l2"):
            assert expected_loss(name, 0.7, 1e-13, loss) == pytest.approx(
                expected_loss(name, 0.7, 0.0, loss), rel=1e-9
            )
    for name in ("uniform_bernoulli", "analytic_gaussian", "classical_gaussian"):
        assert expected_loss(name, 0.7, 0.0) == math.inf


@pytest.mark.slow
def test_opendp_canonical_noise_has_this_distribution() -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    noise = dp.m.make_canonical_noise(*space, d_in=1.0, d_out=(1.0, 0.1))
    draws = np.sort([noise(0.0) for _ in range(3000)])
    # Dvoretzky-Kiefer-Wolfowitz with Massart's constant: false alarm at most 1e-9.
    limit = math.sqrt(math.log(2 / 1e-9) / (2 * len(draws)))

    def distance(name: str) -> float:
        expected = cdf(name, 1.0, 0.1, draws)
        ranks = np.arange(len(draws) + 1) / len(draws)
        return float(max(np.abs(expected - ranks[1:]).max(), np.abs(expected - ranks[:-1]).max()))

    assert distance("tulap") < limit
    assert distance("uniform_bernoulli") > limit  # the test can fail


def test_opendp_agrees_on_laplace_accuracy() -> None:
    import opendp.prelude as dp

    for epsilon in (0.1, 1.0, 3.0):
        radius = dp.laplacian_scale_to_accuracy(scale=1 / epsilon, alpha=0.05)
        assert 2 * cdf("laplace", epsilon, 0.0, -radius) == pytest.approx(0.05, rel=1e-9)
        whole = math.ceil(dp.discrete_laplacian_scale_to_accuracy(scale=1 / epsilon, alpha=0.05))
        p = Geometric(epsilon).pmf(2000)
        assert 1 - p[2000 - whole + 1 : 2000 + whole].sum() <= 0.05


@pytest.mark.parametrize("pair", [(1.0, 0.2), (0.1, 1e-6), (5.0, 1e-9)])
def test_dp_accounting_agrees_on_gaussian(pair: tuple[float, float]) -> None:
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import common
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    peer = GaussianPrivacyLoss.from_privacy_guarantee(common.DifferentialPrivacyParameters(*pair))
    assert gaussian_sigma(*pair) == pytest.approx(peer.standard_deviation, rel=1e-4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: expected_loss("laplace", 0.0, 0.1), "epsilon (0.0)"),
        (lambda: expected_loss("laplace", math.nan, 0.1), "epsilon (nan)"),
        (lambda: expected_loss("laplace", math.inf, 0.1), "epsilon (inf)"),
        (lambda: expected_loss("laplace", 1.0, 1.0), "delta (1.0)"),
        (lambda: expected_loss("laplace", 1.0, math.nan), "delta (nan)"),
        (lambda: expected_loss("laplace", 1.0, -0.1), "delta (-0.1)"),
        (lambda: expected_loss("laplace", 1.0, 0.1, "l3"), "loss ('l3')"),
        (lambda: expected_loss("gauss", 1.0, 0.1), "name ('gauss')"),
        (lambda: cdf("discrete_laplace", 1.0, 0.1, 0.0), "name ('discrete_laplace')"),
        (lambda: Canonical(1.0, 0.0).pmf(1), "delta (0.0)"),
        (lambda: gaussian_sigma(1.0, 0.0), "delta (0.0)"),
        (lambda: gaussian_delta(-1.0, 1.0), "sigma (-1.0)"),
        (lambda: gaussian_delta(1.0, -1.0), "epsilon (-1.0)"),
        (lambda: Geometric(1.0).pmf(-1), "radius (-1)"),
        (lambda: Geometric(1.0).quantile(1.0), "chance (1.0)"),
    ],
)
def test_bad_arguments(call: object, words: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are checked below
        call()  # type: ignore[operator]
    assert words in str(caught.value)
    assert "must be" in str(caught.value)


def test_names() -> None:
    assert NAMES == REAL_NAMES + INTEGER_NAMES
    assert set(known.__all__) <= set(dir(known))


LAWS = {
    **{name: law_named(name, 0.7, 0.01) for name in NAMES},
    "discrete_gaussian": DiscreteGaussian(3.0),
    "wide": Gaussian(40.0),
    "table": Tabulated(np.array([0.1, 0.2, 0.4, 0.15, 0.05]), 0.5, 1.0, atom=0.1),
    "integers": Tabulated(np.array([0.1, 0.2, 0.4, 0.3, 0.0]), 1.0, 1.0, integer=True),
}


@pytest.mark.parametrize("name", LAWS)
@given(chance=st.floats(1e-6, 1 - 1e-6))
@settings(max_examples=examples(25))
def test_quantiles_invert_the_cdf(name: str, chance: float) -> None:
    law = LAWS[name]
    x = law.quantile(chance)
    assert law.cdf(x) >= chance
    assert law.cdf(math.nextafter(x, -math.inf)) < chance
    assert x == round(x) or not law.integer


@pytest.mark.parametrize("name", LAWS)
def test_the_expected_loss_is_an_integral_of_the_cdf(name: str) -> None:
    """E c(X) of a loss with slopes 2 above and 1 below 0: integrals of both tails."""
    law = LAWS[name]
    radius = max(abs(law.quantile(1e-9)), 1.0)
    # Off the integers and off the edges of cells, so that jumps are met from their middle.
    x = (np.arange(400_000) + 0.5) / 400_000 * radius
    uneven = 2 * (1 - law.cdf(x)).mean() * radius + law.cdf(-x).mean() * radius
    loss = Loss(lambda z: 2.0 * z if z > 0 else -z)
    assert law.expected_loss(loss) == pytest.approx(uneven, rel=2e-3)
    assert law.expected_loss(loss, 3.0) == pytest.approx(3 * uneven, rel=2e-3)
    both = (1 - law.cdf(x) + law.cdf(-x)).mean() * radius
    assert law.expected_loss(loss_of("l1")) == pytest.approx(both, rel=2e-3)


def test_one_gaussian_delta_for_all() -> None:
    from opendp_optimal.budget import filters

    for sigma, epsilon, distance in ((1.0, 1.0, 1.0), (30.0, 0.01, 2.0), (0.05, 3.0, 0.5)):
        one = filters.gaussian_delta(epsilon, 0.5 / sigma**2, distance=distance)
        assert one == pytest.approx(gaussian_delta(sigma / distance, epsilon * distance))


@pytest.mark.parametrize("scale", [20.0, 300.0])
def test_wide_integers_are_not_listed(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    at = np.arange(0, 6 * scale, scale / 7)
    power = Loss(lambda x: abs(x) ** 1.5)

    def facts() -> list[float]:
        law, other = DiscreteGaussian(scale), Geometric(1 / scale)
        mean = law.expected_loss(power), other.expected_loss(power)
        return [law.moment(1), law.moment(2), *mean, *law.pmf(3), *law.cdf(-at), *law.cdf(at)]

    listed = facts()
    for module in ("known.law", "known.integer"):
        monkeypatch.setattr(f"opendp_optimal.{module}.WIDE", 10.0)
    assert facts() == pytest.approx(listed, rel=3e-5)


@pytest.mark.parametrize("scale", [1e7, 1e15, 1e100])
def test_noise_of_any_width_has_its_facts(scale: float) -> None:
    cost = Loss(lambda x: abs(x) ** 1.5)
    for wide, real in (
        (DiscreteGaussian(scale), Gaussian(1.0)),
        (Geometric(1 / scale), known.Laplace(1.0)),
    ):
        assert wide.moment(1) == pytest.approx(scale * real.moment(1), rel=1e-9)
        assert wide.moment(2) == pytest.approx(scale**2 * real.moment(2), rel=1e-9)
        assert wide.quantile(0.975) == pytest.approx(scale * real.quantile(0.975), rel=1e-6)
        assert wide.expected_loss(cost) == pytest.approx(
            real.expected_loss(cost) * scale**1.5, rel=1e-3
        )
