"""Contexts behind a filter: charged first, refused without an end, priced by OpenDP alone."""

import opendp.prelude as dp
import pytest

from opendp_optimal.budget import (
    ApproxGpFilter,
    BudgetError,
    GaussianFilter,
    GpFilter,
    filter_context,
    make_filter,
)
from opendp_optimal.measure._opendp import partial
from opendp_optimal.measure.dp import OdometerQueryable

dp.enable_features("contrib", "honest-but-curious")

NUMBERS = dp.vector_domain(dp.atom_domain(T=int))


def context(loss, data=(1, 2, 3)):
    return filter_context(
        list(data), privacy_unit=dp.unit_of(contributions=1), privacy_loss=loss, domain=NUMBERS
    )


def test_refuses_without_dying():
    ctx = context(dp.loss_of(rho=0.5))
    ctx.query(rho=0.3).count().gaussian().release()
    for _ in range(3):
        with pytest.raises(BudgetError, match="left"):
            ctx.query(rho=0.3).count().gaussian().release()
    ctx.query(rho=0.1).count().gaussian().release()
    assert ctx.remaining_privacy_loss() == pytest.approx(0.1)
    assert ctx.current_privacy_loss() == pytest.approx(0.4)


def test_charges_before_running():
    ctx = context(dp.loss_of(epsilon=1.0))

    def fail(_):
        raise RuntimeError("broken")

    space = NUMBERS, dp.symmetric_distance()
    broken = dp.m.make_user_measurement(*space, dp.max_divergence(), fail, lambda d: 0.75 * d)
    with pytest.raises(Exception, match="broken"):
        ctx(broken)
    assert ctx.current_privacy_loss() == 0.75
    with pytest.raises(BudgetError):
        ctx.query(epsilon=0.5).count().laplace().release()


def test_work_per_query_does_not_grow():
    """The filter keeps one number, whatever the number of queries."""
    ctx = context(dp.loss_of(rho=10.0))
    meas = (NUMBERS, dp.symmetric_distance()) >> dp.t.then_count() >> dp.m.then_gaussian(10.0)
    for _ in range(50):
        ctx(meas)
    kept = vars(ctx.queryable)["_filter"]
    assert kept.total.denominator.bit_length() < 200
    assert set(vars(kept)) == {"capacity", "_total", "_process"}


def test_towards_epsilon_and_delta():
    target = ApproxGpFilter(1.0, delta=1e-6, reach=1.0)
    ctx = context((dp.zero_concentrated_divergence(), target))
    assert ctx.remaining_privacy_loss() == pytest.approx(float(target.capacity))
    ctx.query(rho=0.015).count().gaussian().release()
    assert target.total == 0  # every data set has a filter of its own
    with pytest.raises(BudgetError):
        ctx.query(rho=0.015).count().gaussian().release()


@pytest.mark.slow
def test_the_exact_gaussian_curve():
    target = GaussianFilter(1.0, delta=1e-6, reach=1.0)
    ctx = context((dp.zero_concentrated_divergence(), target))
    assert target.capacity > ApproxGpFilter(1.0, delta=1e-6, reach=1.0).capacity
    ctx.query(rho=0.01).count().grid_gaussian().release()
    assert ctx.current_privacy_loss() == pytest.approx(0.01)
    with pytest.raises(ValueError, match="grid_gaussian"):
        ctx.query(rho=0.001).count().gaussian().release()
    with pytest.raises(BudgetError):
        ctx.query(rho=0.05).count().grid_gaussian().release()
    assert ctx.current_privacy_loss() == pytest.approx(0.01)


def test_bad_arguments():
    space = NUMBERS, dp.symmetric_distance()
    zcdp = dp.zero_concentrated_divergence()
    with pytest.raises(ValueError, match="d_out"):
        make_filter(*space, zcdp, 1, 0.0)
    with pytest.raises(ValueError, match="d_out"):
        make_filter(*space, zcdp, 1, GpFilter(1.0))
    with pytest.raises(ValueError, match="output_measure"):
        make_filter(*space, dp.approximate(zcdp), 1, 1.0)
    ctx = context(dp.loss_of(rho=0.5))
    with pytest.raises(ValueError, match="measurement"):
        ctx.queryable("everything")
    with pytest.raises(ValueError, match="input space"):
        ctx((dp.atom_domain(T=int), dp.absolute_distance(T=int)) >> dp.m.then_laplace(1.0))
    with pytest.raises(ValueError, match="d_in"):
        ctx.queryable.privacy_loss(2)
    meas = make_filter(*space, zcdp, 1, 0.5)
    assert meas.map(1) == 0.5
    with pytest.raises(Exception, match="d_in"):
        meas.map(2)
    assert "FilteredData" in repr(ctx.queryable)


def test_private_parts_of_opendp_still_behave():
    assert issubclass(type(context(dp.loss_of(rho=0.5)).queryable), OdometerQueryable)
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    built = space >> partial(lambda domain, metric: dp.m.make_laplace(domain, metric, scale=1.0))
    assert built.map(1.0) == 1.0
