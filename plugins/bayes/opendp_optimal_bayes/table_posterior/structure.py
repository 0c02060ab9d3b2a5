"""Which cells are alike: a predictor of each cell from the others, and priors that depend on it.

A cell's own value never enters what it is predicted from.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

RADII = (1.1, 1.5, 2.3, 3.7, 6.5, 12.1)
"""Outer radii of the rings of neighbours, in cells."""
_INNER = 2
_STEPS = 4
_DIRECT = 64

Around = tuple[Any, ...]


@dataclass(frozen=True)
class Group:
    """Cells that a cell is compared with.

    :param sums: takes a table to the sums over each cell's group, itself left out
    :param sizes: how many cells there are in each cell's group
    :param far: whether the group is wide enough for means of what was released
    """

    sums: Any
    sizes: Floats
    far: bool = True

    def means(self, table: Floats) -> Floats:
        """Means over the groups; of an empty one, the mean of the whole table without the cell.

        :param table: a number for each cell
        """
        rest = (table.sum() - table) / max(table.size - 1, 1)
        means = self.sums(table) / np.maximum(self.sizes, 1.0)
        return np.asarray(np.where(self.sizes > 0, means, rest))


def _rings(shape: tuple[int, ...]) -> Iterator[Group]:
    """Neighbours on a grid, ring by ring."""
    reach = [min(int(RADII[-1]), size - 1) for size in shape]
    away = np.meshgrid(*(np.arange(-r, r + 1) for r in reach), indexing="ij")
    distance = np.sqrt(sum(d.astype(np.float64) ** 2 for d in away))
    inner = 0.5
    for place, outer in enumerate(RADII):
        ring = (distance > inner) & (distance <= outer)
        inner = outer
        if ring.any():
            kernel = ring[_box(ring)].astype(np.float64)
            sizes = np.rint(_convolved(np.ones(shape), kernel))
            yield Group(lambda table, k=kernel: _convolved(table, k), sizes, place >= _INNER)


def _box(ring: NDArray[np.bool_]) -> tuple[slice, ...]:
    """The smallest box around the middle that holds a ring."""
    ends = []
    for axis, size in enumerate(ring.shape):
        used = np.flatnonzero(ring.any(axis=tuple(a for a in range(ring.ndim) if a != axis)))
        reach = int(np.abs(used - size // 2).max())
        ends.append(slice(size // 2 - reach, size // 2 + reach + 1))
    return tuple(ends)


def _convolved(table: Floats, kernel: Floats) -> Floats:
    """Sums over the neighbours that a symmetric kernel marks; there is nothing beyond the edge."""
    if kernel.sum() <= _DIRECT:
        padded = np.pad(table, [(size // 2, size // 2) for size in kernel.shape])
        out = np.zeros(table.shape)
        for at in zip(*np.nonzero(kernel), strict=True):
            out += padded[tuple(slice(a, a + n) for a, n in zip(at, table.shape, strict=True))]
        return out
    from scipy.signal import fftconvolve

    return np.asarray(fftconvolve(table, kernel, mode="same"))


def _margins(shape: tuple[int, ...]) -> Iterator[Group]:
    """Cells that share one or two coordinates."""
    axes = range(len(shape))
    for fixed in (1, 2):
        for kept in itertools.combinations(axes, fixed):
            rest = tuple(a for a in axes if a not in kept)
            count = int(np.prod([shape[a] for a in rest])) if rest else 1
            if count > 1:
                yield Group(
                    lambda table, r=rest: table.sum(axis=r, keepdims=True) - table,
                    np.full(shape, count - 1.0),
                )


def _labelled(labels: NDArray[Any]) -> Group:
    """Cells with the same label."""
    _, codes = np.unique(labels.ravel(), return_inverse=True)
    counts = np.bincount(codes)

    def sums(table: Floats) -> Floats:
        flat = table.ravel()
        return np.asarray((np.bincount(codes, flat)[codes] - flat).reshape(table.shape))

    sizes: Floats = np.asarray(counts[codes] - 1.0, dtype=np.float64)
    return Group(sums, sizes.reshape(labels.shape))


def _adjacent(matrix: Any, shape: tuple[int, ...]) -> Iterator[Group]:
    """Neighbours in a graph, by the number of steps that lead there."""
    from scipy import sparse

    count = int(np.prod(shape))
    one = sparse.csr_array(matrix, dtype=np.float64)
    one = ((one + one.T) > 0).astype(np.float64)
    nothing = sparse.eye_array(count, format="csr")
    reached, ring = nothing, nothing
    for place in range(_STEPS):
        ring = ((ring @ one) > 0).astype(np.float64)
        ring = ((ring - ring.multiply(reached > 0)) > 0).astype(np.float64).tocsr()
        reached = reached + ring
        if ring.nnz == 0:
            return
        sizes: Floats = (ring @ np.ones(count)).reshape(shape)
        yield Group(
            lambda table, r=ring: np.asarray(r @ table.ravel()).reshape(table.shape),
            sizes,
            place >= 1,
        )


@dataclass(frozen=True)
class Likeness:
    """What was said of which cells are alike.

    :param groups: cells that a cell is compared with, of several kinds
    :param given: predictors that were given
    """

    groups: tuple[Group, ...]
    given: tuple[Floats, ...]

    def columns(self, means: Floats, released: Floats, deviation: float, small: float) -> Floats:
        """What cells are predicted from: a row for each cell.

        :param means: of the posteriors without structure, at least 0
        :param released: what was released
        :param deviation: standard deviation of the noise
        :param small: mean of the prior without structure
        """
        columns = [np.ones(means.size)]
        for group in self.groups:
            columns.append(np.log(_above(group.means(means)) + 0.05 * small + 0.02))
        for group in self.groups:
            if group.far:
                blur = 0.5 * deviation / np.sqrt(np.maximum(group.sizes, 1.0)) + 0.02
                columns.append(np.log(_above(group.means(released)) + blur))
        for given in self.given:
            positive = given[given > 0]
            least = 0.05 * float(positive.mean()) if positive.size else 1.0
            columns.append(np.log(given + least))
        return np.stack([column.ravel() for column in columns], axis=1)


def _above(values: Floats) -> Floats:
    return np.maximum(values, 0.0)


def likeness(like: Any, shape: tuple[int, ...]) -> Likeness:
    """Read which cells are alike.

    :param like: see :func:`~opendp_optimal_bayes.posterior`
    :param shape: of the table
    """
    groups: list[Group] = []
    given: list[Floats] = []
    for each in like if isinstance(like, tuple) else (like,):
        _read(each, shape, groups, given)
    return Likeness(tuple(groups), tuple(given))


def _read(like: Any, shape: tuple[int, ...], groups: list[Group], given: list[Floats]) -> None:
    count = int(np.prod(shape))
    if isinstance(like, str):
        if like not in ("margins", "neighbours"):
            raise ValueError(
                f"like ({like!r}) must be 'margins', 'neighbours', labels, an adjacency matrix or "
                "a predictor, or a tuple of these"
            )
        if like == "margins" and len([size for size in shape if size > 1]) < 2:
            raise ValueError(f"like ('margins') needs a table with two axes, not of shape {shape}")
        groups.extend(_margins(shape) if like == "margins" else _rings(shape))
        return
    if hasattr(like, "tocsr"):
        if like.shape != (count, count):
            raise ValueError(
                f"like (a matrix of shape {like.shape}) must be {count} x {count}, a row and a "
                "column for each cell"
            )
        if not np.isfinite(like.tocsr().data.astype(np.float64)).all():
            raise ValueError("like (a matrix) must be finite")
        groups.extend(_adjacent(like, shape))
        return
    array = np.asarray(like)
    if array.dtype == bool and array.shape == (count, count) and array.shape != shape:
        groups.extend(_adjacent(array, shape))
        return
    if array.shape != shape:
        raise ValueError(f"like (of shape {array.shape}) must have the table's shape, {shape}")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array < 0).any():
            raise ValueError("like (a predictor) must be finite and not negative")
        if array.max() > 1e100:
            raise ValueError(f"like (a predictor of {array.max():g}) must be at most 1e100")
        given.append(np.asarray(array, dtype=np.float64))
    elif array.dtype.kind in "biuUSOMm":
        groups.append(_labelled(array.astype(str) if array.dtype.kind == "O" else array))
    else:
        raise ValueError(f"like (of type {array.dtype}) must be labels or a predictor")


def regress(values: Floats, columns: Floats, variance: Floats) -> Floats:
    """Coefficients b for which exp(columns b) predicts values.

    Scoring with the variance mu + mu^2 / 2 + that of the noise, and a ridge of 1 on all but the
    first column.

    :param values: what was released, from the lower bound on
    :param columns: what it is predicted from; the first is constant
    :param variance: of the noise
    """
    size = columns.shape[1]
    ridge = np.ones(size)
    ridge[0] = 1e-9
    found = np.full(size, 0.8 / max(size - 1, 1))
    found[0] = 0.0
    found[0] = np.log(max(float(values.mean()), 1e-3) / float(_exp(columns @ found).mean()))

    def cost(at: Floats, weight: Floats) -> float:
        return float(((values - _exp(columns @ at)) ** 2 * weight).sum() + (ridge * at**2).sum())

    for _ in range(50):
        mean = _exp(columns @ found)
        weight = 1.0 / (mean + 0.5 * mean**2 + variance)
        scaled = columns * (mean * np.sqrt(weight))[:, None]
        pull = columns.T @ (mean * (values - mean) * weight) - ridge * found
        move = np.linalg.solve(scaled.T @ scaled + np.diag(ridge), pull)
        step, start = 1.0, cost(found, weight)
        while step > 1e-3 and cost(found + step * move, weight) > start:
            step *= 0.5
        found = found + step * move
        if np.abs(step * move).max() < 1e-6:
            break
    return found


_MANY = 125_000


def predict(
    alike: Likeness,
    shape: tuple[int, ...],
    means: Floats,
    released: Floats,
    variance: Floats,
    small: float,
) -> Floats:
    """Predict each cell from those that are alike, above 0.

    :param alike: which cells are
    :param shape: of the table
    :param means: of the posteriors without structure, from the lower bound on
    :param released: what was released, from the lower bound on
    :param variance: of its noise
    :param small: mean of the prior without structure
    """
    deviation = float(np.sqrt(variance.mean()))
    columns = alike.columns(means.reshape(shape), released.reshape(shape), deviation, small)
    # Some coefficients need no more cells than these.
    some = slice(None, None, max(1, len(columns) // _MANY))
    return _exp(columns @ regress(released[some], columns[some], variance[some]))


def predict_place(
    alike: Likeness, shape: tuple[int, ...], means: Floats, released: Floats
) -> Floats:
    """Predict each cell from those that are alike, by a line.

    :param alike: which cells are
    :param shape: of the table
    :param means: of the posteriors without structure
    :param released: what was released
    """
    tables = [each.reshape(shape) for each in (means, released)]
    columns = [np.ones(means.size)]
    for table in tables:
        columns.extend(group.means(table).ravel() for group in alike.groups)
    columns.extend(given.ravel() for given in alike.given)
    matrix = np.stack(columns, axis=1)
    centre = matrix.mean(axis=0)
    spread = np.maximum(matrix.std(axis=0), 1e-300)
    centre[0], spread[0] = 0.0, 1.0
    scaled = (matrix - centre) / spread
    ridge = np.ones(len(spread))
    ridge[0] = 0.0
    found = np.linalg.solve(scaled.T @ scaled + np.diag(ridge), scaled.T @ released)
    return np.asarray(scaled @ found)


def _exp(x: Floats) -> Floats:
    return np.exp(np.clip(x, -30.0, 40.0))
