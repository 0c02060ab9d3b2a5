"""What the server can answer with: items at positions, found by binary search or KD-tree.

Answering is post-processing of the signal: nothing here sees private data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from opendp_optimal.extend import Floats, Integers, whole

OptimalMap = Callable[[Floats], "NDArray[Any]"]
"""From an array of values (one per row) to the index of the best item for each."""

_BLOCK = 4096
_LARGEST = np.finfo(np.float64).max
FARTHEST = 2.0**400
"""Vectors from the ends of the floats are taken for this: no squared distance overflows."""


class Items:
    """What all catalogues share: items in the order given."""

    items: Any
    """A sequence, also where none was given."""

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.items)

    def item(self, index: int) -> Hashable:
        """Return the item given at ``index``.

        :param index: place in the order the catalogue was given
        """
        name: Hashable = self.items[index]
        return name


class Rows(Items):
    """Items at points of a space, one row of coordinates each; named by their rows by default."""

    points: ArrayLike

    def __post_init__(self) -> None:
        """Check the points and the items."""
        points = finite_array("points", self.points, dimensions=2)
        names = range(len(points)) if self.items is None else self.items
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "items", distinct_items(names, points))

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return int(np.asarray(self.points).shape[1])

    def position(self, index: int) -> list[float]:
        """Return the coordinates in row ``index``.

        :param index: row of the catalogue
        """
        return [float(x) for x in np.asarray(self.points)[index]]


@dataclass(frozen=True, eq=False)
class Catalogue(Items):
    """Items on a line, each the best one for the values around its position.

    :param positions: one finite number per item, in any order
    :param items: what to answer, distinct and hashable; the positions themselves by default
    :param optimum: the ``OPT`` map from values to item indices (in the order given), for items
        whose best users are not simply the nearest ones; the nearest item by default

    >>> shops = Catalogue([3.0, 1.0, 2.0], ["bakery", "bank", "library"])
    >>> shops.answer(1.9, (-1.0, 0.0, 1.0))
    ['bank', 'library', 'bakery']
    """

    positions: ArrayLike
    items: Sequence[Hashable] | None = None
    optimum: OptimalMap | None = None
    _sorted: Floats = field(init=False, repr=False, compare=False)
    _order: Integers = field(init=False, repr=False, compare=False)
    _rank: Integers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check and sort the catalogue."""
        values = finite_array("positions", self.positions, dimensions=1)
        object.__setattr__(self, "positions", values)
        object.__setattr__(self, "items", distinct_items(self.items, values))
        order = np.argsort(values, kind="stable")
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_sorted", values[order])
        object.__setattr__(self, "_rank", np.argsort(order))

    def position(self, index: int) -> float:
        """Return the position given at ``index``.

        :param index: place in the order the catalogue was given
        """
        return float(np.asarray(self.positions)[index])

    def answer(self, signal: float, offsets: Sequence[float]) -> list[Hashable]:
        """Return ``len(offsets)`` distinct items for one signal.

        :param signal: what the client sent
        :param offsets: where to look, relative to the signal
        """
        return [self.item(i) for i in self.answer_batch([signal], offsets)[0]]

    def answer_batch(self, signals: ArrayLike, offsets: Sequence[float]) -> Integers:
        """Return item indices, one row of ``len(offsets)`` distinct ones per signal.

        Each offset asks for the best item at ``signal + offset``. Where two offsets ask for the
        same item, the items nearest the signal that are not yet in the answer fill up the row.

        :param signals: what the clients sent
        :param offsets: where to look, relative to each signal
        """
        values = finite_array("signals", signals, dimensions=1)
        steps = np.sort(finite_array("offsets", offsets, dimensions=1))
        whole("k", steps.size, most=len(self))
        with np.errstate(over="ignore"):
            # Distances and targets may overflow to infinity at the far ends; order survives that.
            ranks = self._best(np.clip(values[:, None] + steps, -_LARGEST, _LARGEST))
            rows = np.flatnonzero((ranks[:, 1:] == ranks[:, :-1]).any(axis=1))
            for start in range(0, rows.size, _BLOCK):
                block = rows[start : start + _BLOCK]
                ranks[block] = self._fill(values[block], ranks[block])
        return self._order[ranks]

    def _best(self, targets: Floats) -> Integers:
        """Return the places of the best items in the sorted order, in ascending order per row."""
        if self.optimum is None:
            return self._nearest(targets)
        flat = np.asarray(self.optimum(targets.ravel()))
        if flat.shape != (targets.size,) or not np.issubdtype(flat.dtype, np.integer):
            raise ValueError("optimum must return one item index per value")
        if flat.size and (flat.min() < 0 or flat.max() >= len(self)):
            raise ValueError("optimum must return indices of items in the catalogue")
        return np.sort(self._rank[flat].reshape(targets.shape), axis=1)

    def _nearest(self, targets: Floats) -> Integers:
        right = np.minimum(np.searchsorted(self._sorted, targets), len(self) - 1)
        left = np.maximum(right - 1, 0)
        closer = targets - self._sorted[left] <= self._sorted[right] - targets
        return np.asarray(np.where(closer, left, right), dtype=np.int64)

    def _fill(self, signals: Floats, ranks: Integers) -> Integers:
        """Replace repeated ranks (rows are sorted) by the nearest unused ones."""
        k = ranks.shape[1]
        width = min(2 * k, len(self))
        first = np.searchsorted(self._sorted, signals) - k
        window = np.clip(first, 0, len(self) - width)[:, None] + np.arange(width)
        distance = np.abs(self._sorted[window] - signals[:, None])
        used = (window[:, :, None] == ranks[:, None, :]).any(axis=2)
        spare = np.take_along_axis(window, np.lexsort((distance, used), axis=1), axis=1)
        fresh = np.diff(ranks, axis=1, prepend=-1) != 0
        filled = np.take_along_axis(spare, np.cumsum(~fresh, axis=1) - 1, axis=1)
        return np.sort(np.where(fresh, ranks, filled), axis=1)


