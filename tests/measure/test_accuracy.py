"""Accuracy before spending, through chains, contexts and queries."""

import math

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import (
    accuracy,
    advise,
    improve,
    joint,
    make_optimal_noise,
    solve,
    solve_radial,
    summarize,
    then_optimal_noise,
)

dp.enable_features("contrib", "honest-but-curious")

FLOAT = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
INT = dp.atom_domain(T=int), dp.absolute_distance(T=int)


@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.001])
def test_known_laws(alpha: float) -> None:
    laplace = dp.m.make_laplace(*FLOAT, scale=3.0)
    assert accuracy(laplace, alpha) == pytest.approx(-3 * math.log(alpha))
    gaussian = dp.m.make_gaussian(*FLOAT, scale=2.0)
    assert math.erfc(accuracy(gaussian, alpha) / math.sqrt(8)) == pytest.approx(alpha)
    a = accuracy(dp.m.make_laplace(*INT, scale=4.0), alpha)
    beyond = [2 * math.exp(-(k + 1) / 4) / (1 + math.exp(-1 / 4)) for k in (a, a - 1)]
    assert a == int(a)
    assert beyond[0] <= alpha < beyond[1] or a == 0


@pytest.mark.parametrize(("space", "one"), [(FLOAT, 2.0), (INT, 2)])
@pytest.mark.parametrize("d_out", [1.0, (1.0, 1e-2)])
def test_as_many_errors_as_promised(
    space: tuple[dp.Domain, dp.Metric], one: float, d_out: object
) -> None:
    meas = make_optimal_noise(*space, one, d_out)
    a = accuracy(meas, 0.1)
    errors = np.abs([meas(one) - one for _ in range(4000)])
    beyond, at = (errors > a).mean(), (errors >= a).mean()
    assert beyond < 0.1 + 5 * math.sqrt(0.09 / 4000)
    assert at > 0.1 - 5 * math.sqrt(0.09 / 4000)


def test_chains_vectors_and_queries() -> None:
    data = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0))), dp.symmetric_distance()
    total = data >> dp.t.then_sum()
    chain = total >> then_optimal_noise(total.map(1), (1.0, 1e-6))
    alone = make_optimal_noise(*total.output_space, total.map(1), (1.0, 1e-6))
    assert accuracy(chain) == accuracy(alone)
    words = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    counts = words >> dp.t.then_count_by_categories(["a", "b"])
    assert accuracy(counts >> then_optimal_noise(1, 1.0)) == 3
    context = dp.Context.compositor(
        data=[1.0, 2.0],
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=0.5),
        split_evenly_over=1,
        domain=dp.vector_domain(dp.atom_domain(T=float, nan=False)),
    )
    query = context.query().clamp((0.0, 10.0)).sum().optimal()
    summary = summarize(query)
    assert summary.accuracy == accuracy(query) == pytest.approx(19.6, rel=1e-3)
    assert "gaussian" in str(summary)
    assert "<td>" in summary._repr_html_()
    query.release()  # nothing was spent before


def test_what_has_no_law_says_so() -> None:
    after = make_optimal_noise(*FLOAT, 1.0, 1.0) >> dp.new_function(abs, "f64")
    for wrong in (after, 3, None):
        with pytest.raises(ValueError, match="measurement"):
            accuracy(wrong)
    for alpha in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="alpha"):
            accuracy(dp.m.make_laplace(*FLOAT, scale=1.0), alpha)
    with pytest.raises(ValueError, match="query"):
        summarize(after)


def test_quantiles_and_pictures_of_tables() -> None:
    real, whole = solve(1.0, 1e-6), solve(1.0, 0.0, integer_sensitivity=1)
    assert real.quantile(0.5) == pytest.approx(0.0, abs=1e-9)
    assert real.quantile(0.975) == pytest.approx(-real.quantile(0.025), rel=1e-6)
    assert whole.quantile(0.5) == 0
    assert whole.quantile(0.975) == 3
    assert "upper" in real._repr_html_()
    advice = advise(epsilon=1.0, delta=1e-6)
    assert len(repr(advice)) < 200
    assert advice.best.name in advice._repr_html_()


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("d_out", [2.0, (0.5, 1e-3), (0.01, 1e-6)])
@pytest.mark.parametrize("kind", [float, int])
def test_each_number_of_a_vector(norm: str, d_out: object, kind: type) -> None:
    atom = dp.atom_domain(T=float, nan=False) if kind is float else dp.atom_domain(T=int)
    metric = getattr(dp, f"{norm}_distance")(T=kind)
    meas = make_optimal_noise(dp.vector_domain(atom, size=4), metric, kind(3), d_out)
    drawn = np.abs([meas([kind(0)] * 4) for _ in range(2500)])
    for alpha in (0.5, 0.05):
        far = accuracy(meas, alpha)
        assert (drawn > far).mean() < alpha + 0.035
        assert kind is int or (drawn > far).mean() > alpha - 0.035


def test_tables_for_vectors_have_quantiles() -> None:
    table = solve_radial(1.0, 1e-6, 10, bound=False)
    drawn = table.sample(20_000)
    for p in (0.1, 0.5, 0.975):
        assert abs((drawn <= table.quantile(p)).mean() - p) < 0.01
    whole = solve_radial(1.0, 0.0, 3, norm="linf", integer_sensitivity=2, bound=False)
    drawn = whole.sample(20_000)
    assert (drawn <= whole.quantile(0.9)).mean() >= 0.9 - 0.01
    assert (drawn <= whole.quantile(0.9) - 1).mean() <= 0.9 + 0.01


def test_queries_asked_together() -> None:
    context = dp.Context.compositor(
        data=[1.0, 2.0, 3.0],
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        domain=dp.vector_domain(dp.atom_domain(T=float, nan=False)),
    )
    query = context.query().clamp((0.0, 10.0))
    both = joint(query.sum(), query.count())
    of_sum, of_count = accuracy(both)
    assert 8 < of_sum / of_count < 12
    assert "2 answers" in str(summarize(both))
    assert len(both.release()) == 2


def test_compositions_and_amplified_noise_are_as_accurate_as_their_parts() -> None:
    space = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0)), size=100), dp.symmetric_distance()
    total = space >> dp.t.then_sum()
    one, other = total >> dp.m.then_laplace(10.0), total >> dp.m.then_gaussian(3.0)
    casted = dp.c.make_approximate(one)
    assert accuracy(casted) == accuracy(one)
    amplified = dp.c.make_population_amplification(one, population_size=1000)
    assert accuracy(amplified) == accuracy(one)
    several = dp.c.make_composition([one, dp.c.make_composition([amplified, one])])
    assert accuracy(several) == (accuracy(one),) * 3
    better = improve(amplified, 2)
    assert better.map(2) == amplified.map(2)
    assert accuracy(better) == pytest.approx(accuracy(one), rel=1e-3)
    with pytest.raises(ValueError, match="measurement"):
        accuracy(dp.c.make_composition([one, one >> (lambda x: x)]))
    assert accuracy(other) == pytest.approx(5.88, abs=0.01)
