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
from scipy.special import ndtri

from opendp_optimal import GapWarning, NoiseTable, known, solve, solve_bounded
from opendp_optimal_learn.truncated import truncated_table

__all__ = [
    "LAWS",
    "BoundedLaw",
    "Law",
    "bounded_law",
    "fine_part_of_range",
    "law",
]

Floats = npt.NDArray[np.float64]

LAWS = ("gaussian", "analytic-gaussian", "truncated-laplace", "optimal", "laplace")
"""Noise that is the same for all answers."""

ROWS = 1500
"""Rows of a law that stands for noise which is the same for all answers, at most."""


class Law(Protocol):
    """Noise at sensitivity 1."""

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Independent draws."""

    def quantile(self, uniform: Floats) -> Floats:
        """The draws that belong to given numbers in (0, 1): laws are compared on the same ones."""


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
        return self.quantile(rng.random(shape))

    def quantile(self, uniform: Floats) -> Floats:
        return np.asarray(np.interp(uniform * self.chances[-1], self.chances, self.places))


@dataclass(frozen=True)
class _Normal:
    sigma: float

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return self.sigma * rng.standard_normal(shape)

    def quantile(self, uniform: Floats) -> Floats:
        return np.asarray(self.sigma * ndtri(uniform))


@dataclass(frozen=True)
class _Laplace:
    scale: float

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return rng.laplace(scale=self.scale, size=shape)

    def quantile(self, uniform: Floats) -> Floats:
        tail = np.log(2 * np.minimum(uniform, 1 - uniform))
        return np.asarray(self.scale * np.sign(0.5 - uniform) * tail)


@lru_cache(maxsize=256)
def law(name: str, epsilon: float, delta: float) -> Law:
    """The law of a noise at sensitivity 1.

    :param name: one of :data:`LAWS`, or the name of a pinball loss for noise that is optimal for it
    :param epsilon: privacy loss of one release
    :param delta: probability of a larger loss

    >>> import numpy as np
    >>> draws = law("optimal", 1.0, 0.1).sample(np.random.default_rng(0), (100_000,))
    >>> bool(0.68 < abs(draws).mean() < 0.70)
    True
    """
    if name == "optimal":
        return _Tabulated.of(solve(epsilon, delta))
    if name.startswith("pinball:"):
        return _Tabulated.of(solve(epsilon, delta, loss=name))
    if name == "truncated-laplace":
        return _Tabulated.of(truncated_table(epsilon, delta))
    if name == "gaussian":
        return _Normal(known.classical_gaussian_sigma(epsilon, delta))
    if name == "analytic-gaussian":
        return _Normal(known.gaussian_sigma(epsilon, delta))
    if name == "laplace":
        return _Laplace(1.0 / epsilon)
    raise ValueError(f"name ({name!r}) must be one of {', '.join(LAWS)}")


def fine_part_of_range(ratio: float, longest: int = 30) -> float:
    """The same in finer steps, for experiments, which can afford a table for each step.

    :param ratio: length of the range in sensitivities
    :param longest: the longest table to use

    >>> fine_part_of_range(0.5), fine_part_of_range(5.3), fine_part_of_range(500.0)
    (1.0, 5.25, 0.0)
    """
    if ratio > longest:
        return 0.0
    return max(1.0, math.floor(4 * ratio) / 4 if ratio < 16 else math.floor(ratio))


@dataclass(frozen=True)
class BoundedLaw:
    """Releases of answers in [0, length] at sensitivity 1, with noise that depends on them."""

    length: float
    start: float
    step: float
    cumulated: Floats
    rows: int
    revealing: bool

    def release(self, rng: np.random.Generator, answers: Floats) -> Floats:
        """One release for each answer."""
        shifts = rng.random(answers.shape)
        return self.quantile(rng.random(answers.shape), answers, shifts)

    def quantile(self, uniform: Floats, answers: Floats, shifts: Floats) -> Floats:
        """The releases that belong to given numbers in (0, 1) and to given shifts of the grid."""
        shift = shifts * self.step
        cell = np.floor((answers - self.start - shift) / self.step).astype(np.int64) + 1
        cell = np.clip(cell, 0, self.rows - 1)
        found = np.searchsorted(self.cumulated, cell + uniform, side="right")
        columns = self.rows + 2 * self.revealing
        y = np.minimum(found - cell * columns, columns - 1) - self.revealing
        drawn = self.start + shift + (y - 0.5) * self.step
        told = (y < 0) | (y >= self.rows)
        return np.asarray(np.clip(np.where(told, answers, drawn), 0.0, self.length))


@lru_cache(maxsize=256)
def bounded_law(
    epsilon: float, delta: float, length: float, prior: tuple[float, ...] | None = None
) -> BoundedLaw:
    """The law of releases with data-dependent noise.

    :param epsilon: privacy loss of one release
    :param delta: probability of a larger loss
    :param length: of the range, in sensitivities
    :param prior: chances of equal parts of the range; None for all alike
    """
    table = bounded_table(epsilon, delta, length, prior)
    if table.noise is not None:
        return _alike(table.noise, length)
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
        table.revealing,
    )


def _alike(noise: NoiseTable, length: float) -> BoundedLaw:
    """Noise that is the same for all answers, moved into the range: rows that are shifted copies.

    Lattices of more than :data:`ROWS` cells are coarsened.
    """
    coarser = max(1, math.ceil(noise.cells * length / ROWS))
    step = coarser / noise.cells
    bins = math.ceil(length / step)
    size = bins + 1
    moves = np.rint(np.arange(-noise.radius, noise.radius + 1) / coarser).astype(np.int64)
    weights, atom = noise.weights / noise.total, noise.atom / noise.total
    chances = np.zeros((size, size + 2))
    for x in range(size):
        np.add.at(chances[x], 1 + np.clip(x + moves, 0, bins), weights)
        chances[x, [1, -2]] += (1 - weights.sum() - atom) / 2  # an endless tail
    chances[:, [0, -1]] = atom / 2
    cumulated = np.asarray(np.cumsum(chances, axis=1), dtype=np.float64)
    cumulated[:, -1] = 1.0
    flat: Floats = (cumulated + np.arange(size, dtype=np.float64)[:, None]).ravel()
    return BoundedLaw(length, -(bins * step - length) / 2, step, flat, size, True)


def bounded_table(
    epsilon: float, delta: float, length: float, prior: tuple[float, ...] | None = None
) -> Any:
    """The table of data-dependent noise for a range of so many sensitivities.

    :param epsilon: privacy loss of one release
    :param delta: probability of a larger loss
    :param length: of the range, in sensitivities
    :param prior: chances of equal parts of the range; None for all alike
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        return solve_bounded(
            epsilon, delta, sensitivity=1, range=(0, length), prior=prior, gap=0.03
        )
