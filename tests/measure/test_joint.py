"""Several queries at once: one price, the order of the queries, less error than splitting."""

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import accuracy, advise, compose, joint, make_joint
from opendp_optimal.budget.events import Approximate
from opendp_optimal.measure.anatomy import event_of
from opendp_optimal.measure.joint_noise import (
    LAPLACE,
    JointGuarantee,
    Part,
    _laplace,
    best_joint,
    laplace_event,
)
from opendp_optimal.measure.space import space_of
from tests.tails import squares_off

dp.enable_features("contrib")
WHOLE = dp.vector_domain(dp.atom_domain(bounds=(0, 10))), dp.symmetric_distance()
REAL = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0)), size=20), dp.symmetric_distance()


def queries(count: int) -> list[dp.Transformation]:
    return [WHOLE >> dp.t.then_clamp((0, 1 + i)) >> dp.t.then_sum() for i in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize(("count", "less"), [(5, 0.70), (10, 0.74)])
def test_less_squared_error_than_the_best_of_opendp(count, less):
    meas = make_joint(queries(count), 1, (1.0, 1e-6))
    split = 2.0 * count**2
    gaussian = 1.15 * count * 17.848
    each = sum(meas.guarantee.expected_losses) / count
    assert each <= (1 - less) * min(split, gaussian)
    assert meas.guarantee.chosen


@pytest.mark.slow
def test_answers_come_in_order_with_the_noise_that_is_stated():
    steps = queries(3)
    meas = make_joint(steps, 1, (4.0, 1e-6))
    data = [9] * 200
    seen = np.array([meas(data) for _ in range(500)], float) - [200, 400, 600]
    assert not squares_off((seen / [1, 2, 3]) ** 2, meas.guarantee.expected_losses)


@pytest.mark.slow
def test_maps_and_measures():
    pure = make_joint(queries(2), 1, 1.0)
    assert str(pure.output_measure) == "MaxDivergence"
    assert (pure.map(0), pure.map(1), pure.map(2)) == (0.0, 1.0, 2.0)
    pair = make_joint(queries(2), 1, (1.0, 1e-6))
    assert pair.map(1) == (1.0, 1e-6)
    assert pair.map(2) == (2.0, pytest.approx(1e-6 * (1 + math.e)))


@pytest.mark.slow
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


@pytest.mark.slow
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


def histogram_and_sum(bins: int, epsilon: float, weights: list[float]) -> JointGuarantee:
    histogram = dp.vector_domain(dp.atom_domain(T=int), size=bins), dp.l1_distance(T=int)
    total = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    spaces = [(space_of(*histogram), bins), (space_of(*total), 1)]
    parts = tuple(Part(space, size, Fraction(1)) for space, size in spaces)
    return best_joint(parts, epsilon, 0.0, 1, weights)


@pytest.mark.slow
def test_a_long_histogram_beside_a_number_has_farther_balls():
    """Its numbers are small in a ball of their norm, so that it pays to let them reach farther."""
    long = histogram_and_sum(60, 1.0, [1.0, 1.0])
    assert long.chosen == "staircase in the norm of each answer"
    offsets = long.table.law.offsets
    assert set(offsets[:60]) == {max(offsets)}
    assert offsets[60] == 0
    assert sum(long.expected_losses) < 227.5  # a split; in one norm without offsets it is 1431
    longer = histogram_and_sum(200, 1.0, [1.0, 1.0])
    assert longer.chosen.startswith("split: ")
    assert len(longer.blocks) == 2
    short = histogram_and_sum(2, 1.0, [1.0, 1.0])
    assert short.chosen == "staircase in the norm of each answer"
    heavy = histogram_and_sum(60, 1.0, [1.0, 1e4])
    assert heavy.expected_losses[1] < long.expected_losses[1]
    assert heavy.expected_losses[0] > long.expected_losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("bins", [2, 60])
def test_the_noise_of_each_answer_has_the_mean_square_that_is_stated(bins):
    guarantee = histogram_and_sum(bins, 2.0, [1.0, 1.0])
    steps = np.repeat(np.array(guarantee.steps, float), [bins, 1])
    seen = np.rint(np.array([guarantee.draw() for _ in range(4000)]) / steps)  # as is answered
    squares = np.stack([(seen[:, :bins] ** 2).sum(axis=1), seen[:, bins] ** 2], axis=1)
    assert not squares_off(squares, guarantee.expected_losses)


@pytest.mark.parametrize(("rho", "delta"), [(None, 0.1), (0.1, 0.0)])
@pytest.mark.parametrize(("bins", "heavy"), [(100, 1.0), (1, 10.0), (7, 1e-3)])
def test_noise_in_the_l2_norm_has_units_of_each_answer(rho, delta, bins, heavy):
    """What counts more, or is longer beside how far it moves, moves farther in steps of noise."""
    spaces = (
        (dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)),
        (
            dp.atom_domain(T=float, nan=False),
            dp.absolute_distance(T=float),
        ),
    )
    sizes = (bins, 1)
    parts = tuple(Part(space_of(*s), n, Fraction(1)) for s, n in zip(spaces, sizes, strict=True))
    found = best_joint(parts, 0.1, delta, 1, [1.0, heavy], rho=rho)
    assert "l2" in found.chosen or found.chosen == "Gaussian noise"
    far, near = found.steps
    assert far / near == pytest.approx((bins / heavy) ** 0.25, rel=1e-3)
    (block,) = found.blocks
    # Rounding moves each number by up to a step more.
    assert far**2 + near**2 <= (block.reach - math.sqrt(bins + 1)) ** 2
    seen = np.array([found.draw() for _ in range(1000)]) / np.repeat([far, near], sizes)
    squares = np.stack([(seen[:, :bins] ** 2).sum(axis=1), seen[:, bins] ** 2], axis=1)
    assert not squares_off(squares, found.expected_losses)
    # All in one unit, it would be 2 (bins + heavy) times the variance at a distance of 1.
    one = 0.5 / rho if rho else block.table.upper / (bins + 1)
    least = (math.sqrt(bins) + math.sqrt(heavy)) ** 2
    assert found.expected_losses @ np.array([1.0, heavy]) == pytest.approx(least * one, rel=1e-3)


