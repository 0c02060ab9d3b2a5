"""What one record, or one hand-written attribute, must not decide."""

import contextlib
import copy
import math
import threading
from decimal import Decimal
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opendp.mod import OpenDPException

import opendp_optimal_geo as geo
from opendp_optimal.measure.anatomy import as_gaussian
from opendp_optimal_geo import (
    ApproxGpFilter,
    CgpFilter,
    Curator,
    GaussianFilter,
    GpFilter,
    LocalProtocol,
    Population,
    filter_context,
    make_filter,
    make_grid_gaussian,
    make_grid_laplace,
    make_projection,
    projected_distance,
    rectangle,
)
from opendp_optimal_geo.elimination import KeepAll
from opendp_optimal_geo.grid import steps
from opendp_optimal_geo.projection import project_anywhere

SQUARE = rectangle((0, 0), 100, 100)
HOSTILE = [math.nan, math.inf, -math.inf, 1.7e308, -1e200, 5e-324, -0.0, 2.0**53 + 2.0]
hostile = st.one_of(st.sampled_from(HOSTILE), st.floats())


@contextlib.contextmanager
def only_contrib():
    dp.disable_features("honest-but-curious")
    try:
        yield
    finally:
        dp.enable_features("honest-but-curious")


def truths(records, predicate):
    """Return the truth values that a curator adds noise to."""
    return Curator(records, budget=1.0)._one_by_one(predicate)


def test_a_predicate_sees_one_record_at_a_time():
    """One record changes one truth value, whatever the predicate makes of arrays."""
    first = np.zeros(1000)
    second = first.copy()
    second[0] = 1e9

    def below_mean(x):
        return x < np.mean(x)

    changed = truths(first, below_mean) != truths(second, below_mean)
    assert changed.sum() <= 1


@settings(max_examples=40)
@given(st.lists(hostile, min_size=2, max_size=6), hostile, st.integers(0, 9))
def test_one_record_flips_one_truth_value(records, other, place):
    neighbour = list(records)
    neighbour[place % len(records)] = other
    for predicate in (
        lambda x: x < 1.0,
        lambda x: 1.0 / x > 0.0,
        lambda x: math.sqrt(x) < 3.0,
        lambda x: [True, False][int(x)],
        lambda x: "yes",
        lambda x: np.array([x, x]) > 0.0,
        lambda x: None if x > 0.0 else x < -1.0,
    ):
        for kind in (list, np.array):
            found = truths(kind(records), predicate) != truths(kind(neighbour), predicate)
            assert found.sum() <= 1


def test_rows_do_not_lead_to_other_rows():
    table = np.array([[1.0, 2.0], [3.0, 4.0], [50.0, 60.0]])
    named = np.array([(1.0,), (2.0,), (90.0,)], dtype=[("income", float)])
    seen = []
    for records in (table, named):
        truths(records, lambda row: seen.append(row) is None)
    for row in seen:
        base = getattr(row, "base", None)
        assert base is None or base.size <= 2
    frame = [{"x": 1}, {"x": 2}]
    assert truths(frame, lambda row: row["x"] == 2).tolist() == [False, True]


def test_predicates_on_all_records_need_honesty():
    curator = Curator(np.arange(1000), budget=1.0)
    with only_contrib():
        with pytest.raises(OpenDPException, match="honest-but-curious"):
            curator.threshold(lambda x: x < 10, 0.5, budget=0.5, vectorized=True)
        assert curator.remaining == 1
        assert curator.threshold(lambda x: x < 10, 0.5, budget=0.5).value is True
    assert curator.threshold(lambda x: x < 10, 0.5, budget=0.25, vectorized=True).value is True
    with pytest.raises(ValueError, match="one truth value for each"):
        curator.threshold(lambda x: True, 0.5, budget=0.1, vectorized=True)


@pytest.mark.parametrize("budget", [1e-300, 1e300])
def test_prices_without_noise_charge_nothing(budget):
    curator = Curator([1, 2, 3], budget=1e301)
    with pytest.raises(ValueError, match="neither so small nor so large"):
        curator.threshold(lambda x: x > 1, 0.5, budget=budget)
    assert curator.filter.total == 0


def test_records_and_filters_of_a_curator_are_checked():
    for budget in (GpFilter(1.0), GaussianFilter(1.0, delta=1e-6, reach=0.01)):
        with pytest.raises(ValueError, match="budget"):
            Curator([1], budget=budget)
    with pytest.raises(ValueError, match="d_out"):
        make_filter(
            dp.atom_domain(T=int),
            dp.absolute_distance(T=int),
            dp.zero_concentrated_divergence(),
            1,
            ApproxGpFilter(1.0, delta=1e-6, reach=0.5),
        )
    with pytest.raises(ValueError, match="records"):
        Curator({3, 4}, budget=1.0)


COUNTS = dp.atom_domain(T=int), dp.absolute_distance(T=int)
ZCDP = dp.zero_concentrated_divergence()


def gaussian_data():
    target = GaussianFilter(1.0, delta=1e-6, reach=1.0)
    return make_filter(*COUNTS, ZCDP, 1, target)(5)


