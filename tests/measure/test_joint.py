"""Several queries at once: one price, the order of the queries, less error than splitting."""

import math

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import joint, make_joint

dp.enable_features("contrib")
WHOLE = dp.vector_domain(dp.atom_domain(bounds=(0, 10))), dp.symmetric_distance()
REAL = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0)), size=20), dp.symmetric_distance()


def queries(count: int) -> list[dp.Transformation]:
    return [WHOLE >> dp.t.then_clamp((0, 1 + i)) >> dp.t.then_sum() for i in range(count)]


@pytest.mark.parametrize(("count", "less"), [(5, 0.70), (10, 0.74)])
def test_less_squared_error_than_the_best_of_opendp(count, less):
    meas = make_joint(queries(count), 1, (1.0, 1e-6))
    split = 2.0 * count**2
    gaussian = 1.15 * count * 17.848
    each = sum(meas.guarantee.expected_losses) / count
    assert each <= (1 - less) * min(split, gaussian)
    assert meas.guarantee.chosen


def test_answers_come_in_order_with_the_noise_that_is_stated():
    steps = queries(3)
    meas = make_joint(steps, 1, (4.0, 1e-6))
    data = [9] * 200
    seen = np.array([meas(data) for _ in range(120)], float) - [200, 400, 600]
    scaled = (seen / [1, 2, 3]) ** 2
    for i, expected in enumerate(meas.guarantee.expected_losses):
        # Rounding to whole numbers adds up to 1/12.
        error = scaled[:, i].std() / math.sqrt(len(seen))
        assert abs(scaled[:, i].mean() - expected) < 6 * error + 1 / 12


def test_maps_and_measures():
    pure = make_joint(queries(2), 1, 1.0)
    assert str(pure.output_measure) == "MaxDivergence"
    assert (pure.map(0), pure.map(1), pure.map(2)) == (0.0, 1.0, 2.0)
    pair = make_joint(queries(2), 1, (1.0, 1e-6))
    assert pair.map(1) == (1.0, 1e-6)
    assert pair.map(2) == (2.0, pytest.approx(1e-6 * (1 + math.e)))


def test_vectors_and_floats_enter_with_their_own_norm():
    histogram = WHOLE >> dp.t.then_count_by_categories(list(range(5)), null_category=False)
    total = WHOLE >> dp.t.then_sum()
    meas = make_joint([histogram, total], 2, (1.0, 1e-6), weights=[1, 2])
    table, count = meas([3] * 100)
    assert len(table) == 5
    assert isinstance(count, int)
    real = make_joint([REAL >> dp.t.then_sum(), REAL >> dp.t.then_mean()], 2, 1.0)
    answers = real([5.0] * 20)
    assert all(isinstance(answer, float) for answer in answers)
    assert all(math.isfinite(answer) for answer in answers)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="transformations"):
        make_joint([], 1, 1.0)
    with pytest.raises(ValueError, match="same domain"):
        make_joint([WHOLE >> dp.t.then_sum(), REAL >> dp.t.then_sum()], 2, 1.0)
    with pytest.raises(ValueError, match="weights"):
        make_joint(queries(2), 1, 1.0, weights=[1.0])
    with pytest.raises(ValueError, match="weights"):
        make_joint(queries(2), 1, 1.0, weights=[1.0, -1.0])
    with pytest.raises(ValueError, match="d_in"):
        make_joint(queries(2), 0, 1.0)
    with pytest.raises(ValueError, match="d_out"):
        make_joint(queries(2), 1, "1")
    with pytest.raises(ValueError, match="transformations"):
        make_joint([WHOLE >> dp.t.then_clamp((0, 1))], 1, 1.0)


def test_in_a_context_it_is_paid_once():
    context = dp.Context.compositor(
        data=[3, 4, 5] * 50,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=2.0, delta=1e-6),
        split_evenly_over=2,
    )
    for left in (1, 0):
        query = context.query().clamp((0, 9))
        answers = joint(query.sum(), query.count()).release()
        assert len(answers) == 2
        assert len(context.d_mids) == left
    with pytest.raises(ValueError, match="queries"):
        joint()
    with pytest.raises(ValueError, match="without noise"):
        joint(dp.Query(WHOLE, dp.max_divergence(), d_in=1, d_out=1.0))
