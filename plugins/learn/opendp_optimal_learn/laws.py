"""Laws of noise for experiments: the same tables as in releases, drawn many at a time.

For simulation only. What is released to anybody comes from the measurements, whose randomness is
secure; here a seeded generator is used, so that an experiment can be repeated.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from opendp_optimal import GapWarning, NoiseTable, solve, solve_bounded
from opendp_optimal.spec import baselines
from opendp_optimal_learn.truncated import truncated_table

__all__ = ["LAWS", "BoundedLaw", "Law", "bounded_law", "law", "part_of_range"]

Floats = npt.NDArray[np.float64]

LAWS = ("gaussian", "analytic-gaussian", "truncated-laplace", "optimal", "laplace")
"""Noise that is the same for all answers."""

STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
"""Lengths of a range, in sensitivities, for which there are tables of data-dependent noise."""


class Law(Protocol):
    """Noise at sensitivity 1."""

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Independent draws."""


@dataclass(frozen=True)
class _Tabulated:
    """The exact law of a table: uniform within cells, a point mass at 0."""

    chances: Floats
    places: Floats

    @staticmethod
    def of(table: NoiseTable) -> _Tabulated:
        half = 0.5 / table.cells
        middle = table.radius
        ends = (np.arange(-middle, middle + 2) - 0.5) / table.cells
        weights = table.weights / table.total
        # The point mass is a jump at 0, in the middle of the middle cell.
        steps = np.concatenate(
            [
                weights[:middle],
                [weights[middle] / 2, table.atom / table.total, weights[middle] / 2],
                weights[middle + 1 :],
            ]
        )
        places = np.concatenate([ends[: middle + 1], [0.0, 0.0], [half], ends[middle + 2 :]])
        return _Tabulated(np.concatenate([[0.0], np.cumsum(steps)]), places)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        uniform = rng.random(shape) * self.chances[-1]
        return np.asarray(np.interp(uniform, self.chances, self.places))


@dataclass(frozen=True)
class _Normal:
    sigma: float

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return self.sigma * rng.standard_normal(shape)


@dataclass(frozen=True)
class _Laplace:
    scale: float

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return rng.laplace(scale=self.scale, size=shape)


@lru_cache(maxsize=256)
def law(name: str, epsilon: float, delta: float) -> Law:
    """The law of a noise at sensitivity 1.

    :param name: one of :data:`LAWS`
    :param epsilon: privacy loss of one release
    :param delta: probability of a larger loss

    >>> import numpy as np
    >>> draws = law("optimal", 1.0, 0.1).sample(np.random.default_rng(0), (100_000,))
    >>> bool(0.68 < abs(draws).mean() < 0.70)
    True
    """
    if name == "optimal":
        return _Tabulated.of(solve(epsilon, delta))
    if name == "truncated-laplace":
        return _Tabulated.of(truncated_table(epsilon, delta))
    if name == "gaussian":
        return _Normal(baselines.classical_gaussian_sigma(epsilon, delta))
    if name == "analytic-gaussian":
        return _Normal(baselines.analytic_gaussian_sigma(epsilon, delta))
    if name == "laplace":
        return _Laplace(1.0 / epsilon)
    raise ValueError(f"name ({name!r}) must be one of {', '.join(LAWS)}")


def part_of_range(ratio: float, longest: int = STEPS[-1]) -> int:
    """The largest tabulated length of a range that is not above a ratio; 0 for none.

    A range shorter than the sensitivity counts as exactly as long; one that is longer than all
    tables has next to nothing to gain from noise that depends on the answer.

    :param ratio: length of the range in sensitivities
    :param longest: the longest table to use

    >>> part_of_range(0.5), part_of_range(5.0), part_of_range(500.0)
    (1, 4, 0)
    """
    if ratio > 1.25 * longest:
        return 0
    return max(s for s in STEPS if s <= min(max(ratio, 1.0), longest))


@dataclass(frozen=True)
class BoundedLaw:
    """Releases of answers in [0, length] at sensitivity 1, with noise that depends on them."""

    length: int
    start: float
    step: float
    cumulated: Floats
    rows: int
    telling: bool

    def release(self, rng: np.random.Generator, answers: Floats) -> Floats:
        """One release for each answer."""
        shift = rng.random(answers.shape) * self.step
        cell = np.floor((answers - self.start - shift) / self.step).astype(np.int64) + 1
        cell = np.clip(cell, 0, self.rows - 1)
        found = np.searchsorted(self.cumulated, cell + rng.random(answers.shape), side="right")
        columns = self.rows + 2 * self.telling
        y = np.minimum(found - cell * columns, columns - 1) - self.telling
        drawn = self.start + shift + (y - 0.5) * self.step
        told = (y < 0) | (y >= self.rows)
        return np.asarray(np.clip(np.where(told, answers, drawn), 0.0, self.length))


@lru_cache(maxsize=64)
def bounded_law(epsilon: float, delta: float, length: int) -> BoundedLaw:
    """The law of releases with data-dependent noise.

    :param epsilon: privacy loss of one release
    :param delta: probability of a larger loss
    :param length: of the range, in sensitivities
    """
    table = bounded_table(epsilon, delta, length)
    mechanism: Any = table.mechanism
    unit = math.ldexp(1.0, -table.bits)
    chances = table.weights / table.total
    cumulated = np.asarray(np.cumsum(chances, axis=1), dtype=np.float64)
    cumulated[:, -1] = 1.0
    flat: Floats = (cumulated + np.arange(len(chances), dtype=np.float64)[:, None]).ravel()
    return BoundedLaw(
        length,
        mechanism.start * unit,
        mechanism.step * unit,
        flat,
        len(chances),
        table.telling,
    )


def bounded_table(epsilon: float, delta: float, length: int) -> Any:
    """The table of data-dependent noise for a range of so many sensitivities.

    :param epsilon: privacy loss of one release
    :param delta: probability of a larger loss
    :param length: of the range, in sensitivities
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        return solve_bounded(epsilon, delta, sensitivity=1, range=(0, length), gap=0.03)