def test_gaussian_noise_is_known_by_what_it_is():
    """Nothing that is written on a measurement by hand makes it Gaussian, cheaper or another."""
    data = gaussian_data()
    other = dp.m.make_user_measurement(*COUNTS, ZCDP, lambda x: "told", lambda d: 1e-6, TO=str)
    real = make_grid_gaussian(*COUNTS, rho=1e-3)
    other.adds_gaussian_noise = True
    with pytest.raises(ValueError, match="grid_gaussian"):
        data(other)
    double = dp.t.make_user_transformation(*COUNTS, *COUNTS, lambda x: x, lambda d: d)
    parts = {"measurement1": real, "transformation0": double}
    other.__opendp_dict__ = {"__function__": "make_chain_mt", "__kwargs__": parts}
    before = data.privacy_loss(1)
    assert data(other) != "told"  # what it names was run, and paid for
    assert data.privacy_loss(1) - before == pytest.approx(real.map(1))
    copied = copy.copy(real.__dict__)
    other.__dict__.clear()
    other.__dict__.update(copied)
    assert as_gaussian(other) is None


def test_a_price_written_on_a_measurement_is_not_believed():
    data = make_filter(*COUNTS, ZCDP, 1, 1.0)(5)

    class Cheap(dp.Measurement):
        _type_ = dp.Measurement._type_

        def map(self, d_in):
            return 0.0

        def invoke(self, arg):
            return arg

        __call__ = invoke

    by_class = dp.m.make_gaussian(*COUNTS, scale=1.0)
    by_class.__class__ = Cheap
    by_hand = dp.m.make_gaussian(*COUNTS, scale=1.0)
    by_hand.map = lambda d_in: 0.0
    for query in (by_class, by_hand):
        before = data.privacy_loss(1)
        data(query)
        assert data.privacy_loss(1) - before == pytest.approx(0.5)


def test_chains_of_gaussian_noise_are_known():
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    context = filter_context(
        [1, 2, 3],
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=(ZCDP, GaussianFilter(1.0, delta=1e-6, reach=1.0)),
        domain=space[0],
    )
    context.query(rho=0.01).count().grid_gaussian().release()
    assert context.current_privacy_loss() == pytest.approx(0.01)


def test_stated_prices_need_honesty():
    clients = {"size": 2, "dimension": 2, "budget": 0.1}
    approximate = {"privacy": "approx-gp", "delta": 1e-6, "reach": 10.0}
    with only_contrib():
        with pytest.raises(OpenDPException, match="honest-but-curious"):
            Population(lambda request: None, **clients, **approximate)
        Population(lambda request: None, **clients, **approximate, tight=False)
        people = Population(np.zeros((2, 2)), budget=0.1, **approximate)
        with pytest.raises(OpenDPException, match="honest-but-curious"):
            people.add_component("work", lambda request: None, dimension=2)


def test_threads_cannot_spend_a_budget_twice():
    kept = CgpFilter(100)
    charged = []

    def spend():
        charged.extend(kept.charge(1) for _ in range(100))

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(charged) == 100 == kept.total


def test_queries_in_threads_cannot_spend_a_budget_twice():
    """Two queries are ready, and everybody can pay for one of them."""
    people = Population(np.zeros((5, 2)), budget=1.0)
    score = geo.SignedDistance(SQUARE)
    ready = [people._plan(score, 0.75, "point", ("even", 1), True, "data") for _ in range(2)]
    looked = [people._take_looks(plan, KeepAll()) for plan in ready]
    assert [rounds[0].asked for _, rounds, _ in looked] == [5, 0]
    answered = [len(block.answered()) for state, _, _ in looked for block in state.blocks]
    assert answered == [5, 0]
    assert (people.spent <= 1.0).all()


@pytest.mark.parametrize("crs", ["EPSG:32618", "EPSG:32648", "EPSG:3857"])
@settings(max_examples=15, deadline=None)
@given(longitude=st.one_of(hostile, st.floats(-180, 180)), latitude=hostile)
def test_every_point_has_a_projection(crs, longitude, latitude):
    place = project_anywhere(longitude, latitude, crs)
    assert (np.abs(place) <= 2.0**27).all()


def test_what_a_projection_does_not_cover_is_at_the_origin(plane):
    for crs in ("EPSG:32618", "EPSG:32648"):
        metric = projected_distance(crs)
        projection = make_projection(plane[0], metric, crs)
        away = 15.0 if crs == "EPSG:32618" else -165.0
        assert projection([away, 0.0]) == [0.0, 0.0]
        for x in HOSTILE:
            assert np.isfinite(projection([x, x])).all()
    assert np.isfinite((projection >> geo.then_grid_gaussian(rho=1e-4))([-165.0, 0.0])).all()


