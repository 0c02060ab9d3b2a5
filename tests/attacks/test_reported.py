"""What was reported of 0.1.0 about privacy and proofs, as it was reported: each must be untrue.

These tests, and those of ``test_reported_crashes.py``, use nothing but public names that 0.1.0
had, so that they can be run against it: with a checkout of 0.1.0 and its plugins on PYTHONPATH,
``pytest --noconftest -c /dev/null tests/attacks/test_reported.py`` fails in all of them but those
named in ``NOT_SEEN`` of :mod:`tests.attacks.advisories`.
"""

import contextlib
import copy
import dataclasses
import math
import pickle
import warnings
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException
from shapely.geometry import Polygon

import opendp_optimal as oo
import opendp_optimal_bayes as bayes
import opendp_optimal_geo as geo
import opendp_optimal_learn as learn
import opendp_optimal_select as select

dp.enable_features("contrib", "honest-but-curious")

REAL = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
PLANE = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=2), dp.l2_distance(T=float)
WHOLE = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")


@contextlib.contextmanager
def only_contrib():
    dp.disable_features("honest-but-curious")
    try:
        yield
    finally:
        dp.enable_features("honest-but-curious")


def told_apart(measurement, one, other, draws=400):
    """How much more often releases are high for one than for the other, by the best threshold."""
    first, second = (np.array([measurement(x) for _ in range(draws)]) for x in (one, other))
    cuts = np.unique(np.concatenate([first, second]))
    return max(abs((first >= cut).mean() - (second >= cut).mean()) for cut in cuts)


# Privacy


def test_integers_beyond_2_to_the_53():
    noise = oo.make_optimal_bounded_noise(
        *WHOLE, 16, 1.0, range=(2**60, 2**60 + 1024), bins=64, gap=10.0, cache=False
    )
    assert noise.map(2) <= 1.0
    # The most that is possible at epsilon 1 is 0.462; 400 draws are within 0.2 of it.
    assert told_apart(noise, 2**60 + 127, 2**60 + 129) < 0.7


def test_changed_is_not_believed():
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    with only_contrib(), pytest.raises(OpenDPException, match="honest-but-curious"):
        oo.make_optimal_noise(*space, 2, 1.0, changed=1)


def test_an_edge_of_nearly_no_length():
    region = Polygon([(0, 0), (1e-200, 0), (1000, 0), (1200, 800), (0, 1000)])
    for points in ([(0.0, 1e6), (1 / 16, 1e6)], [(0.0, -1e6), (0.0, -1e6 - 1 / 16)]):
        one, other = (
            geo.Population(np.array([p]), budget=1e9).range_count(
                region, budget=1e6, method="distance", looks=("even", 1)
            )
            for p in points
        )
        assert one.value == other.value
    measure = geo.make_signed_distance(*PLANE, region)
    assert abs(measure([0.0, 1e6]) - measure([1 / 16, 1e6])) <= 1 / 16 * 1.01


def test_a_corner_as_close_to_an_axis_as_floats_can_be():
    turns = np.linspace(0, 2 * math.pi, 40, endpoint=False)
    corners = np.column_stack([np.cos(turns), np.sin(turns)]) * 0.4
    corners[0], corners[-1] = (0.4, 5e-324), (0.38, 0.0)
    measure, step = geo.make_signed_distance(*PLANE, Polygon(corners)), 2.0**-20
    for x in (-0.9, 0.0, 0.1):
        assert abs(measure([x, 0.0]) - measure([x, step])) <= step * 1.01


