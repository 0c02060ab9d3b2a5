"""The Context API: the query's own budget, one linear programme for each distinct target."""

from collections.abc import Iterator
from typing import Any

import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

from opendp_optimal.measure.noise import make_optimal, solved_once
from opendp_optimal.measure.waiting import Deferred
from opendp_optimal.search import noise as engine

dp.enable_features("contrib")

DATA = [float(i % 90) for i in range(1000)]
FLOATS = dp.vector_domain(dp.atom_domain(T=float, nan=False))


def context(loss: tuple[Any, Any] | None = None, **split: Any) -> dp.Context:
    return dp.Context.compositor(
        data=DATA,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=loss or dp.loss_of(epsilon=1.0, delta=1e-6),
        domain=FLOATS,
        **split,
    )


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[float, float]]]:
    """The targets that were asked of the engine."""
    targets: list[tuple[float, float]] = []
    solved_once.cache_clear()
    solve = engine.solve

    def counting(**options: Any) -> Any:
        targets.append((options["epsilon"], options["delta"]))
        return solve(**options)

    monkeypatch.setattr(engine, "solve", counting)
    return targets


def test_split_evenly_uses_the_exact_budget_once(solved: list[tuple[float, float]]) -> None:
    ctx = context(split_evenly_over=4)
    share = ctx.d_mids[0]
    for _ in range(2):
        answer = ctx.query().clamp((0.0, 100.0)).sum().optimal().release()
        assert abs(answer - sum(DATA)) < 100 * 200
    assert isinstance(ctx.query().count().optimal(loss="l2").release(), int)
    assert isinstance(ctx.query().clamp((0.0, 9.0)).sum().optimal(loss="l1").release(), float)
    # At the context's own floats, and once for each problem: nothing is searched.
    assert solved == [share] * 2
    with pytest.raises(ValueError, match="exhausted"):
        ctx.query()


def test_weights() -> None:
    ctx = context(split_by_weights=[3, 1])
    first, second = ctx.d_mids
    query = ctx.query().clamp((0.0, 1.0)).sum().optimal()
    assert query.resolve().map(1) == first
    query.release()
    query = ctx.query().count().optimal()
    assert query.resolve().map(1) == second
    query.release()
    assert first[0] == pytest.approx(3 * second[0])


def test_filter() -> None:
    ctx = context()
    ctx.query(epsilon=0.4, delta=1e-7).count().optimal().release()
    ctx.query(epsilon=0.4, delta=0.0).count().optimal().release()
    spent = ctx.current_privacy_loss()
    assert spent[0] == pytest.approx(0.8)
    with pytest.raises(OpenDPException):  # OpenDP's own filter refuses
        ctx.query(epsilon=0.4, delta=1e-7).count().optimal().release()


def test_a_filters_query_must_state_its_budget() -> None:
    query = context(dp.loss_of(epsilon=1.0, delta=1e-6)).query().count()
    with pytest.raises(AssertionError):  # as with OpenDP's own noise
        query.optimal().release()


def test_pure_context() -> None:
    ctx = context(dp.loss_of(epsilon=1.0), split_evenly_over=2)
    query = ctx.query().count().optimal()
    assert query.resolve().output_measure == dp.max_divergence()
    query.release()
    ctx.query().count().laplace().release()


def test_nested_compositors_and_native_neighbours() -> None:
    ctx = context(split_evenly_over=2)
    inner = ctx.query().compositor(split_evenly_over=2).release()
    inner.query().count().optimal().release()
    inner.query().count().laplace().release()
    clamped = ctx.query().clamp((0.0, 10.0)).compositor(split_evenly_over=1).release()
    clamped.query().sum().optimal().release()


def test_histogram_and_mean() -> None:
    ctx = context(split_evenly_over=2)
    mean = ctx.query().clamp((0.0, 100.0)).resize(1000, constant=50.0).mean().optimal().release()
    assert abs(mean - sum(DATA) / 1000) < 10
    labels = dp.Context.compositor(
        data=["a", "b", "a"],
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=1,
        domain=dp.vector_domain(dp.atom_domain(T=str)),
    )
    counts = labels.query().count_by_categories(["a", "b"]).optimal().release()
    assert len(counts) == 3


def test_standalone_query_on_a_bare_space() -> None:
    query = dp.Query(
        chain=(dp.atom_domain(T=int), dp.absolute_distance(T=int)),
        output_measure=dp.approximate(dp.max_divergence()),
        d_in=2,
        d_out=(0.5, 1e-8),
    ).optimal()
    assert query.resolve().map(2) == (0.5, 1e-8)
    assert isinstance(query.release(data=5), int)


@pytest.mark.parametrize("loss", [{"rho": 0.5}, {"rho": 0.5, "delta": 1e-7}])
def test_what_knows_no_zcdp_says_so(loss: dict[str, float]) -> None:
    ctx = context(dp.loss_of(**loss), split_evenly_over=1)
    with pytest.raises(ValueError, match=r"output_measure.*max_divergence"):
        ctx.query().count().optimal_bounded(range=(0, 10)).release()


def test_a_query_without_budget_names_it() -> None:
    query = dp.Query(
        chain=(dp.atom_domain(T=int), dp.absolute_distance(T=int)),
        output_measure=dp.max_divergence(),
        d_in=1,
        d_out=0.0,
    )
    with pytest.raises(ValueError, match=r"d_out.*no budget"):
        query.optimal().resolve()


def test_a_missing_parameter_before_the_noise_is_refused() -> None:
    ctx = context(split_evenly_over=1)
    query = ctx.query().clamp((0.0, 1.0)).resize(constant=0.5).mean().optimal()
    with pytest.raises(TypeError, match="every step before it must have its parameters"):
        query.release(bounds=(1, 2000), T=int)


@pytest.mark.parametrize(
    "use",
    [
        lambda d: d(1),
        lambda d: d.map(1),
        lambda d: d.check(1, 1),
        lambda d: d.invoke(1),
        lambda d: d.input_domain,
        lambda d: d.output_metric,
        lambda d: d >> d,
    ],
)
def test_a_deferred_measurement_says_what_it_is(use: Any) -> None:
    deferred = make_optimal(dp.atom_domain(T=int), dp.absolute_distance(T=int))
    assert isinstance(deferred, Deferred)
    assert "Deferred" in repr(deferred)
    with pytest.raises(TypeError, match="designed when the query is released"):
        use(deferred)
