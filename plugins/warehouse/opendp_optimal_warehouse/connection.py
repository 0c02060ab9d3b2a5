"""Connections to databases that hold private tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ibis

from opendp_optimal.budget import Ledger
from opendp_optimal_warehouse.engine import kind_from
from opendp_optimal_warehouse.errors import WarehouseError, quietly
from opendp_optimal_warehouse.kinds import Kind
from opendp_optimal_warehouse.steps import Columns
from opendp_optimal_warehouse.table import Table

__all__ = ["Warehouse", "connect"]

_SCHEMES = ("duckdb", "postgres", "postgresql")


class Warehouse:
    """A database, or a folder of files. Made by :func:`connect`.

    :param backend: of Ibis
    :param address: where it is, without a password
    :param folder: of Parquet files
    """

    def __init__(self, backend: Any, address: str, folder: Path | None = None) -> None:
        """Keep them."""
        self._backend, self._folder = backend, folder
        self.address = address

    def __repr__(self) -> str:
        """Where it is."""
        return f"Warehouse({self.address!r})"

    def __enter__(self) -> Warehouse:
        """Use it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._backend.disconnect()

    def table(self, table: str, *, person: str | None, ledger: Ledger, name: str) -> Table:
        """A private table.

        Only names and types of its columns are read.

        :param table: its name; in a folder, that of a Parquet file or of a folder of such files
        :param person: the column that says whose row it is: whole numbers, texts or UUIDs. Rows
            without a person are never used. None: every row counts for itself
        :param ledger: that every release is charged to
        :param name: of the budget in the ledger
        """
        if not isinstance(ledger, Ledger):
            raise ValueError(f"ledger ({ledger!r}) must be a Ledger, from open_ledger")
        ledger.budget(name)
        source = self._source(table)
        schema = source.schema()
        found = {column: kind_from(dtype) for column, dtype in schema.items()}
        kinds = {column: kind for column, kind in found.items() if kind is not None}
        if person is None:
            return Table(source, ledger, name, Columns(None, None, kinds))
        if person not in schema:
            raise ValueError(f"person ({person!r}) must be one of the columns {', '.join(schema)}")
        who = Kind("text") if schema[person].is_uuid() else kinds.pop(person, None)
        if who is None or who.name not in ("whole", "text"):
            raise ValueError(
                f"person ({person!r}, of type {schema[person]}) must hold whole numbers, texts or "
                "UUIDs"
            )
        return Table(source, ledger, name, Columns(person, who, kinds))

    def _source(self, table: str) -> Any:
        if not isinstance(table, str) or not table:
            raise ValueError(f"table ({table!r}) must be the name of a table")
        if self._folder is not None:
            return self._files(table)
        names = quietly(f"{self.address} does not list its tables", self._backend.list_tables)
        if table not in names:
            shown = ", ".join(sorted(names)[:20]) or "none"
            raise ValueError(f"table ({table!r}) must be one of those that are there: {shown}")
        return quietly(
            f"{self.address} does not describe table {table!r}",
            lambda: self._backend.table(table),
        )

    def _files(self, table: str) -> Any:
        assert self._folder is not None
        if Path(table).name != table or table in (".", ".."):
            raise ValueError(f"table ({table!r}) must be a name in the folder")
        parts, single = self._folder / table, self._folder / f"{table}.parquet"
        if parts.is_dir():
            files = sorted(parts.glob("**/*.parquet"))
        else:
            files = [path for path in (single, parts) if path.is_file()]
        if not files:
            raise ValueError(f"table ({table!r}) must be a Parquet file or a folder of such files")
        return quietly(
            f"the files of {table!r} could not be read as Parquet",
            lambda: self._backend.read_parquet([str(path) for path in files]),
        )


def connect(url: str | os.PathLike[str], **settings: Any) -> Warehouse:
    """Open a database that holds private tables; nothing is ever written to it.

    :param url: ``duckdb:///people.db``, ``postgresql://user@host/database``, the path of a DuckDB
        file, or that of a folder with Parquet files
    :param settings: of DuckDB, such as ``memory_limit="4GB"`` or ``threads=2``
    :raises WarehouseError: if there is no connection

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> connect(folder.name).close()
    >>> folder.cleanup()
    """
    text = os.fspath(url)
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError("url must be an address of a database, or a path")
    scheme, found, _ = text.partition("://")
    if not found:
        return _duckdb(Path(text), settings)
    if scheme not in _SCHEMES:
        raise ValueError(f"url must begin with duckdb:// or postgresql://, not {scheme}://")
    if scheme == "duckdb":
        return _duckdb(Path(text.removeprefix("duckdb://").removeprefix("/")), settings)
    if settings:
        raise ValueError(f"settings ({', '.join(settings)}) are for DuckDB")
    return _postgres(text)


def _duckdb(path: Path, settings: dict[str, Any]) -> Warehouse:
    if path.is_dir():
        backend = quietly(
            f"DuckDB did not start with these settings: {', '.join(settings) or 'none'}",
            lambda: ibis.duckdb.connect(**settings),
        )
        return Warehouse(backend, str(path), path)
    if not path.is_file():
        raise WarehouseError(f"there is no file or folder {str(path)!r}")
    backend = quietly(
        f"{str(path)!r} is no file that DuckDB can open, or somebody writes to it, or the settings "
        f"are unknown: {', '.join(settings) or 'none'}",
        lambda: ibis.duckdb.connect(str(path), read_only=True, **settings),
    )
    return Warehouse(backend, f"duckdb:///{path}")


def _postgres(url: str) -> Warehouse:
    try:
        parts = urlsplit(url)
        place = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("url must be postgresql://user@host:port/database") from None
    port = f":{place[1]}" if place[1] else ""
    address = f"postgresql://{place[0]}{port}{parts.path}"
    backend = quietly(f"no connection to {address}", lambda: ibis.connect(url))
    # What is asked only reads; one statement sees one state of the database.
    quietly(
        f"{address} does not take settings",
        lambda: backend.raw_sql("SET default_transaction_read_only = on").close(),
    )
    return Warehouse(backend, address)
