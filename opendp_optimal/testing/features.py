"""What an audit looks at in an output: numbers, their lowest bits, and the words for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opendp_optimal.arrays import Floats

_MOST_COORDINATES = 8


@dataclass(frozen=True)
class Outputs:
    """Draws from one input, as columns of numbers under a name each; ``labels`` for the rest."""

    columns: dict[str, Floats]
    labels: tuple[str, ...] | None

    def head(self, count: int) -> Outputs:
        """The first draws: those that teach."""
        return self._part(slice(0, count))

    def tail(self, count: int) -> Outputs:
        """The draws after those: the ones that count."""
        return self._part(slice(count, 2 * count))

    def _part(self, part: slice) -> Outputs:
        columns = {name: column[part] for name, column in self.columns.items()}
        return Outputs(columns, None if self.labels is None else self.labels[part])


def features(outputs: Sequence[Any]) -> Outputs:
    """Turn outputs into columns.

    >>> sorted(features([0.5, 3.0]).columns)
    ['lowest bit', 'value']
    >>> features(["a", "b"]).labels
    ("'a'", "'b'")
    """
    array = _numbers(outputs)
    if array is None:
        return Outputs({}, tuple(repr(output) for output in outputs))
    columns: dict[str, Floats] = {}
    if array.ndim == 1:
        _add(columns, "", array)
    else:
        flat = array.reshape(len(array), -1)
        for i in range(min(flat.shape[1], _MOST_COORDINATES)):
            _add(columns, f" {i}", flat[:, i])
        with np.errstate(all="ignore"):
            columns["sum"] = flat.sum(axis=1)
    return Outputs(columns, None)


def _numbers(outputs: Sequence[Any]) -> Floats | None:
    try:
        array = np.asarray(outputs)
    except ValueError:  # ragged
        return None
    if array.dtype.kind not in "iufb":
        return None
    return array.astype(np.float64)


def _add(columns: dict[str, Floats], suffix: str, values: Floats) -> None:
    columns["value" + suffix] = values
    if np.any(values != np.rint(values)):
        columns["lowest bit" + suffix] = lowest_bit(values)


def lowest_bit(values: Floats) -> Floats:
    """The exponent of the lowest bit set in each float; 2000 for 0, 3000 for what is not finite.

    >>> lowest_bit(np.array([3.0, 0.5, 0.0, 5e-324])).tolist()
    [0.0, -1.0, 2000.0, -1074.0]
    """
    finite = np.isfinite(values)
    part, exponent = np.frexp(np.where(finite, values, 0.0))
    whole = np.abs(part * 2.0**53).astype(np.int64)
    low = whole & -whole
    places = np.log2(np.maximum(low, 1).astype(np.float64)) - 53 + exponent
    return np.where(finite, np.where(whole == 0, 2000.0, places), 3000.0)