def test_the_epsilon_of_a_channel_is_never_too_small():
    flip = bayes.Channel([[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]])
    assert flip.epsilon([[0, 1e-8], [1e-8, 0]]) >= math.log(3) * 1e8 * (1 - 1e-15)
    rng = np.random.default_rng(0)
    for _ in range(40):
        parts = rng.integers(1, 1000, (3, 3)).tolist()
        channel = bayes.Channel([[Fraction(p, sum(row)) for p in row] for row in parts])
        unit = Fraction(10) ** int(rng.integers(-20, 3))
        metric = [[unit * abs(x - z) for z in range(3)] for x in range(3)]
        with localcontext() as context:
            context.prec = 60
            truth = max(
                (Decimal((u / v).numerator) / (u / v).denominator).ln() / abs(x - z)
                for x in range(3)
                for z in range(3)
                if x != z
                for u, v in zip(channel.rows[x], channel.rows[z], strict=True)
            ) * unit.denominator / unit.numerator  # fmt: skip
        assert Decimal(channel.epsilon(metric)) >= truth


def test_a_channel_that_tells_everything_does_not_verify():
    loss = [[abs(w - x) for x in range(3)] for w in range(3)]
    found = bayes.optimal_channel(prior=[1 / 4, 1 / 4, 1 / 2], loss=loss, epsilon=0.5)
    found.verify()
    table = getattr(found, "table", found)
    what = "problem" if hasattr(table, "problem") else "request"
    asked = dataclasses.replace(getattr(table, what))
    object.__setattr__(asked, "delta", 1.0)
    everything = np.eye(3, dtype=np.int64) << 62
    empty = copy.copy(table.dual)
    for field in dataclasses.fields(empty):
        array = getattr(empty, field.name)
        if isinstance(array, np.ndarray):
            object.__setattr__(empty, field.name, np.zeros_like(array))
    for fields in (
        {what: asked},
        {what: asked, "weights": everything},
        {what: asked, "weights": everything, "dual": empty},
        {"slack": Fraction(-5)},
    ):
        changed = dataclasses.replace(table)
        for name, value in fields.items():
            object.__setattr__(changed, name, value)
        if table is not found:
            changed = bayes.OptimalChannel(changed)
        try:
            changed.verify()
        except (oo.CertificateError, ValueError, TypeError, AttributeError):
            continue
        assert changed.lower <= changed.upper
        assert changed.channel.epsilon() <= 0.5


def test_a_predicate_does_not_see_other_records():
    """With the mean in it, one record would turn all answers from nearly none to nearly all."""
    first = np.zeros(1000)
    second = first.copy()
    second[0] = 1e9
    values = []
    for records in (first, second):
        curator = geo.Curator(records, budget=1e6)
        with contextlib.suppress(ValueError, TypeError, AttributeError, OpenDPException):
            answer = curator.threshold(lambda x: x < x.mean(), 0.5, budget=1e4)
            values.append(answer.value)
    assert len(set(values)) <= 1


def test_a_mark_is_no_gaussian_noise():
    queue = geo.make_filter(
        *WHOLE,
        dp.zero_concentrated_divergence(),
        1,
        geo.GaussianFilter(1.0, delta=1e-6, reach=1.0),
    )(0)
    fake = dp.m.make_user_measurement(
        *WHOLE, dp.zero_concentrated_divergence(), lambda x: x, lambda d: 1e-6 * d * d
    )
    fake.adds_gaussian_noise = True
    with pytest.raises((ValueError, OpenDPException), match=r"(?i)gaussian"):
        queue(fake)


