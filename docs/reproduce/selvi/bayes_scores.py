"""How many records naive Bayes gets wrong, under many draws of its statistics at a time.

The logarithm of a class's probability is linear in (1, x, x^2) and in indicators of categories,
so that products of matrices score all records under all draws. Numbers are scored in double
precision, because small deviations make large coefficients; categories in single precision,
because logarithms of counts are small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from docs.reproduce.selvi.uci import Mixed

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
class _Block:
    """Some records (last axis) of one class: their numbers, (1, x, x^2), and indicators.

    ``impossible`` says which classes never had one of their categories. Draws come first and
    records last in all that follows, so that what is compared and summed is contiguous.
    """

    numbers: Floats
    powers: Floats
    hot: Singles
    impossible: Flags

    @staticmethod
    def of(numbers: Floats, hot: Singles, impossible: Flags) -> _Block:
        turned = np.ascontiguousarray(numbers.T)
        powers = np.concatenate([np.ones((1, len(numbers))), turned, turned**2])
        return _Block(turned, powers, np.ascontiguousarray(hot.T), impossible)


@dataclass(frozen=True)
class _Group:
    """Records of one class and one part of the data, those left out whose prediction is clear.

    ``wrong`` counts those left out that are wrong and all others.
    """

    part: int
    truth: int
    wrong: int
    blocks: tuple[_Block, ...]


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
                kept = np.flatnonzero(chosen & ~clear)
                blocks = tuple(
                    _Block.of(data.numbers[rows], indicators[rows], impossible[:, rows])
                    for rows in np.split(kept, range(_BLOCK, len(kept), _BLOCK))
                    if len(rows)
                )
                wrong = int(chosen.sum()) if truth else len(kept)
                groups.append(_Group(part, truth, wrong, blocks))
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
    if len(linear) == 2:
        linear, chances = linear[1] - linear[0], chances[1] - chances[0]
    reach = None if records.units is None else _reach(known, records.units)
    for group in records.groups:
        wrong[group.part] += group.wrong
        for block in group.blocks:
            ruled_out = _ruled_out(block.numbers, reach) if reach else {}
            scores = linear @ block.powers
            scores += chances @ block.hot
            if linear.ndim == 2:
                right = scores > 0
                right |= block.impossible[0]
                right |= ruled_out.get(0, nobody)
                right &= ~ruled_out.get(1, nobody)
                if group.truth == 0:
                    right = ~right
            else:
                scores[np.repeat(block.impossible[:, None], draws, axis=1)] = -np.inf
                for c, out in ruled_out.items():
                    scores[c][out] = -np.inf
                right = scores.argmax(axis=0) == group.truth
            wrong[group.part] -= right.sum(axis=1)
    return np.asarray(wrong / np.array(records.sizes)[:, None])


def _weights(known: Statistics, features: int) -> tuple[Floats, Singles]:
    """Coefficients of (1, x, x^2), and of indicators (last axis), for each class and draw."""
    fits = -0.5 / known.deviations**2
    constant = (1 - features) * np.log(known.counts)
    constant = constant + (fits * known.means**2 - np.log(known.deviations)).sum(axis=1)
    linear = np.concatenate([constant[:, None], -2 * fits * known.means, fits], axis=1)
    chances = np.log(known.tallies).astype(np.float32)
    turned = linear.transpose(0, 2, 1), chances.transpose(0, 2, 1)
    return np.ascontiguousarray(turned[0]), np.ascontiguousarray(turned[1])


def _reach(known: Statistics, units: Floats) -> tuple[Floats, Floats]:
    """Ends of the intervals outside of which densities are 0 in double precision."""
    heights = np.log(math.sqrt(2 * math.pi) * known.deviations * units[:, None])
    radii = known.deviations * np.sqrt(2 * np.maximum(_SMALLEST - heights, 0.0))
    return known.means - radii, known.means + radii


def _ruled_out(numbers: Floats, reach: tuple[Floats, Floats]) -> dict[int, Flags]:
    """For each class that is ruled out somewhere: under which draws for which records."""
    lowest, highest = numbers.min(axis=1), numbers.max(axis=1)
    found: dict[int, Flags] = {}
    for c, (lower, upper) in enumerate(zip(*reach, strict=True)):
        tight = (lower > lowest[:, None]) | (upper < highest[:, None])
        for v in np.flatnonzero(tight.any(axis=1)):
            some = np.flatnonzero(tight[v])
            outside = numbers[v] < lower[v, some, None]
            outside |= numbers[v] > upper[v, some, None]
            if c not in found:
                found[c] = np.zeros((lower.shape[-1], numbers.shape[1]), dtype=bool)
            found[c][some] |= outside
    return found
