"""OpenDP's documented pipelines, native and swapped side by side."""

import opendp.prelude as dp
import pytest

from opendp_optimal import improve
from tests.drop_in.page import PAGE, page
from tests.drop_in.pipelines import AGES, INCOMES, PIPELINES, Pipeline, expected


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.name)
def test_runs_at_the_same_guarantee_with_no_more_loss(pipeline: Pipeline) -> None:
    native, ours = pipeline.pair()
    assert ours.output_measure == native.output_measure
    assert ours.map(pipeline.d_in) <= native.map(pipeline.d_in)
    assert expected(ours) <= 1.001 * expected(native)
    assert type(ours(pipeline.data)) is type(native(pipeline.data))
    assert expected(improve(native, pipeline.d_in)) <= 1.001 * expected(native)


LOSSES = {
    "pure": dp.loss_of(epsilon=1.0),
    "approximate": dp.loss_of(epsilon=1.0, delta=1e-6),
    "zcdp": dp.loss_of(rho=0.5),
    "approximate zcdp": dp.loss_of(rho=0.5, delta=1e-6),
}


def context(loss: str, **split: object) -> dp.Context:
    return dp.Context.compositor(
        data=AGES,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=LOSSES[loss],
        domain=dp.vector_domain(dp.atom_domain(T=int)),
        **split,
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_contexts_of_four_measures(loss: str) -> None:
    ours = context(loss, split_evenly_over=2)
    for query in (ours.query().count(), ours.query().clamp((0, 100)).sum()):
        assert isinstance(query.optimal().release(), int)


def test_weights_and_nested() -> None:
    weighted = context("pure", split_by_weights=[2.0, 1.0])
    weighted.query().count().optimal().release()
    inner = weighted.query().compositor(split_evenly_over=2).release()
    assert isinstance(inner.query().count().optimal().release(), int)


def test_filters_and_odometers() -> None:
    filtered = context("approximate")
    filtered.query(epsilon=0.4, delta=1e-7).count().optimal().release()
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    odometer = dp.c.make_fully_adaptive_composition(*space, dp.max_divergence())(INCOMES)
    native, ours = next(p for p in PIPELINES if p.name == "sum of floats, Laplace").pair()
    odometer(ours)
    spent = odometer.privacy_loss(1)
    assert spent == ours.map(1) <= native.map(1)
    assert odometer.privacy_loss(2) == 2 * spent


def test_amplification() -> None:
    sized = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0)), size=100), dp.symmetric_distance()
    mean = sized >> dp.t.then_mean()
    ours = mean >> dp.m.then_laplace(1.0)
    swapped = improve(ours, 2)
    for meas in (ours, swapped):
        amplified = dp.c.make_population_amplification(meas, population_size=10_000)
        assert amplified.map(2) < meas.map(2)
        again = improve(amplified, 2)
        assert again.map(2) <= amplified.map(2)
        assert (again is amplified) == (meas is swapped)
    assert swapped.map(2) <= ours.map(2)


def test_the_page_shows_what_is_computed() -> None:
    assert PAGE.read_text() == page()