@pytest.mark.slow
def test_under_zcdp_gaussian_noise_is_a_candidate():
    measure = dp.zero_concentrated_divergence()
    small = make_joint(queries(3), 1, 0.1, output_measure=measure)
    assert small.guarantee.chosen == "Gaussian noise"
    assert (small.map(0), small.map(1), small.map(2)) == (0.0, 0.1, pytest.approx(0.4))
    # Half of the squared distance over the variance.
    rounding = 1 / 12  # to whole numbers, of an answer that moves by 1
    assert small.guarantee.expected_losses[0] == pytest.approx(3 / 0.2 + rounding, rel=1e-5)
    large = make_joint(queries(3), 1, 12.0, output_measure=measure)
    assert large.guarantee.chosen == "staircase in the linf norm"
    assert large.map(1) == 12.0
    pair = make_joint(queries(3), 1, (0.1, 1e-6), output_measure=dp.approximate(measure))
    assert pair.map(1) == (0.1, 1e-6)
    with pytest.raises(ValueError, match="output_measure"):
        make_joint(queries(3), 1, (0.1, 1e-6), output_measure=measure)
    context = dp.Context.compositor(
        data=[3, 4, 5] * 50,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=0.5),
        split_evenly_over=1,
    )
    query = context.query().clamp((0, 9))
    assert len(joint(query.sum(), query.count()).release()) == 2


def test_a_joint_release_in_a_composition():
    """Laplace noise counts with its curve; where lengths are not fixed, with its price."""
    space = space_of(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float))
    parts = (Part(space, 1, Fraction(1)),) * 2
    noise = JointGuarantee(parts, (_laplace(parts, 1.0),), 1.0, 0.0, 1, LAPLACE)
    for times in (1, 3):
        event = laplace_event(noise, times)
        assert (event.epsilon, event.delta) == (float(times), 0.0)
        for epsilon in (0.0, 0.5, 0.99 * times):
            truth = -math.expm1(-(times - epsilon) / 2)
            assert truth <= event.curve(epsilon) <= truth + 1e-6
        assert event == laplace_event(noise, times)
    domain, metric = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    count = dp.t.make_count(domain, metric)
    groups = dp.t.make_count_by_categories(domain, metric, categories=[1, 2, 3])
    open_ended = make_joint([count, groups], 1, 0.1)
    fixed = make_joint([count, count], 1, 0.1)
    assert event_of(open_ended, 1) == Approximate(0.1, 0.0)
    for made in (open_ended, fixed):
        assert compose([made] * 100, delta=1e-6, d_in=1)[0] < 7.0
        assert compose([made], delta=0.0, d_in=2)[0] == pytest.approx(0.2)


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 12.0])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_counts_have_noise_of_whole_numbers(epsilon: float, count: int) -> None:
    """Never more than geometric noise with a share of the budget: far less at a large epsilon."""
    made = make_joint([WHOLE >> dp.t.then_count()] * count, 1, (epsilon, 1e-6))
    fall = math.exp(-epsilon / count)
    geometric = 2 * fall / (1 - fall) ** 2
    assert max(made.guarantee.expected_losses) <= (1.001 if count == 1 else 0.55) * geometric
    if count < 5 or epsilon > 4:
        assert made.guarantee.steps == [1] * count
    if made.guarantee.table is not None:
        made.guarantee.table.verify()
    assert all(isinstance(answer, int) for answer in made([1, 2, 3]))


