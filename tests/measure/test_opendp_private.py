"""The private parts of OpenDP that one module relies on still behave as it expects."""

from collections.abc import Iterator

import opendp.prelude as dp
import pytest
from opendp.mod import GLOBAL_FEATURES

from opendp_optimal.measure import _opendp

dp.enable_features("contrib")

SPACE = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)


def identity(x: float) -> float:
    return x


@pytest.fixture
def only_contrib() -> Iterator[None]:
    before = set(GLOBAL_FEATURES)
    GLOBAL_FEATURES.intersection_update({"contrib"})
    yield
    GLOBAL_FEATURES.update(before)


@pytest.mark.usefixtures("only_contrib")
def test_user_measurements_need_no_feature_beyond_contrib() -> None:
    meas = _opendp.make_measurement(*SPACE, dp.max_divergence(), identity, lambda d: d, TO="f64")
    assert meas(2.5) == 2.5
    assert meas.map(1.5) == 1.5


def test_partial_chains_after_a_space_and_a_transformation() -> None:
    then = _opendp.partial(lambda d, m: dp.m.make_laplace(d, m, scale=1.0))
    assert isinstance(SPACE >> then, dp.Measurement)
    vectors = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    assert isinstance(vectors >> dp.t.then_count() >> then, dp.Measurement)


def test_links_finds_the_parts_of_a_chain() -> None:
    vectors = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    count = vectors >> dp.t.then_count()
    noise = dp.m.make_laplace(*count.output_space, scale=1.0)
    chain = count >> noise
    parts = _opendp.links(chain)
    assert parts is not None
    assert parts[0] is noise
    assert parts[1].map(1) == 1
    assert _opendp.links(noise) is None


def make_something(input_domain: dp.Domain, input_metric: dp.Metric) -> dp.Measurement:
    return dp.m.make_laplace(input_domain, input_metric, scale=1.0)


def make_other(input_domain: dp.Domain, input_metric: dp.Metric) -> dp.Measurement:
    return dp.m.make_laplace(input_domain, input_metric, scale=2.0)


def test_enrolling_twice_is_fine_and_taking_a_name_is_not() -> None:
    _opendp.enroll(make_something, "test_something")
    _opendp.enroll(make_something, "test_something")
    query = dp.Query(chain=SPACE, output_measure=dp.max_divergence(), d_in=1.0, d_out=1.0)
    assert isinstance(query.test_something().resolve(), dp.Measurement)
    with pytest.raises(ValueError, match=r"'test_something'.*test_opendp_private"):
        _opendp.enroll(make_other, "test_something")
    with pytest.raises(ValueError, match=r"'laplace'.*opendp"):
        _opendp.enroll(make_other, "laplace")


def test_inner_query_of_a_frame_context() -> None:
    pl = pytest.importorskip("polars")
    context = dp.Context.compositor(
        data=pl.LazyFrame({"a": [1.0]}),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
    )
    assert isinstance(_opendp.inner_query(context.query()), dp.Query)
    assert _opendp.inner_query(object()) is None
