"""Numbers in SQL, the same on every engine: written as texts and cast.

Ibis prints float constants as decimals, with which DuckDB computes in decimals, and PostgreSQL
would compute with whole numbers of 32 bits.
"""

from __future__ import annotations

from typing import Any

import ibis


def real(number: float) -> Any:
    """A float constant, the same on every engine."""
    text = {"nan": "NaN", "inf": "Infinity"}.get(repr(float(number)), repr(float(number)))
    return ibis.literal(text).cast("float64")


def whole(number: int) -> Any:
    """A constant of 64 bits; PostgreSQL would compute with 32, and fail on a large row."""
    return ibis.literal(str(number)).cast("int64")
