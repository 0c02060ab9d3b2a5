"""How many records naive Bayes gets wrong, under many draws of its statistics at a time.

The logarithm of a class's probability is linear in (1, x, x^2) and in indicators of categories,
so that products of matrices score all records under all draws. Numbers are scored in double
precision, because small deviations make large coefficients; categories in single precision,
because logarithms of counts are small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opendp_optimal_learn.uci import Mixed

__all__ = ["Records", "Statistics", "count_errors"]

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_BLOCK = 1024
_SMALLEST = 1075 * math.log(2)
"""Minus the logarithm of what a double rounds to 0."""


@dataclass(frozen=True)
class Statistics:
    """What a classifier knows of each class (first axis), perhaps for many draws (last axis)."""

    counts: Floats
    tallies: Floats
    means: Floats
    deviations: Floats

    @property
    def parts(self) -> tuple[Floats, Floats, Floats, Floats]:
        """All of them, in the order of the constructor."""
        return self.counts, self.tallies, self.means, self.deviations


@dataclass(frozen=True)
class _Group:
    """Records of one class and one part of the data, those left out whose prediction is clear.

    ``lost`` counts those left out that are wrong, ``impossible`` says for the others which
    classes never had one of their categories.
    """

    part: int
    truth: int
    lost: int
    numbers: Floats
    hot: Singles
    impossible: Flags

    def blocks(self) -> Iterator[tuple[Floats, Singles, Flags]]:
        for start in range(0, len(self.hot), _BLOCK):
            rows = slice(start, start + _BLOCK)
            yield self.numbers[rows], self.hot[rows], self.impossible[:, rows]


@dataclass(frozen=True)
class Records:
    """Records of a split, ready to be scored; ``sizes`` are those of its two parts.

    ``units`` are the lengths of ranges in units of the data if densities underflow, else None.
    """

    groups: tuple[_Group, ...]
    sizes: tuple[int, int]
    features: int
    units: Floats | None

    @staticmethod
    def of(
        data: Mixed, labels: Codes, train: Flags, tallies: Floats, units: Floats | None
    ) -> Records:
        """Sort records by part and class.

        :param data: all records
        :param labels: their classes; among classes that are all ruled out the first wins
        :param train: which records are for training
        :param tallies: how often each class has each category in training
        :param units: lengths of ranges in units of the data, or None for no underflow
        """
        hot = [
            np.eye(size, dtype=np.float32)[data.codes[:, j]] for j, size in enumerate(data.sizes)
        ]
        indicators = np.hstack([*hot, np.zeros((data.rows, 0), np.float32)])
        impossible = (tallies == 0).astype(np.float32) @ indicators.T > 0
        # Of two classes the first wins where the second is impossible, even if both are.
        clear = impossible[-1] & (data.classes == 2)
        groups = []
        for part, here in enumerate((train, ~train)):
            for truth in range(data.classes):
                chosen = here & (labels == truth)
                kept = chosen & ~clear
                groups.append(
                    _Group(
                        part,
                        truth,
                        int((chosen & clear).sum()) if truth else 0,
                        data.numbers[kept],
                        indicators[kept],
                        impossible[:, kept],
                    )
                )
        sizes = int(train.sum()), int((~train).sum())
        return Records(tuple(groups), sizes, len(data.sizes), units)


def count_errors(records: Records, known: Statistics) -> Floats:
    """Shares of wrong records in and out of sample (first axis) for each draw.

    :param records: of a split
    :param known: statistics, with an axis of draws
    """
    draws, nobody = known.counts.shape[-1], np.False_
    wrong = np.zeros((2, draws))
    linear, chances = _weights(known, records.features)
    reach = None if records.units is None else _reach(known, records.units)
    for group in records.groups:
        wrong[group.part] += group.lost + len(group.hot)
        for numbers, hot, impossible in group.blocks():
            ruled_out = _ruled_out(numbers, reach) if reach else {}
            if len(linear) == 2:
                votes = _scores(numbers, hot, linear[1] - linear[0], chances[1] - chances[0]) > 0
                votes |= impossible[0][:, None]
                votes |= ruled_out.get(0, False)
                votes &= ~ruled_out.get(1, nobody)
                right = votes if group.truth == 1 else ~votes
            else:
                scores = _scores(numbers, hot, linear, chances)
                scores[impossible] = -np.inf
                for c, out in ruled_out.items():
                    scores[c][out] = -np.inf
                right = scores.argmax(axis=0) == group.truth
            wrong[group.part] -= right.sum(axis=0)
    return np.asarray(wrong / np.array(records.sizes)[:, None])


def _weights(known: Statistics, features: int) -> tuple[Floats, Singles]:
    """Coefficients of (1, x, x^2), and of indicators, for each class."""
    fits = -0.5 / known.deviations**2
    constant = (1 - features) * np.log(known.counts)
    constant = constant + (fits * known.means**2 - np.log(known.deviations)).sum(axis=1)
    linear = np.concatenate([constant[:, None], -2 * fits * known.means, fits], axis=1)
    return linear, np.log(known.tallies).astype(np.float32)


def _scores(numbers: Floats, hot: Singles, linear: Floats, chances: Singles) -> Floats:
    ones = np.ones((len(numbers), 1))
    scores: Floats = np.hstack([ones, numbers, numbers**2]) @ linear
    return scores + hot @ chances


def _reach(known: Statistics, units: Floats) -> tuple[Floats, Floats]:
    """Ends of the intervals outside of which densities are 0 in double precision."""
    heights = np.log(math.sqrt(2 * math.pi) * known.deviations * units[:, None])
    radii = known.deviations * np.sqrt(2 * np.maximum(_SMALLEST - heights, 0.0))
    return known.means - radii, known.means + radii


def _ruled_out(numbers: Floats, reach: tuple[Floats, Floats]) -> dict[int, Flags]:
    """For each class that is ruled out somewhere: for which records under which draws."""
    lowest, highest = numbers.min(axis=0), numbers.max(axis=0)
    found: dict[int, Flags] = {}
    for c, (lower, upper) in enumerate(zip(*reach, strict=True)):
        tight = (lower > lowest[:, None]) | (upper < highest[:, None])
        for v in np.flatnonzero(tight.any(axis=1)):
            some = np.flatnonzero(tight[v])
            column = numbers[:, v, None]
            if c not in found:
                found[c] = np.zeros((len(numbers), lower.shape[-1]), dtype=bool)
            found[c][:, some] |= (column < lower[v, some]) | (column > upper[v, some])
    return found
