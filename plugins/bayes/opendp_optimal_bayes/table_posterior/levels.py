"""Tables with levels, such as counties in states: estimates whose sums agree across levels.

From below, what was released of a group and of its parts is averaged, each by its variance. From
above, each group gets its estimate, and what its parts lack or have too much is spread over them by
their variances, within the bounds. So cells add up to the groups, and groups to those above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.extend import loss_of
from opendp_optimal_bayes.table_posterior.given import numbers
from opendp_optimal_bayes.table_posterior.observed import Observed, read_law
from opendp_optimal_bayes.table_posterior.sums import CAUTION, LEAST_TILES

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_HALVINGS = 128


class Level(NamedTuple):
    """The groups of a level.

    :param labels: of the groups, sorted
    :param estimate: of their sums
    :param deviation: how far off these may be, as standard deviations
    """

    labels: NDArray[Any]
    estimate: Floats
    deviation: Floats


@dataclass(frozen=True)
class Levels:
    """Estimates of cells and of groups of them, which add up.

    :param cells: estimates of the cells, in the table's shape
    :param groups: the levels, from the finest on
    """

    cells: Floats
    groups: tuple[Level, ...]


class _Group(NamedTuple):
    """A level while it is worked on.

    :param labels: of the groups
    :param of_cell: the group of each cell
    :param of_part: the group of each part of the level below
    :param seen: what was released of the sums, and of their parts: the best average
    :param variance: of that
    :param believed: sums of the posterior means
    :param spread: variances of the posteriors, added up
    :param cells: how many cells each has
    """

    labels: NDArray[Any]
    of_cell: Integers
    of_part: Integers
    seen: Floats
    variance: Floats
    believed: Floats
    spread: Floats
    cells: Floats


def add_levels(
    observed: Observed, means: Floats, deviations: Floats, labels: Any, released: Any, noise: Any
) -> Levels:
    """Estimate cells and groups so that they add up.

    :param observed: what was released of the cells
    :param means: of their posteriors
    :param deviations: of their posteriors
    :param labels: the group of each cell; a tuple for several levels, from the finest on
    :param released: what was released of the groups, in the order of their sorted labels, or None;
        a tuple for several levels
    :param noise: of these
    """
    several = isinstance(labels, tuple)
    names = labels if several else (labels,)
    given = (released if several else (released,)) if released is not None else (None,) * len(names)
    noises = (noise if several else (noise,)) if noise is not None else (None,) * len(names)
    if not len(names) == len(given) == len(noises) or not names:
        raise ValueError("labels, released and noise must be given for the same levels")
    if not observed.unbiased:
        raise ValueError("levels need noise with the mean 0, not such that stays within bounds")
    found: list[_Group] = []
    for each, values, law in zip(names, given, noises, strict=True):
        found.append(_grouped(observed, means, deviations, each, values, law, found))
    return _from_above(observed, means, deviations, found)


def _grouped(
    observed: Observed,
    means: Floats,
    deviations: Floats,
    labels: Any,
    released: Any,
    noise: Any,
    below: list[_Group],
) -> _Group:
    """Read a level, and average what was released of it and of its parts."""
    array = np.asarray(labels)
    if array.shape != observed.shape:
        raise ValueError(f"labels (of shape {array.shape}) must have the shape {observed.shape}")
    array = array.astype(str) if array.dtype.kind == "O" else array
    if array.dtype.kind not in "biuUS":
        raise ValueError(f"labels (of type {array.dtype}) must be whole numbers or texts")
    names, of_cell = np.unique(array.ravel(), return_inverse=True)
    if below:
        last = below[-1]
        of_part = np.zeros(len(last.labels), dtype=np.int64)
        of_part[last.of_cell] = of_cell
        if (of_part[last.of_cell] != of_cell).any():
            raise ValueError("labels: a group lies in two groups of the level above")
        parts, variances = last.seen, last.variance
    else:
        of_part, parts, variances = of_cell, observed.raw, observed.variance
    count = len(names)
    seen, variance = (_sums(of_part, each, count) for each in (parts, variances))
    if released is not None:
        values = numbers("released", released, None)
        if values.shape != (count,):
            raise ValueError(f"released (of shape {values.shape}) must have {count} groups")
        if noise is None:
            raise ValueError("noise must be given for what was released of groups")
        own = read_law(noise).expected_loss(loss_of("l2"))
        share = variance / np.maximum(variance + own, 1e-300)
        seen, variance = (1 - share) * seen + share * values, (1 - share) * variance
    believed, spread = (_sums(of_cell, each, count) for each in (means, deviations**2))
    cells = np.bincount(of_cell, minlength=count).astype(np.float64)
    return _Group(names, of_cell, of_part, seen, variance, believed, spread, cells)


def _sums(of: Integers, values: Floats, count: int) -> Floats:
    return np.asarray(np.bincount(of, values, count), dtype=np.float64)


def _own_estimate(group: _Group) -> Floats:
    """Between what was released and the posterior sums, as far as the groups tell."""
    away = (group.seen - group.believed) ** 2
    if len(away) < LEAST_TILES:
        return group.seen
    doubt = CAUTION * float(away.std(ddof=1)) / math.sqrt(len(away))
    differs = np.maximum(group.variance - group.spread, 1e-12 * group.variance)
    bias = max(float((away - differs).mean()) + doubt, 0.0)
    # The bias of a sum grows with the number of its cells.
    wide = bias * group.cells**2 / max(float((group.cells**2).mean()), 1e-300)
    weight = wide / np.maximum(wide + differs, 1e-300)
    return np.asarray(group.believed + weight * (group.seen - group.believed))


def _from_above(
    observed: Observed, means: Floats, deviations: Floats, levels: list[_Group]
) -> Levels:
    lattice = observed.lattice
    low = -math.inf if lattice.low is None else lattice.base + lattice.unit * lattice.low
    high = math.inf if lattice.high is None else lattice.base + lattice.unit * lattice.high
    top = levels[-1]
    wanted = np.clip(_own_estimate(top), low * top.cells, high * top.cells)
    for at in range(len(levels) - 1, 0, -1):
        part = levels[at - 1]
        ends = low * part.cells, high * part.cells
        wanted = _spread(_own_estimate(part), part.variance, *ends, levels[at].of_part, wanted)
    first = levels[0]
    size = np.ones(len(means))
    cells = _spread(means, deviations**2, low * size, high * size, first.of_cell, wanted)
    groups = tuple(
        Level(g.labels, _sums(g.of_cell, cells, len(g.labels)), np.sqrt(g.variance)) for g in levels
    )
    return Levels(cells.reshape(observed.shape), groups)


def _spread(
    values: Floats, weights: Floats, low: Floats, high: Floats, of: Integers, wanted: Floats
) -> Floats:
    """Move values, by their weights and within ends, so that those of each group add up.

    :param values: to be moved
    :param weights: how much each may be moved in comparison with others
    :param low: their least
    :param high: their largest
    :param of: the group of each
    :param wanted: what each group adds up to
    """
    count = len(wanted)
    # Somebody in each group can be moved, however sure they are.
    largest = np.zeros(count)
    np.maximum.at(largest, of, weights)
    safe = np.where(largest > 0, largest, 1.0)
    share = np.maximum(weights / safe[of], 1e-9)

    def moved(by: Floats) -> Floats:
        return np.asarray(np.clip(values + share * by[of], low, high))

    def total(by: Floats) -> Floats:
        return _sums(of, moved(by), count)

    reach = np.abs(wanted) + _sums(of, np.abs(values), count) + 1.0
    first, last = -reach * 1e9, reach * 1e9
    for _ in range(_HALVINGS):
        middle: Floats = (first + last) / 2.0
        enough = total(middle) >= wanted
        first, last = np.where(enough, first, middle), np.where(enough, middle, last)
    return moved(last)