def test_one_number_has_the_table_of_one_number() -> None:
    made = make_joint([REAL >> dp.t.then_sum()], 2, (1.0, 0.1))
    assert made.guarantee.chosen == "table of reals"
    drawn = np.array([made([0.0] * 20)[0] for _ in range(4000)])
    moved = float(made.guarantee.parts[0].distance)
    mean = np.square(drawn / moved).mean()
    assert abs(mean / made.guarantee.expected_losses[0] - 1) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.02, 20.0])
@pytest.mark.parametrize("count", [3, 100])
def test_what_is_designed_can_be_drawn(epsilon: float, count: int) -> None:
    real = REAL >> dp.t.then_sum()
    for query in (real, WHOLE >> dp.t.then_sum()):
        for d_out in (epsilon, (epsilon, 1e-6)):
            data = [1.0] * 20 if query is real else [1] * 20
            assert len(make_joint([query] * count, 2, d_out)(data)) == count


def test_laws_of_each_answer_say_what_is_drawn() -> None:
    histogram = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=3)
    vector = histogram, dp.l1_distance(T=float)
    numbers = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=4), dp.l2_distance(T=float)
    guarantee = best_joint(
        tuple(
            Part(space_of(*each), size, Fraction(2)) for each, size in ((vector, 3), (numbers, 4))
        ),
        *(1.0, 0.0, 1, [1.0, 1.0]),
    )
    laws = guarantee.laws()
    drawn = (
        np.array([guarantee.draw() for _ in range(3000)]) * 2.0 / np.repeat(guarantee.steps, [3, 4])
    )
    for law, part in zip(laws, (drawn[:, :3], drawn[:, 3:]), strict=True):
        for chance in (0.6, 0.9, 0.99):
            below = (part <= law.quantile(chance)).mean()
            assert abs(below - chance) < 0.03  # nearly six standard errors


@pytest.mark.slow
@pytest.mark.parametrize("target", [(2.0, 1e-6), (4.0, 1e-3)])
def test_integers_lose_what_is_stated(target):
    meas = make_joint([WHOLE >> dp.t.then_count(), *queries(3)[2:]], 1, target)
    stated = np.array(meas.guarantee.expected_losses) * [1, 9]
    seen = np.array([meas([9] * 200) for _ in range(1200)], float) - [200, 600]
    assert not squares_off(seen**2, stated)


def test_noise_about_as_wide_as_a_step_is_chosen_where_it_is_best():
    """Rounded to integers it loses a sixth of what noise for each answer would."""
    meas = make_joint([WHOLE >> dp.t.then_count(), *queries(3)[2:]], 1, (8.0, 0.0))
    assert meas.guarantee.chosen == "staircase in the linf norm"
    assert 9 * meas.guarantee.expected_losses[1] < 0.1


def test_advice_on_integers_asked_together_is_what_the_measurement_states():
    (found, *_) = advise(8.0, 1e-6, 1, integer=True, loss="l2", queries=3).ranking
    meas = make_joint([WHOLE >> dp.t.then_count()] * 3, 1, (8.0, 1e-6))
    assert found.name == "joint"
    assert found.loss == pytest.approx(sum(meas.guarantee.expected_losses) / 3)


@pytest.mark.slow
@pytest.mark.parametrize("target", [(5.0, 1e-3), (8.0, 1e-6)])
def test_integers_stay_within_what_accuracy_says(target):
    meas = make_joint([WHOLE >> dp.t.then_count(), *queries(3)[2:]], 1, target)
    errors = np.abs(np.array([meas([9] * 200) for _ in range(1500)]) - [200, 600])
    for alpha in (0.3, 0.1, 0.02):
        within = np.array(accuracy(meas, alpha))
        assert np.array_equal(within, np.rint(within))
        assert np.all((errors > within).mean(axis=0) < alpha + 5 * math.sqrt(alpha / 1500))
