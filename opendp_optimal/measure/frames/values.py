"""Values of rows as whole numbers, each by a function of the value alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

STEPS = 1 << 20
"""Steps in the range of real values."""
TINY = 2.0**600
"""Ranges below its inverse are made longer before they are divided."""
EXACT = 1 << 22
"""Whole numbers with a range up to this are added as they are."""


@dataclass(frozen=True)
class Value:
    """A column whose rows are counted or added.

    :param name: of the column in the frame
    :param whole: whether its values are integers
    :param nulls: whether its domain has nulls
    :param nans: whether its domain has NaN
    """

    name: str
    whole: bool
    nulls: bool
    nans: bool

    @property
    def gaps(self) -> bool:
        """Whether values may be missing."""
        return self.nulls or self.nans


def there(value: Value) -> Any:
    """Whether a value is a number.

    :param value: the column
    """
    import polars as pl

    found = pl.col(value.name).is_not_null()
    if value.whole:
        return found
    return found & pl.col(value.name).is_not_nan().fill_null(False)


def share_of(value: Value, low: float, high: float) -> Any:
    """Where a value is in its range, from 0 to 1; null where it is missing.

    :param value: the column
    :param low: end of the range
    :param high: end of the range
    """
    import polars as pl

    number = pl.col(value.name).cast(pl.Float64, strict=False).clip(low, high)
    # Never divided: Polars divides a column by a number in one way or another by its length.
    up = TINY if high - low < 1 / TINY else 1.0
    wide = high * up / 2 - low * up / 2
    return (number * (up / 2) - low * up / 2) * (1 / wide)


def centred(value: Value, low: float, high: float) -> tuple[int, Any]:
    """How long a range is, in steps, and twice the distance from its middle.

    :param value: the column
    :param low: end of the range
    :param high: end of the range
    """
    import polars as pl

    wide = high - low
    if value.whole and low == int(low) and high == int(high) and wide <= EXACT:
        number = pl.col(value.name).cast(pl.Float64, strict=False).clip(low, high)
        steps = int(wide)
        place = (number - low) * 2 - steps
    else:
        steps = STEPS
        place = (share_of(value, low, high) * steps).round() * 2 - steps
    return steps, whole(value, place, steps)


def whole(value: Value, place: Any, most: int) -> Any:
    """A whole number of each row, 0 where the value is missing, whatever floats do.

    :param value: the column
    :param place: what the number is made from
    :param most: it is no larger
    """
    import polars as pl

    clipped = place.clip(-most, most).fill_nan(None).cast(pl.Int64, strict=False)
    return pl.when(there(value)).then(clipped).otherwise(0).fill_null(0).clip(-most, most)
