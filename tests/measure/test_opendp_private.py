"""The private parts of OpenDP that one module relies on still behave as it expects."""

import ctypes
import gc
import math
import resource
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import opendp.prelude as dp
import pytest
from opendp._convert import ATOM_MAP
from opendp.mod import GLOBAL_FEATURES

from opendp_optimal.measure import _callback, _opendp

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


def number_measurement(carrier: str, function: Callable[[Any], Any], result: str) -> dp.Measurement:
    domain = (
        dp.atom_domain(T=carrier, nan=False) if carrier[0] == "f" else dp.atom_domain(T=carrier)
    )
    metric = dp.absolute_distance(T="f64")  # there is none of small integers
    return _opendp.make_measurement(
        domain, metric, dp.max_divergence(), function, lambda d: 0.0, TO=result
    )


@pytest.mark.parametrize("carrier", sorted(_callback.NUMBERS - {"f32", "f64"}))
def test_every_integer_goes_there_and_back(carrier: str) -> None:
    meas = number_measurement(carrier, identity, carrier)
    size = 8 * ctypes.sizeof(ATOM_MAP[carrier])
    low, high = (0, 2**size - 1) if carrier[0] == "u" else (-(2 ** (size - 1)), 2 ** (size - 1) - 1)
    for value in (low, low + 1, 0, 1, high - 1, high):
        assert meas(value) == value
        assert type(meas(value)) is int
    too_large = number_measurement(carrier, lambda x: high + 1, carrier)
    with pytest.raises(dp.OpenDPException, match="does not hold"):
        too_large(0)


@pytest.mark.parametrize("value", [0.0, -0.0, 5e-324, 1.5, -1e308, math.inf, -math.inf])
def test_every_float_goes_there_and_back(value: float) -> None:
    meas = number_measurement("f64", identity, "f64")
    assert meas(value) == value
    assert math.copysign(1, meas(value)) == math.copysign(1, value)
    assert number_measurement("f32", identity, "f32")(1.1) == ctypes.c_float(1.1).value
    assert number_measurement("f64", lambda x: 7, "i32")(value) == 7


def test_an_exception_on_the_short_way_is_opendps_error() -> None:
    def fail(_: float) -> float:
        raise OSError("no randomness")

    with pytest.raises(dp.OpenDPException, match="no randomness"):
        number_measurement("f64", fail, "f64")(1.0)
    with pytest.raises(dp.OpenDPException, match=r"float|number"):
        number_measurement("f64", lambda _: "text", "f64")(1.0)


@pytest.mark.slow
def test_the_short_way_keeps_its_function_and_leaks_nothing() -> None:
    def make() -> tuple[dp.Measurement, weakref.ref[Any]]:
        class Adder:
            def __call__(self, x: float) -> float:
                return x + 1.0

        function = Adder()
        return number_measurement("f64", function, "f64"), weakref.ref(function)

    meas, function = make()
    gc.collect()
    assert meas(1.0) == 2.0
    before = None
    for turn in range(4):
        for _ in range(2_000):
            meas(1.0)
        gc.collect()
        now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        before = now if turn == 1 else before
    assert before is not None
    assert now - before < 2_000  # KiB: less than half a kilobyte a call
    del meas
    gc.collect()
    assert function() is None


def test_partial_chains_after_a_space_and_a_transformation() -> None:
    then = _opendp.partial(lambda d, m: dp.m.make_laplace(d, m, scale=1.0))
    assert isinstance(SPACE >> then, dp.Measurement)
    vectors = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    assert isinstance(vectors >> dp.t.then_count() >> then, dp.Measurement)


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