def test_one_record_at_the_largest_float():
    rows = np.random.default_rng(0).uniform(-1, 1, (50, 1))
    labels = (rows[:, 0] > 0).astype(int)
    weights = []
    for last in (0.0, 1.7e308):
        rows[-1] = last
        model = learn.PrivateLogisticRegression(
            epsilon=20.0, delta=1e-5, bounds=(-8e307, 8e307), classes=[0, 1], random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(ValueError):  # bounds so far apart may be refused
                weights.append(abs(model.fit(rows, labels).coef_.item()) * 8e307)
    assert weights == [] or weights[1] < weights[0] + 10


def test_releases_that_nobody_holds_are_counted():
    def made():
        for number in range(20):
            yield dp.m.make_laplace(*REAL, scale=1.0 + number / 8)

    alive = [dp.m.make_laplace(*REAL, scale=1.0 + number / 8) for number in range(20)]
    held = oo.compose(alive, delta=1e-6, d_in=1.0)[0]
    assert oo.compose(made(), delta=1e-6, d_in=1.0)[0] >= held * 0.999


def test_no_point_decides_whether_there_is_an_error():
    crs = "EPSG:32618"
    project = geo.make_projection(PLANE[0], geo.projected_distance(crs), crs)
    for point in ([15.0, 0.0], [0.0, 90.0], [-75.0, 40.0], [1e308, -1e308], [math.inf, 0.0]):
        assert np.isfinite(project(point)).all()


@pytest.mark.parametrize("label", [0.5, "red", None])
def test_no_label_decides_whether_there_is_an_error(label):
    rows = np.array([[0.1], [0.9], [0.5]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = learn.PrivateNaiveBayes(epsilon=1.0, noise="laplace", bounds=(0, 1), classes=[0, 1])
        model.fit(rows, np.array([0, 1, label], dtype=object))


# Certificates


def test_a_function_is_not_its_name():
    def l1(x):
        return 100 * abs(x)

    table = oo.solve(1.0, 0.0, loss="l1", cache=False)
    try:
        other = oo.solve(1.0, 0.0, loss=l1, cache=False)
    except ValueError:
        pass  # functions of one's own have no noise without end
    else:
        assert table.upper * 99 < other.upper
    finite = oo.solve(1.0, 1e-6, loss=l1, gap=0.1, cache=False)
    finite.verify()
    assert finite.lower <= finite.upper
    assert 90 < finite.upper < 110
    assert 90 < oo.advise(epsilon=1.0, delta=1e-6, loss=l1).best.loss < 110
    with pytest.raises(ValueError, match="l1"):
        oo.Loss(lambda x: x**4, "l1")


@pytest.mark.parametrize("epsilon", [24.0, 28.0, 31.0])
def test_the_bound_of_a_theorem_is_below_the_truth(epsilon):
    """At these epsilons nothing is better for answers 0 to 10 than geometric noise, clamped."""
    advice = oo.advise(epsilon=epsilon, integer=True, bounds=(0, 10))
    (bound,) = [bound.value for bound in advice.bounds if "theorem" in bound.note]
    with localcontext() as context:
        context.prec = 60
        a = (-Decimal(epsilon)).exp()
        inner = {d: a**d * (1 - a) / (1 + a) for d in range(1, 11)}
        ends = {d: a**d / (1 + a) for d in range(1, 11)}
        truth = sum(
            d * (ends if y in (0, 10) else inner)[d]
            for x in range(11)
            for y in range(11)
            if (d := abs(x - y))
        ) / 11  # fmt: skip
        assert truth * (1 - Decimal("1e-6")) < Decimal(bound) <= truth


def test_laplace_noise_on_the_ring():
    for epsilon in (1e-8, 1e-6):
        one, two = (select.laplace_ring(k, epsilon=epsilon)[0] for k in (1, 2))
        assert math.isclose(one, math.pi / 2, rel_tol=1e-4)
        assert math.isclose(two, math.pi / 4, rel_tol=1e-4)
    places = np.asarray(select.laplace_ring(2, epsilon=1000.0)[1], float)
    assert len(set(places.tolist())) == 2
    for epsilon in (1e-17, 1e4, 1e9):
        with contextlib.suppress(ValueError):
            select.optimal_ring(2, epsilon=epsilon)


def test_a_proved_table_cannot_be_changed():
    table = oo.solve(1.0, 0.0)
    copies = (table, pickle.loads(pickle.dumps(table)), copy.deepcopy(table), copy.copy(table),
              dataclasses.replace(table))  # fmt: skip
    for one in copies:
        for array in (one.weights, one.tail.weights, one.dual.budget, one.dual.slack):
            assert isinstance(array, np.ndarray)
            with pytest.raises(ValueError, match=r"read-only|WRITEABLE"):
                array[...] = 0
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.setflags(write=True)
