"""Answers as Polars frames: keys, values, and what the noise of each stays within."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.measure.frames.noise import Moves, Price, TableNoise, rounded, table_noise

ALPHA = 0.05
"""The chance that an error is larger than the accuracy that stands beside it."""


@dataclass(frozen=True)
class Number:
    """A column of integers that is released as it is.

    :param name: of the column
    :param unit: what one of the integers is worth
    :param whole: whether answers are rounded to integers
    """

    name: str
    unit: float = 1.0
    whole: bool = True


def noisy_frame(
    keys: Any, values: Integers, columns: Sequence[Number], moves: Moves, price: Price
) -> Any:
    """A table of integers with noise, as a Polars frame.

    The frame has the keys, and for each column its values and ``<name>_accuracy``: with a chance
    of 95 % the error of a single value is at most this. Nothing here is charged.

    :param keys: a Polars frame with a row for each group; public
    :param values: integers, a row for each group and a column for each of ``columns``
    :param columns: what the integers are
    :param moves: how far one person moves them
    :param price: what the release may cost
    :raises ValueError: if shapes differ

    >>> import polars as pl
    >>> towns = pl.DataFrame({"town": ["here", "there"]})
    >>> counts = np.array([[512], [40]])
    >>> frame = noisy_frame(towns, counts, [Number("people")], Moves((1,), (1,)), Price(1.0))
    >>> frame.columns, frame["people_accuracy"].to_list()
    (['town', 'people', 'people_accuracy'], [3.0, 3.0])
    """
    table = np.asarray(values)
    if table.shape != (keys.height, len(columns)) or len(columns) != len(moves.row):
        raise ValueError(
            f"values ({table.shape}) must have {keys.height} rows and {len(columns)} columns, and "
            f"moves ({len(moves.row)}) one for each column"
        )
    if not np.issubdtype(table.dtype, np.integer):
        raise ValueError(f"values ({table.dtype}) must be integers")
    noise = table_noise(moves, price, keys.height)
    whole, above = noise.noisy(table.astype(np.int64))
    added = []
    for j, column in enumerate(columns):
        within = noise.accuracy(j, ALPHA) * abs(column.unit)
        added += number_columns(column, whole[:, j], above[:, j], within)
    return keys.with_columns(added)


def number_columns(column: Number, whole: Integers, above: Floats, within: float) -> list[Any]:
    """A column of numbers, and how accurate they are."""
    import polars as pl

    answers: Any
    if column.whole and column.unit == 1:
        answers = whole + (above >= 0.5)
    else:
        exact = (whole + above) * column.unit
        answers = np.rint(exact).astype(np.int64) if column.whole else exact
    if column.whole:  # what is released of parts of a unit moves by up to a half, too
        within = rounded(within) if column.unit == int(column.unit) else within + 0.5
    accuracy = np.full(len(whole), within)
    return [pl.Series(column.name, answers), pl.Series(f"{column.name}_accuracy", accuracy)]


_EACH = 1 << 12
"""Rows of an answer whose accuracy is found one by one where it comes from many columns."""


def combined_accuracy(noise: TableNoise, weights: dict[int, Floats], alpha: float) -> Floats:
    """What a weighed sum of the noise of some columns stays within, for each row.

    :param noise: of the table
    :param weights: of these columns, for each row
    :param alpha: the chance of more
    """
    places = list(weights)
    parts = np.column_stack([weights[j] for j in places])
    sizes = np.sqrt([noise.variance[j] for j in places])
    moved = sizes > 0
    if not moved.any():
        return np.zeros(len(parts))
    used = [j for j, some in zip(places, moved, strict=True) if some]
    if len(used) == 1:
        return np.abs(parts[:, moved][:, 0]) * noise.accuracy(used[0], alpha)
    parts = np.abs(parts[:, moved]) * sizes[moved]
    unit = noise.sample[:, used] / sizes[moved]
    length: Floats = np.sqrt((parts * parts).sum(1))
    if parts.shape[1] == 2:  # noise is symmetric in each column: the angle decides
        angles = np.linspace(0, np.pi / 2, 17)
        turned = np.column_stack([np.cos(angles), np.sin(angles)])
        within = np.quantile(np.abs(unit @ turned.T), 1 - alpha, axis=0)
        found: Floats = np.interp(np.arctan2(parts[:, 1], parts[:, 0]), angles, within) * length
        return found
    some = parts if len(parts) <= _EACH else np.median(parts, axis=0, keepdims=True)
    direction = some / np.maximum(np.sqrt((some * some).sum(1)), 1e-300)[:, None]
    few = unit[: 1 << 12]
    each = np.array([np.quantile(np.abs(few @ one), 1 - alpha) for one in direction])
    all_of: Floats = length * (each if len(each) == len(length) else each[0])
    return all_of
