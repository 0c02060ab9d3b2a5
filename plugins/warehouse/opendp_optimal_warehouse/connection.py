"""Connections to databases that hold private tables."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ibis
from ibis.backends import BaseBackend
from ibis.expr import operations as ops

from opendp_optimal.budget import Ledger
from opendp_optimal_warehouse.engine import kind_from
from opendp_optimal_warehouse.errors import WarehouseError, quietly
from opendp_optimal_warehouse.kinds import Kind
from opendp_optimal_warehouse.public import Public, check_unique
from opendp_optimal_warehouse.steps import Columns
from opendp_optimal_warehouse.table import Table

ENGINES = ("duckdb", "postgres", "pyspark")
"""Engines of Ibis that the tests of conformance have passed on."""


class Warehouse:
    """A database, or a folder of files. Made by :func:`connect`.

    :param backend: of Ibis
    :param address: where it is, without a password
    :param folder: of Parquet files
    :param owned: whether closing this closes the backend
    """

    def __init__(
        self, backend: Any, address: str, folder: Path | None = None, *, owned: bool = True
    ) -> None:
        """Keep them."""
        self._backend, self._folder, self._owned = backend, folder, owned
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
        """Close the connection, if it was opened here."""
        if self._owned:
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
        opened = self._opener(table)
        source = opened()
        schema, kinds = source.schema(), _kinds(source)
        others = tuple(sorted(set(schema) - set(kinds)))
        again = opened if self._folder is None else None
        if person is None:
            return Table(source, ledger, name, Columns(None, None, kinds, others), again)
        if person not in schema:
            raise ValueError(f"person ({person!r}) must be one of the columns {', '.join(schema)}")
        who = Kind("text") if schema[person].is_uuid() else kinds.pop(person, None)
        if who is None or who.name not in ("whole", "text"):
            raise ValueError(
                f"person ({person!r}, of type {schema[person]}) must hold whole numbers, texts or "
                "UUIDs"
            )
        return Table(source, ledger, name, Columns(person, who, kinds, others), again)

    def public(self, table: str, *, key: str) -> Public:
        """A public table of the database, which private rows can be joined with.

        :param table: its name; everybody may know what is in it
        :param key: the column with keys: each is there once
        """
        source = self._opener(table)()
        kinds = _kinds(source)
        if key not in kinds or not kinds[key].listable or len(kinds) < 2:
            raise ValueError(
                f"key ({key!r}) must be a column of {table!r} with whole numbers, texts, truth "
                "values or dates, and not the only one"
            )
        unique = quietly(
            f"{self.address} does not answer", lambda: check_unique(source, key, kinds[key])
        )
        if not unique:
            raise ValueError(f"key ({key!r}) must have every value once in {table!r}")
        return Public(key, kinds, source)

    def _opener(self, table: str) -> Callable[[], Any]:
        if not isinstance(table, str) or not table:
            raise ValueError(f"table ({table!r}) must be the name of a table")
        if self._folder is not None:
            files = _files(self._folder, table)
            if self._backend.name == "pyspark":  # which takes one path, of a folder or a file
                parts = self._folder / table
                files = str(parts) if parts.is_dir() else files[0]
            return lambda: quietly(
                f"the files of {table!r} could not be read as Parquet",
                lambda: self._backend.read_parquet(files),
            )
        names = quietly(f"{self.address} does not list its tables", self._backend.list_tables)
        if table not in names:
            shown = ", ".join(sorted(names)[:20]) or "none"
            raise ValueError(f"table ({table!r}) must be one of those that are there: {shown}")
        return lambda: quietly(
            f"{self.address} does not describe table {table!r}",
            lambda: self._backend.table(table),
        )


def _kinds(source: Any) -> dict[str, Kind]:
    """The columns that can be computed with."""
    found = {column: kind_from(dtype) for column, dtype in source.schema().items()}
    return {column: kind for column, kind in found.items() if kind is not None}


def _files(folder: Path, table: str) -> Any:
    """What Ibis reads: a list of files."""
    if Path(table).name != table or table in (".", ".."):
        raise ValueError(f"table ({table!r}) must be a name in the folder")
    parts, single = folder / table, folder / f"{table}.parquet"
    if parts.is_dir():
        files = sorted(parts.glob("**/*.parquet"))
    else:
        files = [path for path in (single, parts) if path.is_file()]
    if not files:
        raise ValueError(f"table ({table!r}) must be a Parquet file or a folder of such files")
    return [str(path) for path in files]


def connect(url: Any, **settings: Any) -> Warehouse:
    """Open a database that holds private tables; nothing is ever written to it.

    :param url: ``duckdb:///people.db``, ``postgresql://user@host/database``, the path of a DuckDB
        file, or that of a folder with Parquet files; ``spark:///folder`` lets Spark read such a
        folder. Or an open connection: a backend of Ibis, or a session of Spark
    :param settings: of DuckDB, such as ``memory_limit="4GB"`` or ``threads=2``; of Spark, such as
        ``master="local[2]"``
    :raises WarehouseError: if there is no connection

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> connect(folder.name).close()
    >>> folder.cleanup()
    """
    if isinstance(url, BaseBackend):
        _refuse(settings)
        return Warehouse(checked_backend(url), url.name, owned=False)
    if type(url).__name__ == "SparkSession":
        _refuse(settings)
        return Warehouse(_spark_backend(url), "spark", owned=False)
    if not isinstance(url, str | os.PathLike):
        raise ValueError(f"url ({type(url).__name__}) must be an address, a path or a connection")
    text = os.fspath(url)
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError("url must be an address of a database, or a path")
    scheme, found, rest = text.partition("://")
    if not found:
        return _duckdb(Path(text), settings)
    if scheme == "duckdb":
        return _duckdb(Path(rest.removeprefix("/")), settings)
    if scheme == "spark":
        return _spark(Path(rest.removeprefix("/")), settings)
    if scheme in ("postgres", "postgresql"):
        _refuse(settings)
        return _postgres(text)
    raise ValueError(f"url must begin with duckdb://, postgresql:// or spark://, not {scheme}://")


def _refuse(settings: dict[str, Any]) -> None:
    if settings:
        raise ValueError(f"settings ({', '.join(settings)}) are for DuckDB and Spark")


def checked_backend(backend: Any) -> Any:
    """A backend of Ibis that gives the same integers as all others; refuse others.

    :param backend: of Ibis
    """
    if not backend.has_operation(ops.RowNumber):
        raise ValueError(f"url: the backend {backend.name} must have window functions")
    if backend.name not in ENGINES:
        raise ValueError(
            f"url: the backend {backend.name} must be one that the tests of conformance have "
            f"passed on: {', '.join(ENGINES)}"
        )
    if backend.name == "postgres":
        quietly("PostgreSQL does not take settings", lambda: _settle(backend))
    return backend


def _settle(backend: Any) -> None:
    """Settings that the SQL rests on; what is asked only reads."""
    for setting in (
        "default_transaction_read_only = on",
        "standard_conforming_strings = on",  # a backslash in a constant is a backslash
        "client_encoding = 'UTF8'",
        "DateStyle = 'ISO'",
    ):
        backend.raw_sql(f"SET {setting}").close()


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
    encoding = quietly(f"{address} does not answer", lambda: _encoding(backend))
    if encoding != "UTF8":
        backend.disconnect()
        raise ValueError(f"the database must be encoded in UTF8, not {encoding}")
    return Warehouse(checked_backend(backend), address)


def _encoding(backend: Any) -> str:
    with backend.raw_sql("SHOW server_encoding") as cursor:
        return str(cursor.fetchone()[0])


def _spark(path: Path, settings: dict[str, Any]) -> Warehouse:
    if not path.is_dir():
        raise WarehouseError(f"there is no folder {str(path)!r}")
    try:
        from pyspark.sql import SparkSession  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise WarehouseError(
            "Spark is not installed: pip install opendp-optimal-warehouse[spark], and Java 17"
        ) from None

    def start() -> Any:
        builder = SparkSession.builder.appName("opendp-optimal-warehouse")
        builder = builder.master(settings.pop("master", "local[*]"))
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")  # what it says may quote a cell
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
        return session

    session = quietly("Spark did not start: it needs Java 17", start)
    return Warehouse(_spark_backend(session), f"spark:///{path}", path)


def _spark_backend(session: Any) -> Any:
    session.conf.set("spark.sql.session.timeZone", "UTC")
    backend = ibis.pyspark.connect(session)
    return checked_backend(backend)