@dataclass(frozen=True, eq=False)
class VectorCatalogue(Rows):
    """Items at points of a feature space, found through a KD-tree.

    :param points: one row of finite coordinates per item
    :param items: what to answer, distinct and hashable; row numbers by default

    >>> films = VectorCatalogue([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], ["a", "b", "c"])
    >>> sorted(films.answer([0.1, 0.1], [[0.0, 0.0], [0.0, 0.1]]))
    ['a', 'b']
    """

    points: ArrayLike
    items: Sequence[Hashable] | None = None
    _tree: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the points and build the tree."""
        super().__post_init__()
        object.__setattr__(self, "_tree", cKDTree(self.points))

    def answer(self, signal: ArrayLike, offsets: ArrayLike) -> list[Hashable]:
        """Return ``len(offsets)`` distinct items for one signal.

        :param signal: what the client sent
        :param offsets: one row of coordinates per answer, relative to the signal
        """
        return [self.item(i) for i in self.answer_batch(np.asarray([signal]), offsets)[0]]

    def answer_batch(self, signals: ArrayLike, offsets: ArrayLike) -> Integers:
        """Return item indices, one row of ``len(offsets)`` distinct ones per signal.

        :param signals: one row of coordinates per client
        :param offsets: one row of coordinates per answer, relative to each signal
        """
        values = finite_array("signals", signals, dimensions=2)
        steps = finite_array("offsets", offsets, dimensions=2)
        for name, array in (("signals", values), ("offsets", steps)):
            if array.shape[1] != self.dimension:
                raise ValueError(
                    f"{name} ({array.shape[1]} coordinates) must have {self.dimension} coordinates"
                )
        k = whole("k", steps.shape[0], most=len(self))
        values = np.clip(values, -FARTHEST, FARTHEST)
        with np.errstate(over="ignore"):
            targets = np.clip(values[:, None, :] + steps, -FARTHEST, FARTHEST)
        found = self._tree.query(targets)[1].astype(np.int64)
        ordered = np.sort(found, axis=1)
        for row in np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1)):
            near = self._tree.query(values[row], k=k)[1]
            # A dict keeps the order of first appearance and drops repetitions.
            distinct = list(dict.fromkeys([*found[row].tolist(), *near.tolist()]))
            found[row] = distinct[:k]
        return np.asarray(found)


def finite_array(name: str, values: ArrayLike, *, dimensions: int) -> Floats:
    """Return a copy of an array of finite numbers, or raise.

    :param name: what to call it in the message
    :param values: anything that numpy takes
    :param dimensions: how many it must have
    """
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be an array of numbers") from None
    if array.ndim != dimensions or array.size == 0:
        raise ValueError(
            f"{name} (shape {array.shape}) must be a non-empty array of {dimensions} dimension(s)"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite numbers")
    return array


def distinct_items(items: Sequence[Hashable] | None, values: Floats) -> Sequence[Hashable]:
    """Return the items, one for each of the values, or raise.

    :param items: distinct and hashable; None for the values themselves
    :param values: where they are
    """
    names: Sequence[Hashable] = values.tolist() if items is None else items
    if len(names) != len(values):
        raise ValueError(f"items ({len(names)} of them) must be one per position ({len(values)})")
    if isinstance(names, range):
        return names
    try:
        counted = Counter(names)
    except TypeError as error:
        raise ValueError(f"items ({error}) must be hashable") from None
    if len(counted) != len(names):
        raise ValueError(f"items ({counted.most_common(1)[0][0]!r} appears twice) must be distinct")
    return tuple(names)
