"""Parts of measurements with everything around them scripted: ranges, hulls, the way to OpenDP."""

from __future__ import annotations

import ctypes
import importlib
import inspect
import itertools
import random
from types import SimpleNamespace

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import compose, make_optimal, make_optimal_noise, then_optimal_noise
from opendp_optimal.measure import _callback, bounded
from opendp_optimal.measure.space import Space

dp.enable_features("contrib")
composing = importlib.import_module("opendp_optimal.measure.compose")  # not the function


def test_tables_are_solved_to_a_thousandth_unless_told_otherwise():
    real = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    make_optimal(*real)
    then_optimal_noise(1.0, (1.0, 0.5))
    assert make_optimal_noise(*real, 1.0, (1.0, 0.5)).table.gap <= 1e-3
    for make in (make_optimal, make_optimal_noise, then_optimal_noise):
        assert inspect.signature(make).parameters["gap"].default == 1e-3


@pytest.mark.parametrize("ends", [(-1, 5), (0, 256), (0, 2**60)])
def test_a_range_must_fit_its_type(ends):
    with pytest.raises(ValueError, match="range"):
        bounded._range(dp.atom_domain(T="u8"), Space("u8", "absolute"), ends)
    assert bounded._range(dp.atom_domain(T="u8"), Space("u8", "absolute"), (0, 255)) == (0, 255)


def test_whole_answers_from_real_noise_are_clamped_before_and_rounded_after():
    asked, says = [], [-0.7, 2.4, 2.5, -0.5, 10.9, 9.5]

    def draw(x):
        asked.append(x)
        return says[len(asked) - 1]

    ends = SimpleNamespace(low=0.0, high=10.0)
    table = SimpleNamespace(problem=ends, kind="real", releaser=lambda: draw)
    release = bounded._releaser(Space("i32", "absolute"), table)
    assert [release(x) for x in (-5, 0, 3, 10, 11, 7)] == [0, 2, 3, 0, 10, 10]
    assert asked == [0.0, 0.0, 3.0, 10.0, 10.0, 7.0]
    whole = SimpleNamespace(problem=ends, kind="integer", releaser=lambda: draw)
    assert bounded._releaser(Space("i32", "absolute"), whole) is draw
    assert bounded._releaser(Space("f64", "absolute"), table) is draw


def test_nothing_released_costs_nothing():
    assert compose([], epsilon=0.5) == (0.5, 0.0)
    assert compose([], delta=0.25) == (0.0, 0.25)


def test_a_release_without_epsilon_can_be_composed():
    pytest.importorskip("dp_accounting")
    free = composing._Priced(("a",), 0.0, 0.125, None)
    some = composing._Priced(("b",), 1.0, 0.0, None)
    total = composing._distribution([(free, 1), (some, 1)])
    assert float(total.get_delta_for_epsilon(1.01)) == pytest.approx(0.125, rel=1e-2)
    only = composing._distribution([(free, 2)])
    assert float(only.get_delta_for_epsilon(0.01)) == pytest.approx(1 - 0.875**2, rel=1e-2)


def test_lower_hulls_by_the_definition():
    rng = random.Random(4)
    for count in (1, 2, 3, 5, 8) * 12:
        x = sorted(rng.sample(range(1, 40), count))
        y = [rng.randrange(-20, 2) for _ in x]
        found = composing._lower_hull(np.array(x, float), np.array(y, float))
        points = [(0, 1), *zip(x, y, strict=True)]
        expected = []
        for i in range(1, len(points)):
            between = itertools.product(points[:i], points[i + 1 :])
            px, py = points[i]
            above = any(
                (py - ly) * (rx - lx) >= (ry - ly) * (px - lx) for (lx, ly), (rx, ry) in between
            )
            if not above:
                expected.append(i - 1)
        assert found == expected


def test_what_opendp_does_not_hand_over_is_not_used(monkeypatch):
    called, errors = [], []
    refused = SimpleNamespace(tag=1, ok=0)
    monkeypatch.setattr(_callback, "_object_as_slice", lambda argument: refused)
    monkeypatch.setattr(_callback, "_result_err", lambda *words: errors.append(words))
    double = ctypes.c_double
    _callback._invoke(0, (called.append, double, double, b"f64"))
    assert called == []
    assert b"could not hand over" in errors[0][1]


def test_what_opendp_does_not_take_is_not_released(monkeypatch):
    cell = ctypes.c_double(3.0)
    given = _callback.FfiSlice(ctypes.addressof(cell), 1)
    handed = SimpleNamespace(tag=_callback._OK, ok=ctypes.addressof(given))
    done, errors = [], []
    monkeypatch.setattr(_callback, "_object_as_slice", lambda argument: handed)
    monkeypatch.setattr(_callback, "_slice_free", lambda handle: None)
    monkeypatch.setattr(_callback, "_slice_as_object", lambda *a: SimpleNamespace(tag=1, ok=0))
    monkeypatch.setattr(_callback, "_result_ok", done.append)
    monkeypatch.setattr(_callback, "_result_err", lambda *words: errors.append(words))
    double = ctypes.c_double
    _callback._invoke(0, (lambda value: value + 1, double, double, b"f64"))
    assert done == []
    assert b"could not take" in errors[0][1]
    _callback._invoke(0, (lambda value: 2.5, double, ctypes.c_int32, b"i32"))
    assert len(errors) == 2


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
