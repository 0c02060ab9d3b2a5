"""Public tables: lists of keys, and tables of unique keys that private rows are joined with.

Whatever is in a public table is known to everybody. A private row finds at most one row there, by
what is sent and not by a promise: so a join neither adds rows to a person nor takes any away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ibis

from opendp_optimal_warehouse.engine import bytes_of, engine_of, read
from opendp_optimal_warehouse.given import MOST_VALUES, constant, constants
from opendp_optimal_warehouse.kinds import Kind, check_constants

_TYPES = {
    "whole": "int64",
    "text": "string",
    "boolean": "boolean",
    "date": "date",
    "float": "float64",
}


@dataclass(frozen=True)
class Public:
    """A public table with a row for each key.

    :param key: the column with keys
    :param kinds: of all columns
    :param source: of Ibis, where it is a table of the database
    :param lists: its columns, where it came from here
    """

    key: str
    kinds: dict[str, Kind] = field(hash=False)
    source: Any = field(default=None, repr=False)
    lists: dict[str, tuple[Any, ...]] = field(default_factory=dict, repr=False, hash=False)

    def told(self) -> str:
        """All that is known of it."""
        name = None if self.source is None else self.source.get_name()
        return repr((self.key, sorted(self.kinds.items()), name, sorted(self.lists.items())))

    def rows(self, table: Any) -> Any:
        """Its rows on the engine of another table, one for each key.

        :param table: of Ibis
        """
        if self.source is None:
            return listed(
                table.get_backend(), {n: (kind, self.lists[n]) for n, kind in self.kinds.items()}
            )
        found = self.source.select(
            **{name: read(self.source, name, kind) for name, kind in self.kinds.items()}
        )
        found = found.filter(found[self.key].notnull())
        window = ibis.window(group_by=found[self.key], order_by=found[self.key])
        ranked = found.mutate(rank=ibis.row_number().over(window) + 1)
        return ranked.filter(ranked["rank"].between(1, 1)).drop("rank")


def public_frame(frame: Any, key: str) -> Public:
    """A public table that comes from here: a Polars frame, or lists by name.

    :param frame: with whole numbers, texts, truth values, dates and floats
    :param key: the column with keys; each is there once
    """
    columns = frame.to_dict(as_series=False) if hasattr(frame, "to_dict") else frame
    if not isinstance(columns, Mapping) or key not in columns or len(columns) < 2:
        raise ValueError(f"public must have the column {key!r} and another one")
    lists = {name: _column(name, values, name == key) for name, values in columns.items()}
    if len({len(values) for values in lists.values()}) != 1:
        raise ValueError("public must have columns of the same length")
    if len(set(lists[key])) != len(lists[key]):
        raise ValueError(f"public ({key!r}) must have every key once")
    kinds = {name: _kind(name, values, name == key) for name, values in lists.items()}
    if not kinds[key].listable:
        raise ValueError(f"public ({key!r}) must not have keys of kind {kinds[key].name}")
    return Public(key, kinds, None, lists)


def _column(name: str, values: Any, key: bool) -> tuple[Any, ...]:
    if key:
        return constants(f"public[{name!r}]", values)
    found = [None if v is None else constant(f"public[{name!r}]", v) for v in values]
    if not 1 <= len(found) <= MOST_VALUES:
        raise ValueError(f"public[{name!r}] must have 1 to {MOST_VALUES} values")
    return tuple(found)


def _kind(name: str, values: tuple[Any, ...], key: bool) -> Kind:
    there = [value for value in values if value is not None]
    if not there:
        raise ValueError(f"public[{name!r}] must have a value")
    first = there[0]
    if any(isinstance(value, float) for value in there):
        kind = Kind("float")
    elif isinstance(first, bool):
        kind = Kind("boolean")
    elif isinstance(first, int):
        kind = Kind("whole", min(there), max(there))
    else:
        kind = Kind("text" if isinstance(first, str) else "date")
    check_constants(f"public[{name!r}]", there, kind, listed=key)
    return kind


def listed(backend: Any, columns: Mapping[str, tuple[Kind, tuple[Any, ...]]]) -> Any:
    """Some public columns as a table of an engine; texts as bytes.

    :param backend: of Ibis
    :param columns: their kinds and values, by name
    """
    if backend.name == "pyspark":  # where numbers beside nulls would all become nulls
        texts = {name: _texts(*column) for name, column in columns.items()}
        made = ibis.memtable(texts, schema=dict.fromkeys(texts, "string"))
    else:
        one = ibis.literal(1).name("one").as_table()
        made = one.select(**{name: _array(*column).unnest() for name, column in columns.items()})
    made = made.mutate(**{n: made[n].cast(_TYPES[kind.name]) for n, (kind, _) in columns.items()})
    return made.mutate(
        **{n: bytes_of(made[n], backend.name) for n, (k, _) in columns.items() if k.name == "text"}
    )


def _array(kind: Kind, values: tuple[Any, ...]) -> Any:
    """One constant for all: a thousand would take long to write down.

    Floats and dates are written as texts; whole numbers of 32 bits are typed as such, so that the
    cast to 64 bits is not left out.
    """
    if kind.name == "whole":
        small = all(v is None or abs(v) < 1 << 31 for v in values)
        return ibis.literal(list(values), "array<int32>" if small else "array<int64>")
    if kind.name == "boolean":
        return ibis.literal(list(values), "array<boolean>")
    return ibis.literal(_texts(kind, values), "array<string>")


def _texts(kind: Kind, values: tuple[Any, ...]) -> list[str | None]:
    write = (lambda v: repr(float(v))) if kind.name == "float" else str
    return [None if v is None else write(v) for v in values]


def check_unique(source: Any, key: str, kind: Kind) -> bool:
    """Whether a table of the database has every key once; public.

    :param source: of Ibis
    :param key: the column with keys
    :param kind: of that column
    """
    keys = source.select(key=read(source, key, kind))
    keys = keys.filter(keys.key.notnull())
    found = keys.agg(all=keys.count(), different=keys.key.nunique()).to_pyarrow().to_pylist()[0]
    assert engine_of(source)
    return bool(found["all"] == found["different"])
