"""Doors of measurements at their very edges, and the way to OpenDP and back."""

from __future__ import annotations

import ctypes
import importlib
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import make_optimal, make_optimal_noise
from opendp_optimal.measure import _callback, bounded
from opendp_optimal.measure import guarantee as design
from opendp_optimal.measure.space import Space, space_of

dp.enable_features("contrib")


def test_noise_that_waits_is_chained_after_what_comes_before_its_own_chain():
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    clamp = space >> dp.t.then_clamp((0, 5))
    total = clamp.output_space >> dp.t.then_sum()
    waiting = clamp >> (total >> make_optimal(*total.output_space, gap=10.0))
    released = waiting.fix(1, (1.0, 0.5))
    assert released.map(1) == (1.0, 0.5)
    assert isinstance(released([1, 100]), int)


def test_group_privacy_rounds_the_largest_exponent_up(monkeypatch):
    asked = []

    def bounds(epsilon):
        asked.append(Fraction(epsilon))
        return exp_bounds(epsilon)

    exp_bounds = design.exp_bounds
    monkeypatch.setattr(design, "exp_bounds", bounds)
    for count in range(2, 30):
        for epsilon in (0.1, 0.3, 0.7, 1.9):
            design.geometric_up(epsilon, count)
            each, all_of_them = asked[-2:]
            assert each == Fraction(epsilon)
            assert all_of_them >= count * each


@pytest.mark.parametrize(("d_in", "beyond"), [(9, False), (10, True), (11, True)])
def test_who_hides_the_whole_range_hides_any_distance(d_in, beyond):
    problem = SimpleNamespace(width=10, reach=4)
    table = SimpleNamespace(
        problem=problem, epsilon=1.0, delta=0.25, apart=int, delta_at=lambda e, n: n / 100
    )
    pair = bounded._privacy_map(Space("i32", "absolute"), table, d_in)
    assert pair(0) == (0.0, 0.0)
    assert pair(3) == (1.0, 0.03)
    assert pair(4) == pair(d_in) == (1.0, 0.25)
    if beyond:
        assert pair(20) == (1.0, 0.25)
    else:
        assert pair(9) == (1.0, 0.25)
        assert pair(10)[0] == 2.0
        assert pair(20)[0] == 3.0


def test_what_only_looks_like_a_space_is_refused():
    domain, metric = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    assert space_of(domain, metric) == Space("f64", "absolute")
    with pytest.raises(ValueError, match="must be an OpenDP domain"):
        space_of(str(domain), metric)
    with pytest.raises(ValueError, match="must be an OpenDP metric"):
        space_of(domain, str(metric))


@pytest.mark.parametrize("ends", [(-1, 5), (0, 256), (0, 2**60)])
def test_a_range_must_fit_its_type(ends):
    with pytest.raises(ValueError, match="range"):
        bounded._range(dp.atom_domain(T="u8"), Space("u8", "absolute"), ends)
    assert bounded._range(dp.atom_domain(T="u8"), Space("u8", "absolute"), (0, 255)) == (0, 255)


def test_what_opendp_does_not_hand_over_is_not_used(monkeypatch):
    called = []
    refused = SimpleNamespace(tag=1, ok=0)
    monkeypatch.setattr(_callback, "_object_as_slice", lambda argument: refused)
    monkeypatch.setattr(_callback, "_callback", lambda serve: serve)
    with pytest.raises(RuntimeError, match="could not hand over"):
        _callback.number_callback(called.append, "f64", "f64")(0)
    assert called == []


def test_what_opendp_does_not_take_is_not_released(monkeypatch):
    cell = ctypes.c_double(3.0)
    given = _callback.FfiSlice(ctypes.addressof(cell), 1)
    handed = SimpleNamespace(tag=_callback._OK, ok=ctypes.addressof(given))
    done = []
    monkeypatch.setattr(_callback, "_object_as_slice", lambda argument: handed)
    monkeypatch.setattr(_callback, "_slice_free", lambda handle: None)
    monkeypatch.setattr(_callback, "_slice_as_object", lambda *a: SimpleNamespace(tag=1, ok=0))
    monkeypatch.setattr(_callback, "_result_ok", done.append)
    monkeypatch.setattr(_callback, "_callback", lambda serve: serve)
    with pytest.raises(RuntimeError, match="could not take"):
        _callback.number_callback(lambda value: value + 1, "f64", "f64")(0)
    with pytest.raises(TypeError):
        _callback.number_callback(lambda value: 2.5, "f64", "i32")(0)
    assert done == []


def test_plain_numbers_in_range_take_the_short_way(monkeypatch):
    whole = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    measurement = make_optimal_noise(*whole, 1, (1.0, 0.5), gap=10.0)
    monkeypatch.setattr(dp.Measurement, "invoke", lambda self, value: ("the long way", value))
    for value in (-(2**31), -1, 0, 2**31 - 1):
        assert isinstance(measurement(value), int)
    for other in (-(2**31) - 1, 2**31, True, 3.0, "3"):
        assert measurement(other) == ("the long way", other)


def test_the_ends_of_integers_are_those_of_their_types():
    # Asked anew: tests hold the table as it was when they were read.
    for carrier, ends in importlib.import_module(
        "opendp_optimal.measure.space"
    ).INTEGER_RANGES.items():
        kind = np.iinfo({"i": "int", "u": "uint"}[carrier[0]] + carrier[1:].replace("size", "64"))
        assert ends == (kind.min, kind.max)
        assert Space(carrier, "absolute").integer


def test_a_target_that_is_not_divided_is_not_said_to_be():
    real = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    with pytest.raises(ValueError, match="epsilon") as raised:
        make_optimal_noise(*real, 1.0, (1e3, 1e-3))
    assert "divided" not in str(raised.value)
