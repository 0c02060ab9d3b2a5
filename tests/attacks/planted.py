"""Mechanisms with a planted bug each, and what they claim: an audit must refute every one.

Each entry draws many at once, because the bugs are small and the draws many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opendp_optimal import NoiseTable, solve
from opendp_optimal.sample.weights import WeightedSampler

STEPS = 4097


@dataclass(frozen=True)
class Planted:
    """A mechanism, two neighbours, and the claim that is false (or true, for the honest ones)."""

    name: str
    batch: Callable[[Any, int], Any]
    epsilon: float
    delta: float
    draws: int
    x: Any = 0
    x_prime: Any = 1
    table: NoiseTable | None = None
    fork: bool = False

    def __call__(self, x: Any) -> Any:
        """Release once."""
        return self.batch(x, 1)[0]


def _real(epsilon: float, delta: float) -> NoiseTable:
    return solve(epsilon, delta, gap=0.05, cache=False)


def _grid(table: NoiseTable, unit: float = 1.0) -> Callable[[Any, int], Any]:
    """Noise on a grid for a sensitivity of ``unit``; one conversion to floats at the very end."""

    def batch(x: Any, count: int) -> Any:
        steps = round(x / unit * table.cells * STEPS)
        return (steps + table.draw(count, steps=STEPS)) / (table.cells * STEPS) * unit

    return batch


def _whole(table: NoiseTable) -> Callable[[Any, int], Any]:
    return lambda x, count: x + table.draw(count)


def honest() -> list[Planted]:
    """The same mechanisms without a bug: none may be refuted."""
    real, whole = _real(1.0, 1e-3), solve(1.0, 1e-3, integer_sensitivity=4, cache=False)
    return [
        Planted("real noise", _grid(real), 1.0, 1e-3, 600_000, table=real),
        Planted("integer noise", _whole(whole), 1.0, 1e-3, 600_000, 0, 4, whole),
        Planted("one release at a time", _grid(real), 1.0, 1e-3, 2000, table=real, fork=True),
    ]


def planted() -> list[Planted]:
    """One bug each."""
    real = _real(1.0, 1e-3)
    whole = solve(1.0, 1e-3, integer_sensitivity=4, cache=False)
    short = solve(1.0, 1e-3, integer_sensitivity=3, cache=False)
    return [
        Planted("scale off by 5 %", _grid(real, 1 / 1.05), 1.0, 1e-3, 1_000_000, table=real),
        Planted("one weight moved", moved(whole), 1.0, 1e-3, 600_000, 0, 4, whole),
        Planted("float noise instead of grid noise", floating(real), 1.0, 1e-3, 20_000, 0.0, 1.0),
        Planted("seedable randomness", seeded(whole), 1.0, 1e-3, 2000, 0, 4, fork=True),
        Planted("shift range off by one", _whole(short), 1.0, 1e-3, 200_000, 0, 4, short),
    ]


def moved(table: NoiseTable) -> Callable[[Any, int], Any]:
    """An eighth of the middle weight moved to the outermost point."""
    weights = table.weights.copy()
    part = int(weights[table.radius]) // 8
    weights[table.radius] -= part
    weights[-1] += part
    sampler = WeightedSampler.of(weights)
    return lambda x, count: x + sampler.draw(count) - table.radius


def floating(table: NoiseTable) -> Callable[[Any, int], Any]:
    """The right law, drawn as floats and added as floats."""
    rng = np.random.default_rng()

    def batch(x: Any, count: int) -> Any:
        cells = table.draw(count) + rng.uniform(-0.5, 0.5, count)
        return x + cells / table.cells

    return batch


def seeded(table: NoiseTable) -> Callable[[Any, int], Any]:
    """The right law from a generator that lives in memory."""
    rng = np.random.default_rng(1)
    chance = table.weights / table.total
    chance /= chance.sum()
    return lambda x, count: x + rng.choice(len(chance), count, p=chance) - table.radius
