import math

import pytest

from opendp_optimal_select import check_disutility, cost, offsets


@pytest.mark.parametrize(
    "h",
    [
        float,
        math.sqrt,
        math.log1p,
        lambda t: t**3,
        lambda t: math.expm1(0.5 * t),
        lambda t: t**0.05,
        lambda t: max(0.0, t - 1.0),
        lambda t: max(0.0, t - 25.0),
        lambda t: min(t, 2.0),
    ],
)
def test_good_ones_pass(h):
    check_disutility(h, epsilon=1.0)


@pytest.mark.parametrize("epsilon", [1e-200, 1e-6, 1.0, 1e6, 1e200])
def test_any_unit_of_distance_will_do(epsilon):
    for h in (lambda t: (epsilon * t) ** 2, lambda t: math.sqrt(epsilon * t)):
        check_disutility(h, epsilon=epsilon)
    with pytest.raises(ValueError, match="must be continuous"):
        check_disutility(
            lambda t: epsilon * t + (1.0 if epsilon * t > 1.0 else 0.0), epsilon=epsilon
        )


@pytest.mark.parametrize(
    ("h", "message"),
    [
        (3, "must be a function"),
        (lambda t: t + 1.0, "must be 0 at 0"),
        (lambda t: t * math.exp(-t), "must not decrease"),
        (lambda t: -t, "must not decrease"),
        (lambda t: 0.0, "must increase"),
        (lambda t: 1.0 if t > 0 else 0.0, "must be continuous"),
        (lambda t: t + (1.0 if t > 2.5 else 0.0), "jumps from .* must be continuous"),
        (lambda t: math.sqrt(t) + 0.2 * math.floor(t), "must be continuous"),
        (lambda t: t * t + (0.5 if t > 1.0 else 0.0), "jumps from .* must be continuous"),
        (lambda t: t**3 + (0.05 if t > 0.3 else 0.0), "jumps from .* must be continuous"),
        (lambda t: math.nan, "must be finite"),
        (lambda t: math.expm1(t * t), "must be finite|more slowly"),
        (lambda t: math.expm1(2.0 * t), "more slowly than"),
        (lambda t: math.expm1(t), "more slowly than"),
        (lambda t: 1.0 / (t - 0.0), "raises ZeroDivisionError"),
        (lambda t: None, "raises TypeError"),
    ],
)
def test_bad_ones_are_refused_everywhere(h, message):
    for function in (offsets, cost):
        with pytest.raises(ValueError, match=message):
            function(3, epsilon=1.0, disutility=h)
