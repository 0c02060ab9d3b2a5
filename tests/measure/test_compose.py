"""Tight composition: never better than the truth, never worse than adding up."""

import math

import opendp.prelude as dp
import pytest

pytest.importorskip("dp_accounting")

from dp_accounting.pld import privacy_loss_distribution as pld

import opendp_optimal
from opendp_optimal import compose, make_optimal_noise, then_optimal_noise
from opendp_optimal.table import NoiseTable

dp.enable_features("contrib")

SPACE = dp.atom_domain(T=int), dp.absolute_distance(T=int)


@pytest.fixture(scope="module")
def integer_table() -> NoiseTable:
    return opendp_optimal.solve(epsilon=0.5, delta=1e-4, integer_sensitivity=1)


def exact_pair(table: NoiseTable) -> object:
    """The distribution of the privacy loss of an integer table at shift 1, without any rounding."""
    total = float(table.total)
    mass = {i - table.radius: int(w) / total for i, w in enumerate(table.weights) if w}
    lower = {k: math.log(v) for k, v in mass.items()}
    upper = {k + 1: math.log(v) for k, v in mass.items()}
    return pld.from_two_probability_mass_functions(
        lower, upper, pessimistic_estimate=False, value_discretization_interval=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 8, 32])
def test_between_the_truth_and_adding_up(integer_table: NoiseTable, count: int) -> None:
    truth = exact_pair(integer_table).self_compose(count)  # type: ignore[attr-defined]
    for epsilon in (0.2, 0.5, 1.0, 3.0):
        _, delta = compose([integer_table] * count, epsilon=epsilon)
        assert delta >= truth.get_delta_for_epsilon(epsilon) * (1 - 1e-6) - 1e-12
        assert delta <= 1.0
    total = count * 1e-4
    epsilon, _ = compose([integer_table] * count, delta=total)
    assert epsilon <= count * 0.5
    assert epsilon >= truth.get_epsilon_for_delta(total) - 1e-3
    assert epsilon <= truth.get_epsilon_for_delta(total) * 1.05 + 1e-3


def test_many_releases_gain() -> None:
    table = opendp_optimal.solve(epsilon=0.1, delta=1e-7)
    epsilon, delta = compose([table] * 100, delta=1e-4)
    assert delta == 1e-4
    assert epsilon < 0.6 * 100 * 0.1


@pytest.mark.slow
def test_measurements_chains_and_natives() -> None:
    meas = make_optimal_noise(*SPACE, 2, (0.5, 1e-6))
    table = meas.table
    assert compose([meas] * 4, delta=1e-5) == compose([table] * 4, delta=1e-5)
    half, _ = compose([meas] * 4, delta=1e-5, d_in=1)
    assert half < compose([meas] * 4, delta=1e-5)[0]
    vectors = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    count = vectors >> dp.t.then_count() >> then_optimal_noise(2, (0.5, 1e-6))
    assert compose([count] * 4, delta=1e-5, d_in=1)[0] == pytest.approx(half)
    native = vectors >> dp.t.then_count() >> dp.m.then_laplace(scale=10.0)
    mixed, _ = compose([count] * 4 + [native] * 4, delta=1e-5, d_in=1)
    assert half < mixed <= half + 4 * 0.1 + 1e-3
    approximate = dp.c.make_approximate(native)
    assert compose([approximate], delta=1e-5, d_in=1)[0] <= 0.1 + 1e-9


def test_vector_measurements_count_with_their_argument() -> None:
    counts = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    group = make_optimal_noise(*counts, 3, (0.6, 1e-5))
    epsilon, _ = compose([group], delta=1e-5)
    assert epsilon <= 0.6
    assert compose([group] * 2, delta=2e-5)[0] <= 1.2


def test_nothing_costs_nothing() -> None:
    assert compose([], delta=1e-6) == (0.0, 1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "one of delta"),
        ({"delta": 0.1, "epsilon": 1.0}, "one of delta"),
        ({"delta": -0.1}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"epsilon": -1.0}, "epsilon"),
    ],
)
def test_bad_totals(options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compose([], **options)


def test_what_cannot_be_priced() -> None:
    laplace = dp.m.make_laplace(*SPACE, scale=1.0)
    with pytest.raises(ValueError, match="d_in must be given"):
        compose([laplace], delta=1e-6)
    with pytest.raises(ValueError, match="releases"):
        compose(["laplace"], delta=1e-6)  # type: ignore[list-item]
    wide = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    smoothed = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*wide, scale=1.0))
    with pytest.raises(ValueError, match="SmoothedMaxDivergence"):
        compose([smoothed], delta=1e-6, d_in=9.0)


def test_targets_at_their_ends() -> None:
    assert compose([], delta=0.0) == (0.0, 0.0)
    assert compose([], delta=1.0) == (0.0, 1.0)
    assert compose([], epsilon=0.0) == (0.0, 0.0)
    for asked in (
        {"delta": -1e-9},
        {"delta": 1.0 + 1e-9},
        {"delta": 1.5},
        {"delta": math.nan},
        {"epsilon": -1e-9},
        {"epsilon": -math.inf},
        {"epsilon": math.nan},
        {"epsilon": 1.0, "delta": 0.5},
        {},
    ):
        with pytest.raises(ValueError, match=r"delta|epsilon"):
            compose([], **asked)  # type: ignore[arg-type]


def test_a_chain_needs_the_distance_of_its_data() -> None:
    domain = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    count = domain >> dp.t.then_count()
    noise = make_optimal_noise(*count.output_space, 1, (1.0, 0.5), gap=10.0)
    with pytest.raises(ValueError, match="d_in must be given: a measurement is chained"):
        compose([count >> noise], delta=0.5)


CONCENTRATED = dp.zero_concentrated_divergence()
ROWS = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()


def _joint(rho: float) -> dp.Measurement:
    queries = [ROWS >> dp.t.then_clamp((0.0, 9.0)) >> dp.t.then_sum(), ROWS >> dp.t.then_count()]
    return opendp_optimal.make_joint(queries, 1, rho, output_measure=CONCENTRATED)


def _number(rho: float) -> dp.Measurement:
    return make_optimal_noise(*SPACE, 1, rho, output_measure=CONCENTRATED)


def _pair(rho: float) -> dp.Measurement:
    measure = dp.approximate(CONCENTRATED)
    return make_optimal_noise(*SPACE, 1, (rho, 1e-9), output_measure=measure)


@pytest.mark.parametrize("make", [_joint, _number, _pair])
@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5])
def test_concentrated_releases_count_with_their_curves(make: object, rho: float) -> None:
    """Not less than Gaussian noise of this rho loses, which is the best of its kind, nor rho."""
    release, count = make(rho), 30  # type: ignore[operator]
    epsilon, _ = compose([release] * count, delta=1e-6, d_in=1)
    by_rho = count * rho + 2 * math.sqrt(count * rho * math.log(1e6))
    truth = pld.from_gaussian_mechanism(math.sqrt(0.5 / (count * rho)))
    assert truth.get_epsilon_for_delta(1e-6) * (1 - 1e-2) <= epsilon < 0.97 * by_rho
