"""The tutorial plugin does what its README says."""

import math

import opendp.prelude as dp
import pytest
from click.testing import CliRunner

import opendp_optimal
from opendp_optimal import plugins
from opendp_optimal_example import HUBER, make_sized_mean
from opendp_optimal_example.quote import quote

dp.enable_features("contrib")

DISTRIBUTION = "opendp-optimal-example"


def names(kind: str) -> list[str]:
    items = getattr(plugins.load(), kind).values()
    return [item.name for item in items if item.distribution == DISTRIBUTION]


def test_every_hook_is_implemented_once() -> None:
    (plugin,) = [p for p in plugins.load().found if p.distribution == DISTRIBUTION]
    assert [hook.rpartition("_")[2] for hook in plugin.hooks] == [
        "commands",
        "losses",
        "mechanisms",
        "tables",
    ]
    assert names("mechanisms") == ["sized_mean"]
    assert names("losses") == ["huber"]
    assert names("commands") == ["quote"]
    assert len(names("tables")) == 1


def test_mean_in_a_context() -> None:
    plugins.load()
    context = dp.Context.compositor(
        data=[20.0, 40.0, 60.0] * 300,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=2.0, delta=1e-6),
        split_evenly_over=2,
        domain=dp.vector_domain(dp.atom_domain(T=float, nan=False)),
    )
    answer = context.query().sized_mean((0.0, 100.0), 900).release()
    # The noise of a bounded table is below its support: a sensitivity of 100/900 times some 20.
    assert answer == pytest.approx(40.0, abs=5.0)
    query = context.query().sized_mean((0.0, 100.0), 900, loss="l2")
    assert query.resolve().map(1) == (1.0, 5e-07)


def test_mean_outside_a_context() -> None:
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    deferred = make_sized_mean(*space, (0.0, 1.0), 10)
    measurement = deferred.fix(1, (1.0, 1e-6))
    assert measurement.map(1) == (1.0, 1e-6)


@pytest.mark.parametrize(
    ("bounds", "size", "named"),
    [
        ((-8e307, 8e307), 3, "bounds"),
        ((1.0, 0.0), 3, "bounds"),
        ((0.0, math.nan), 3, "bounds"),
        ((0.0, 1e-320), 3, "bounds"),
        ((0.0, 1.0), 0, "size"),
        ((0.0, 1.0), -1, "size"),
        ((0.0, 1.0), 2.5, "size"),
    ],
)
def test_bad_arguments_of_the_mean_are_named(bounds, size, named) -> None:
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    with pytest.raises(ValueError, match=named):
        make_sized_mean(*space, bounds, size)


def test_loss_by_name() -> None:
    plugins.load()
    by_name = opendp_optimal.solve(epsilon=1.0, delta=1e-6, loss="huber")
    by_value = opendp_optimal.solve(epsilon=1.0, delta=1e-6, loss=HUBER)
    assert by_name.loss.name == "huber"
    assert by_name.upper == by_value.upper
    by_name.verify()


def test_quote() -> None:
    result = CliRunner().invoke(quote, ["1", "1e-6", "--sensitivity", "100"])
    assert result.exit_code == 0, result.output
    assert float(result.output) == pytest.approx(96.0, abs=0.5)
    assert CliRunner().invoke(quote, ["1", "--sensitivity", "0"]).exit_code == 2
