"""Answers as bytes: what was released comes back exactly as it was."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

_Class = TypeVar("_Class", bound=type)
_storable: dict[str, Any] = {}


def storable(made: _Class) -> _Class:
    """Let a frozen dataclass be stored as an answer, by its name and its fields."""
    _storable[made.__name__] = made
    return made


def to_bytes(answer: Any) -> bytes:
    """Write down numbers, texts, bytes, lists, dictionaries, arrays, frames and what is storable.

    :param answer: what a measurement released
    :raises TypeError: for anything else, such as a queryable

    >>> from_bytes(to_bytes([1, 0.1, (True, "a")]))
    [1, 0.1, (True, 'a')]
    """
    return json.dumps(_plain(answer), allow_nan=False, separators=(",", ":")).encode()


def from_bytes(stored: bytes) -> Any:
    """Read what :func:`to_bytes` wrote.

    :param stored: the bytes
    """
    return _value(json.loads(stored))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(part) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(part)] for key, part in value.items()]}
    if isinstance(value, np.ndarray | np.generic) and np.asarray(value).dtype.kind in "biufU":
        array = np.ascontiguousarray(value)
        content = base64.b64encode(array.tobytes()).decode()
        return {"array": [array.dtype.str, list(np.shape(value)), content]}
    if _storable.get(type(value).__name__) is type(value):
        parts = [_plain(getattr(value, field.name)) for field in fields(value)]
        return {"made": [type(value).__name__, parts]}
    if type(value).__module__.startswith("polars.") and hasattr(value, "write_ipc"):
        arrow = io.BytesIO()
        value.write_ipc(arrow)
        return {"frame": base64.b64encode(arrow.getvalue()).decode()}
    raise TypeError(f"an answer of type {type(value).__name__} cannot be stored")


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(part) for part in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind == "float":
        return float.fromhex(content)
    if kind == "bytes":
        return base64.b64decode(content)
    if kind == "tuple":
        return tuple(_value(part) for part in content)
    if kind == "dict":
        return {_value(key): _value(part) for key, part in content}
    if kind == "array":
        dtype, shape, text = content
        array = np.frombuffer(base64.b64decode(text), dtype).reshape(shape)
        return array.copy() if shape else array[()]
    if kind == "made":
        name, parts = content
        return _storable[name](*(_value(part) for part in parts))
    import polars as pl

    return pl.read_ipc(io.BytesIO(base64.b64decode(content)))
