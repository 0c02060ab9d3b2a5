import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid

from opendp_optimal import Loss
from opendp_optimal.lazy import late
from opendp_optimal.losses import NAMED, add_loss
from opendp_optimal.losses.base import StoredLoss, from_fingerprint, loss_of
from opendp_optimal.problem.noise import NoiseProblem

CUSTOM = {
    "convex": lambda x: abs(x) ** 1.5,
    "convex, minimum elsewhere": lambda x: (x - 0.3) ** 2,
    "monotone": lambda x: math.sqrt(abs(x)),
    "kinked": lambda x: max(0.0, abs(x) - 1),
}


def losses():
    return [
        *(loss_of(name) for name in ("l1", "l2", "pinball:0.9", "pinball:0.25")),
        *(Loss(function, name) for name, function in CUSTOM.items()),
        Loss(lambda x: abs(x) + 0.3 * math.sin(3 * x) + 0.3, "wavy", lipschitz=2.0),
    ]


@pytest.mark.parametrize("loss", losses(), ids=lambda loss: loss.name)
@pytest.mark.parametrize("cells", [1, 3, 10])
def test_lattice_costs_bound_the_loss(loss, cells):
    radius = 5 * cells
    cost = loss.on_lattice(cells, radius)
    points = np.arange(-radius, radius + 1) / cells
    lower = np.array(cost.lower, float) / cost.denominator
    upper = np.array(cost.upper, float) / cost.denominator
    x = np.linspace(points[0], points[-1], 20_001)
    values = np.array([loss(float(v)) for v in x])
    assert np.all(np.interp(x, points, lower) <= values + 1e-12)
    for at, bound in zip(points, upper, strict=True):
        inside = np.linspace(at - 0.5 / cells, at + 0.5 / cells, 2001)
        mean = trapezoid([loss(float(v)) for v in inside], inside) * cells
        assert bound >= mean - 1e-6
    assert cost.atom / cost.denominator >= loss(0.0) - 1e-15


@pytest.mark.parametrize("loss", losses(), ids=lambda loss: loss.name)
def test_bounds_close_as_the_lattice_is_refined(loss):
    def worst(cells):
        cost = loss.on_lattice(cells, 2 * cells)
        gap = (np.array(cost.upper, float) - np.array(cost.lower, float)) / cost.denominator
        return gap.max()

    assert worst(40) < 0.6 * worst(10)


def test_integer_costs_are_the_loss():
    for loss in losses():
        cost = loss.on_integers(7)
        for i, low, high in zip(range(-7, 8), cost.lower, cost.upper, strict=True):
            assert low / cost.denominator <= loss(float(i)) + 1e-12
            assert high / cost.denominator >= loss(float(i)) - 1e-12


@given(st.floats(0.01, 0.99))
def test_pinball_mirrors(level):
    loss = loss_of(f"pinball:{level!r}")
    assert loss.mirrored()(1.5) == pytest.approx(loss(-1.5))


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda x: math.tanh(x * x), "grow without bound"),
        (lambda x: min(abs(x), 50.0), "grow without bound"),
        (lambda x: abs(x) + (x > 0.3), "continuous"),
        (lambda x: 1e-30 * (abs(x) + (x > 0.3)), "continuous"),
        (lambda x: np.array([abs(x)]), "a number"),
        (lambda x: None, "a number"),
        (lambda x: -abs(x), "non-negative"),
        (lambda x: math.nan, "finite"),
        (lambda x: abs(x) + 2 * math.sin(3 * x) + 2, "lipschitz"),
    ],
)
def test_what_is_no_loss_is_refused(function, complaint):
    with pytest.raises(ValueError, match=complaint):
        Loss(function)


@pytest.mark.parametrize("name", ["l3", "pinball:", "pinball:1.5", "pinball:nan", 3, None])
def test_unknown_names(name):
    with pytest.raises(ValueError, match=r"loss \("):
        loss_of(name)


@pytest.mark.parametrize("name", ["l1", "l2", "pinball", "pinball:0.9", "pinball:x", 3, None])
def test_names_of_built_in_losses_are_theirs_alone(name):
    with pytest.raises(ValueError, match="name"):
        Loss(lambda x: 100 * abs(x), name)


@pytest.mark.parametrize(
    "name", ["l3", "custom", "pinball", "pinball:", "pinball:1", "pinball:nan"]
)
def test_without_a_function_only_a_built_in_name_will_do(name):
    with pytest.raises(ValueError, match=r"loss \("):
        loss_of(name)
    with pytest.raises(ValueError, match=r"function \(None\)"):
        Loss(None, name)


@pytest.mark.parametrize("name", ["l1", "l2", "pinball", "pinball:0.9", "<lambda>", 3])
def test_a_function_is_not_known_by_its_name(name):
    class Costly:
        def __call__(self, x):
            return 100 * abs(x)

    function = Costly()
    function.__name__ = name
    loss = loss_of(function)
    assert loss.by_samples
    assert loss.spelling == "loss"
    assert loss(1.0) == 100
    assert loss.fingerprint.startswith("custom:")
    assert loss.on_lattice(1, 1).upper[0] >= 100 * loss.on_lattice(1, 1).denominator
    assert loss.mirrored()(-1.0) == 100


