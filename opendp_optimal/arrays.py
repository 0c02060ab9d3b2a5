"""Names of types, arrays nobody can write to (also in copies and pickles), rows of HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.intp]
Booleans = NDArray[np.bool_]
Progress = Callable[[str], None]
"""Called with a line of text at each step."""


def frozen_array(values: ArrayLike) -> NDArray[Any]:
    """A copy of the numbers in an array whose memory is immutable.

    Its memory is a ``bytes`` object, so that numpy refuses both to write to it and to make it
    writable again.

    >>> frozen_array([1, 2]).flags.writeable
    False
    """
    array = np.asarray(values)
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


def _frozen(value: Any) -> Any:
    """The same value without a part that can be written to: arrays frozen, lists made tuples."""
    if isinstance(value, np.ndarray):
        return frozen_array(value)
    if not isinstance(value, list):
        return value
    nested = bool(value) and isinstance(value[0], list | np.ndarray)
    return tuple(_frozen(part) for part in value) if nested else tuple(value)


class Frozen:
    """A frozen dataclass whose arrays and lists are frozen too.

    Copies and pickles are built by the constructor, from the fields alone: what was cached is
    left behind, and every array is frozen again.
    """

    def __post_init__(self) -> None:
        """Freeze what can be written to."""
        for entry in fields(self):  # type: ignore[arg-type]
            object.__setattr__(self, entry.name, _frozen(getattr(self, entry.name)))

    def __reduce__(self) -> tuple[Any, ...]:
        """How to build it again."""
        return type(self), tuple(getattr(self, entry.name) for entry in fields(self))  # type: ignore[arg-type]


class Valued(Frozen):
    """A frozen dataclass (with ``eq=False``) that equals what has its class and equal fields."""

    def __eq__(self, other: object) -> bool:
        """Equal content."""
        return type(other) is type(self) and _contents(self) == _contents(other)

    def __hash__(self) -> int:
        """By content."""
        return hash(_contents(self))


def _contents(value: Any) -> tuple[Any, ...]:
    parts = (getattr(value, entry.name) for entry in fields(value))
    return tuple(
        (p.dtype.str, p.shape, p.tobytes()) if isinstance(p, np.ndarray) else p for p in parts
    )


def html_rows(rows: Iterable[tuple[str, ...]]) -> str:
    """Rows as a small table of HTML, the first cell of each as its head.

    >>> html_rows([("loss", "a < b")])
    '<table><tr><th>loss</th><td>a &lt; b</td></tr></table>'
    """
    from html import escape

    lines = []
    for head, *rest in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        lines.append(f"<tr><th>{escape(head)}</th>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"
