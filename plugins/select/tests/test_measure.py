import importlib
import math

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.context import constructors

import opendp_optimal_select
from opendp_optimal import plugins
from opendp_optimal.hookspecs import PROJECT
from opendp_optimal_select import (
    Catalogue,
    GeographicPrivacy,
    cost,
    expected_cost,
    make_multi_selection,
    then_multi_selection,
    up_to,
)
from opendp_optimal_select import plugin as plugin_module

LETTERS = Catalogue([1.0, 2.0, 3.0, 10.0], ["a", "b", "c", "d"])


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1 / 3, 1.0, 7.3, 1e-6, 1e6])
def test_privacy_map_is_native_and_linear(line, epsilon):
    meas = line >> then_multi_selection(epsilon=epsilon, k=4)
    native = dp.m.make_laplace(*line, scale=1 / epsilon)
    assert meas.map(1.0) <= epsilon
    assert meas.map(1.0) == pytest.approx(epsilon, rel=1e-15)
    for d_in in (0.0, 0.5, 3.0):
        assert meas.map(d_in) == pytest.approx(native.map(d_in), rel=1e-15)
    assert str(meas.output_measure) == "MaxDivergence"


def test_releases_k_numbers_or_k_items(line):
    numbers = make_multi_selection(*line, 1.0, 3)(5.0)
    assert np.diff(numbers) == pytest.approx([math.log(4), math.log(4)])
    for _ in range(20):
        items = make_multi_selection(*line, 0.01, 3, catalogue=LETTERS)(5.0)
        assert len(set(items)) == 3
        assert set(items) <= set("abcd")


def test_extreme_values_neither_warn_nor_fail(line):
    far = Catalogue([-1.7e308, 0.0, 1.7e308], ["low", "zero", "high"])
    for epsilon in (1.0, 1e-300):
        meas = make_multi_selection(*line, epsilon, 3, catalogue=far)
        for value in (-1.79e308, 1.79e308, 0.0, math.inf, -math.inf):
            assert len(set(meas(value))) == 3
            assert len(make_multi_selection(*line, epsilon, 3)(value)) == 3


def test_chains_after_a_transformation():
    space = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0), nan=False), 4)
    chain = (space, dp.symmetric_distance()) >> dp.t.then_mean() >> then_multi_selection(1.0, 5)
    assert len(chain([1.0, 2.0, 3.0, 4.0])) == 5
    assert chain.map(2) == pytest.approx(2.5, rel=1e-6)


@pytest.mark.slow
def test_context_finds_epsilon_by_itself(line):
    context = dp.Context.compositor(
        data=3.0,
        privacy_unit=(line[1], 2.0),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=4,
        domain=line[0],
    )
    assert len(context.query().multi_selection(k=3).release()) == 3
    query = context.query().multi_selection(k=3, disutility=math.sqrt)
    assert query.param() == pytest.approx(0.125)
    assert len(query.release()) == 3
    items = context.query().multi_selection(k=2, catalogue=LETTERS, privacy=up_to(5.0)).release()
    assert len(set(items)) == 2
    assert len(context.query().multi_selection(epsilon=0.1, k=1).release()) == 1


def test_importing_again_is_harmless():
    importlib.reload(opendp_optimal_select)
    assert opendp_optimal_select.then_multi_selection.__name__ == "then_multi_selection"


def test_the_import_enrols_what_the_hook_registers():
    registered = []
    plugin_module.opendp_optimal_register_mechanisms(lambda make: registered.append(make))
    assert registered == [make_multi_selection]
    assert "multi_selection" in constructors


def test_plugin_is_discovered():
    found = plugins.load()
    assert found.mechanisms["multi_selection"].value == make_multi_selection
    assert found.mechanisms["multi_selection"].distribution == "opendp-optimal-select"
    assert found.commands["select"].distribution == "opendp-optimal-select"
    assert not [f for f in found.failures if f.distribution == "opendp-optimal-select"]
    assert hasattr(plugin_module.opendp_optimal_register_mechanisms, f"{PROJECT}_impl")


@pytest.mark.parametrize("k", [1, 2, 3, 6])
@pytest.mark.slow
def test_monte_carlo_through_the_chain(line, k):
    """Mean disutility of real releases against the closed form, false alarm below 1e-6.

    The spread is computed, not estimated: E min |.|^2 follows by integrating the squared distance.
    """
    meas, draws, value = make_multi_selection(*line, 1.0, k), 3000, 17.25
    best = [min(abs(value - a) for a in meas(value)) for _ in range(draws)]
    steps = opendp_optimal_select.offsets(k, epsilon=1.0)
    second = expected_cost(steps, epsilon=1.0, disutility=lambda t: t * t)
    spread = math.sqrt((second - cost(k, epsilon=1.0) ** 2) / draws)
    assert abs(np.mean(best) - cost(k, epsilon=1.0)) < 5.5 * spread


def test_generalised_privacy_uses_the_slope_at_zero(line):
    meas = make_multi_selection(
        *line, 0.5, 3, privacy=GeographicPrivacy(lambda d: math.expm1(2 * d), slope=2.0)
    )
    assert meas.map(1.0) == pytest.approx(1.0)
    assert meas.map(1.0) <= 1.0
    assert np.ptp(meas(0.0)) == pytest.approx(2 * math.log(4))
    threshold = make_multi_selection(*line, 0.5, 3, privacy=up_to(1.0))
    assert threshold.map(10.0) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("bound", "slope", "message"),
    [
        (3, 1.0, "must be a function"),
        (lambda d: d + 1, 1.0, "must be 0 at 0"),
        (lambda d: d, 2.0, "derivative of bound at 0"),
        (lambda d: math.sin(d), 1.0, "derivative of bound|convex|increase"),
        (lambda d: min(d, 1.0), 1.0, "convex"),
        (lambda d: d, 0.0, r"slope \(0.0\) must be positive"),
        (lambda d: math.nan if d > 1 else d, 1.0, "must be a number"),
        (lambda d: math.inf if 1 < d < 2 else d, 1.0, "increase|convex"),
    ],
)
def test_bad_bounds(bound, slope, message):
    with pytest.raises(ValueError, match=message):
        GeographicPrivacy(bound, slope=slope)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": 0}, r"k \(0\) must be in \[1, 10000\]"),
        (
            {"k": 5, "catalogue": LETTERS},
            r"k \(5\) must be at most the size of the catalogue \(4\)",
        ),
        ({"k": 10**9}, r"must be in \[1, 10000\]"),
        ({"epsilon": 0.0}, r"epsilon \(0.0\) must be positive"),
        ({"epsilon": math.nan}, "must be finite"),
        ({"epsilon": 5e-324}, "finite reciprocal"),
        ({"disutility": lambda t: 1.0 - t}, "must be 0 at 0"),
        ({"catalogue": [1.0, 2.0]}, "must be a Catalogue"),
        ({"privacy": 2.0}, "must be a GeographicPrivacy"),
        ({"input_domain": dp.atom_domain(T=float)}, "nan=False"),
        ({"input_domain": dp.atom_domain(T=int)}, "nan=False"),
        ({"input_metric": dp.symmetric_distance()}, "absolute_distance"),
    ],
)
def test_bad_arguments(line, changes, message):
    arguments = {"input_domain": line[0], "input_metric": line[1], "epsilon": 1.0, "k": 3}
    with pytest.raises(ValueError, match=message):
        make_multi_selection(**(arguments | changes))