def test_levels_are_spelt_one_way():
    assert loss_of("pinball:0.90") == loss_of("pinball:.9")
    assert loss_of("pinball:.9").spelling == "'pinball:0.9'"


def test_a_loss_from_a_file_has_no_function():
    stored = StoredLoss("custom:l1:00")
    assert not stored.at_hand
    assert stored.by_samples
    assert stored.fingerprint == "custom:l1:00"
    for use in (lambda: stored(1.0), lambda: stored.on_lattice(1, 1), lambda: loss_of(stored.name)):
        with pytest.raises(ValueError, match=r"loss \('custom:l1:00'\)"):
            use()


def test_too_small_a_slope_is_refused():
    with pytest.raises(ValueError, match="lipschitz"):
        Loss(lambda x: 3 * abs(x), lipschitz=1.0)


def test_registered_names(monkeypatch):
    for name in ("test:power", "power:", "made", "wrong", "wrong:"):
        monkeypatch.setitem(NAMED, name, None)
        del NAMED[name]  # and again after the test
    power = Loss(lambda x: abs(x) ** 1.25, "test:power")
    for _ in range(2):  # the same one may come again
        add_loss(power, power.name)
        add_loss(late("opendp_optimal.losses.l1:L1"), "l1")
    assert loss_of("test:power") is power
    for taken in ("test:power", "l1", "pinball:"):
        with pytest.raises(ValueError, match="taken"):
            add_loss(Loss(lambda x: abs(x) ** 1.5), taken)
    add_loss(lambda text: Loss(lambda x: abs(x) ** float(text), f"power {text}"), "power:")
    add_loss(lambda: power, "made")
    assert loss_of("power:1.5")(4.0) == 8.0
    assert loss_of("made") is power
    add_loss(lambda text="": "no loss", "wrong:")
    add_loss(lambda: "no loss", "wrong")
    for name in ("wrong", "wrong:1", "power", "made:1", "test", ":", ""):
        with pytest.raises(ValueError, match=r"loss \("):
            loss_of(name)
    with pytest.raises(ValueError, match="fingerprint"):
        from_fingerprint("made")  # files name built-in losses alone


@pytest.mark.parametrize("cells", [None, 3])
def test_no_value_is_asked_for_twice(cells):
    asked = []

    def function(x):
        asked.append(x)
        return abs(x) ** 1.5

    loss = Loss(function)
    probed = len(asked)
    assert loss.symmetric
    assert loss.fingerprint == loss.fingerprint
    whole = 1 if cells is None else None
    problem = NoiseProblem(epsilon=1.0, delta=0.1, loss=loss, integer_sensitivity=whole)
    costs = {radius: problem.cost(cells, radius) for radius in (4, 9, 2)}
    again = asked[probed:]
    assert len(again) == len(set(again))
    for radius, cost in costs.items():
        fresh = Loss(lambda x: abs(x) ** 1.5)
        assert cost == problem.cost(cells, radius)
        assert cost == (
            fresh.on_integers(radius) if cells is None else fresh.on_lattice(cells, radius)
        )
    assert asked[probed:] == again


def test_what_is_remembered_is_bounded_and_left_out_of_pickles():
    problem = NoiseProblem(epsilon=1.0, delta=0.1, loss=loss_of("pinball:0.9"))
    for radius in range(100):
        problem.cost(3, radius)
    assert len(problem._costs) < 10
    copy = pickle.loads(pickle.dumps(problem))
    assert copy == problem
    assert not copy._costs
    assert copy.cost(3, 5) == problem.cost(3, 5)


@given(st.sampled_from(["l1", "l2", "pinball:0.9", "pinball:0.5"]), st.fractions(-9, 9))
def test_losses_agree_with_themselves(name, z):
    """Values in floats, exact ones, scaled ones and those of chords are of the same function."""
    loss = loss_of(name)
    assert float(loss.value(z)) == pytest.approx(loss(float(z)), abs=1e-12)
    assert loss.values(np.array([float(z)]))[0] == loss(float(z))
    assert loss.value(3 * z) == 3**loss.power * loss.value(z)
    assert loss.value(z) + loss.value(-z) == 2 * Fraction(loss.even) * abs(z) ** loss.power
    assert loss.mirrored().value(z) == pytest.approx(loss.value(-z))
    assert loss.symmetric == (loss.lean == 0)
    assert loss.chords(Fraction(1, 3), 2)[1] <= loss.value(Fraction(-1, 3))


def test_losses_in_other_units_can_be_pickled():
    loss = Loss(abs, "size")
    for changed, value in ((loss.scaled(2.0), 2.0), (loss.mirrored(), 1.0)):
        assert pickle.loads(pickle.dumps(changed))(1.0) == value
