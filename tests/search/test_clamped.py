"""Noise that is the same for all answers, moved into the range, is always a candidate."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from opendp_optimal import GapWarning, NoiseTable, solve, solve_bounded
from opendp_optimal.table.clamped import law

GAP = 0.05


def noise_of(epsilon: float, delta: float, loss: str, n: int | None = None) -> NoiseTable:
    """What ``solve`` gives with the same options."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        return solve(epsilon, delta, loss=loss, integer_sensitivity=n, gap=GAP, cache=False)


def bounded(epsilon: float, delta: float, **asked: object) -> float:
    """The certified loss of ``solve_bounded``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        table = solve_bounded(epsilon, delta, gap=GAP, cache=False, **asked)  # type: ignore[arg-type]
    table.verify()
    return table.upper


@pytest.mark.parametrize("loss", ["l1", "l2", "pinball:0.8"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (3.0, 0.0), (9.0, 1e-6)])
def test_integers_are_never_worse(epsilon: float, delta: float, loss: str) -> None:
    size, n = 12, 3
    if delta == 0 and loss.startswith("pinball"):
        pytest.skip("noise without end is for l1 and l2")
    noise = noise_of(epsilon, delta, loss, n)
    places, chances = law(noise)
    x = np.arange(size + 1)[:, None]
    errors = np.clip(x + places, 0, size) - x
    plain = float((noise.loss.values(errors) @ chances).mean())
    assert bounded(epsilon, delta, sensitivity=n, range=(0, size), integer=True, loss=loss) <= (
        plain * (1 + 1e-9)
    )


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["l1", "l2", "pinball:0.8"])
@pytest.mark.parametrize(
    ("epsilon", "delta", "length"), [(10.0, 0.0, 40), (6.0, 1e-6, 20), (2.0, 1e-3, 6)]
)
def test_ranges_are_never_worse(epsilon: float, delta: float, length: int, loss: str) -> None:
    if delta == 0 and loss.startswith("pinball"):
        pytest.skip("noise without end is for l1 and l2")
    noise = noise_of(epsilon, delta, loss)
    places, chances = law(noise)
    inside = (np.arange(9) - 4) / 9
    z = ((places[:, None] + inside) / noise.cells).ravel()
    share = np.repeat(chances / 9, 9)
    answers = (np.arange(400) + 0.5) / 400 * length
    plain = 0.0
    for x in answers:
        plain += float(noise.loss.values(np.clip(x + z, 0, length) - x) @ share) / len(answers)
    found = bounded(epsilon, delta, sensitivity=1, range=(0, length), loss=loss)
    assert found <= plain * (1 + 2e-3)


@pytest.mark.slow
def test_where_noise_leaves_the_range_its_loss_is_that_of_the_end() -> None:
    table = solve_bounded(10.0, 0.0, sensitivity=3, range=(0, 60), bins=20, cache=False)
    assert table.noise is not None
    assert table.clamped is not None
    staircase = 3 * math.exp(5.0) / math.expm1(10.0)
    assert 0.98 * staircase < table.upper < staircase < table.largest_conditional_loss
