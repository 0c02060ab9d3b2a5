"""The least epsilon that reaches an error."""

import math

import pytest

from opendp_optimal import epsilon_for, solve


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "delta", "sensitivity", "loss"),
    [(1.0, 0.0, 1.0, "l1"), (0.7, 0.1, 1.0, "l1"), (19_000.0, 1e-6, 100.0, "l2")],
)
def test_reached_and_hardly_more(error: float, delta: float, sensitivity: float, loss: str) -> None:
    epsilon = epsilon_for(error, delta=delta, sensitivity=sensitivity, loss=loss)
    unit = sensitivity ** (2 if loss == "l2" else 1)
    assert solve(epsilon, delta, loss=loss).upper * unit <= error * (1 + 1e-3)
    assert solve(epsilon * 0.995, delta, loss=loss, gap=1e-2).upper * unit > error


def test_what_makes_no_sense_is_named() -> None:
    for bad in (0.0, -1.0, math.nan, math.inf, "1"):
        with pytest.raises(ValueError, match="error"):
            epsilon_for(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="delta"):
        epsilon_for(1.0, delta=1.5)
    with pytest.raises(ValueError, match="sensitivity"):
        epsilon_for(1.0, sensitivity=0.0)
    with pytest.raises(ValueError, match="loss"):
        epsilon_for(1.0, loss=lambda x: abs(x) ** 1.5)
    assert epsilon_for(1e9) == 1e-4