@settings(max_examples=25, deadline=None)
@given(x=hostile, y=hostile)
def test_releases_of_hostile_points_raise_nothing(x, y):
    plane = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=2), dp.l2_distance(T=float)
    for measurement in (
        make_grid_gaussian(*plane, rho=1e-2),
        make_grid_laplace(*plane, epsilon=1e-2),
        plane >> geo.then_signed_distance(SQUARE) >> geo.then_grid_gaussian(rho=1e-2),
        plane >> geo.then_distance_to_point((1.0, 2.0)) >> geo.then_grid_laplace(1e-2),
    ):
        assert np.isfinite(measurement([x, y])).all()


@pytest.mark.parametrize("price", [1e-320, 1e-305, 1e305, 1.7e308])
def test_prices_beyond_floats_are_refused_clearly(plane, price):
    with pytest.raises(ValueError, match=r"rho .* must be within"):
        make_grid_gaussian(*plane, rho=price)
    with pytest.raises(ValueError, match=r"epsilon .* must be within"):
        make_grid_laplace(*plane, epsilon=price)


@pytest.mark.parametrize("kind", ["i1", "u1", "i4", "i8", "u8", "f2", "f4", "f8", "g"])
@pytest.mark.parametrize("bits", [-4, 0, 3, 9, 40])
def test_points_of_every_type_go_to_the_nearest_step(kind, bits):
    """Also whole numbers beyond 2^53, which are not floats."""
    grid, dtype = 2.0**bits, np.dtype(kind)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = [info.max, info.max - 1, info.min, info.min + 1, 0, 1, info.max // 2 + 1]
        values += [min(info.max, (3 << max(0, bits - 1)) + k) for k in (-1, 0, 1)]
        values += [min(info.max, (1 << 59) + (1 << 39) + k) for k in (-1, 0, 1)]
    else:
        values = [0.0, 1.0, -2.5, 1000.5, 0.03125, -0.09375]
    points = np.array([values], dtype)
    if dtype.kind in "iu" and bits <= 0:
        points = points[np.abs(points.astype(float)) < 2.0**31][None, :]
    exact = int if dtype.kind in "iu" else float
    for x, step in zip(points[0], steps(points, grid)[0], strict=True):
        assert abs(Fraction(exact(x)) / Fraction(grid) - int(step)) <= Fraction(1, 2)


def test_points_that_are_no_numbers_are_refused():
    for bad in (
        [[Decimal(1), Decimal(2)]],
        [[Fraction(1), Fraction(2)]],
        [[1 + 2j, 0j]],
        [[True, False]],
        [["2020-01-01", "2020-01-02"]],
        np.array([["2020-01-01", "2020-01-02"]], "datetime64[ns]"),
        [[2**70, 1]],
    ):
        with pytest.raises(ValueError, match="points"):
            Population(bad, budget=1.0)


def test_hostile_answers_of_clients_are_no_answers():
    rows = np.array([(math.nan, 0.0), (0.0, math.nan), (math.inf, 0.0), (0.0, 1e300), (0.0, 0.0)])
    people = Population(lambda request: rows[request.users], budget=1.0, size=5, dimension=2)
    answer = people.range_count(SQUARE, budget=1.0)
    assert (answer.value, answer.missing) == (1, 4)
    assert answer.error_bound >= 4


@pytest.mark.parametrize(
    ("bounds", "bandwidth"),
    [
        ((-1e308, -1e308, 1e308, 1e308), 5.0),
        ((0, 0, 1e-320, 1.0), 5.0),
        ((0, 0, 100, 100), 1e9),
        ((0, 0, 100, 100), 1.7e308),
    ],
)
def test_maps_beyond_floats_charge_nothing(bounds, bandwidth):
    people = Population(np.zeros((3, 2)), budget=1.0)
    with pytest.raises(ValueError, match="must be"):
        people.density_map(bounds, 10, bandwidth, budget=0.5)
    assert not people.allowances.paid.any()


@pytest.mark.parametrize("bandwidth", [1e-320, 1e-200, 1e200, 1.7e308])
@pytest.mark.parametrize("method", ["point", "distance"])
def test_any_bandwidth_is_answered(bandwidth, method):
    people = Population(np.zeros((3, 2)), budget=1.0)
    answer = people.kde((0, 0), bandwidth, budget=0.5, method=method)
    assert 0.0 <= answer.value <= 1.0
    assert 0.0 <= answer.error_bound <= 2.0


def test_what_is_shown_is_not_what_is_secret():
    points = np.array([[1234.5, 6789.25], [4321.0, 9876.0]])
    people = Population(points, budget=1.0, central_budget=1.0)
    plan = people._plan(geo.SignedDistance(SQUARE), 0.5, "point", ("even", 2), False, "data")
    _, rounds, _ = people._take_looks(plan, KeepAll())
    shown = [people, Curator(points, budget=1.0), plan, plan.looks, rounds]
    shown.append(geo.Schedule(people, 2))
    plane = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    shown.append(LocalProtocol(CgpFilter(1.0), {"home": [1234.5, 6789.25]}, space=plane))
    for each in shown:
        text = repr(each) + str(each)
        for secret in ("1234", "19752", "6789", "108628", "4321", "9876"):
            assert secret not in text
    assert "2 users" in repr(people)
    assert "2 records" in repr(Curator(points, budget=1.0))
