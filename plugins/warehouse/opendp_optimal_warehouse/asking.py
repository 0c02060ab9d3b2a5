"""Asking the engine: several statements on one state of the data, which Ctrl-C can stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from opendp_optimal_warehouse.errors import quietly

__all__ = ["ask_all", "turn_of", "watched"]

_EVERY = 0.1
"""Seconds between looks at an engine that works."""
_tick: ContextVar[Callable[[], None] | None] = ContextVar("_tick", default=None)


@contextmanager
def watched(tick: Callable[[], None] | None) -> Iterator[None]:
    """Call a function again and again while an engine works.

    :param tick: takes nothing
    """
    token = _tick.set(tick)
    try:
        yield
    finally:
        _tick.reset(token)


def turn_of(backend: Any) -> threading.Lock:
    """Whose turn it is: a connection answers one thread at a time.

    :param backend: of Ibis
    """
    turn: threading.Lock = vars(backend).setdefault("_turn", threading.Lock())
    return turn


def ask_all(queries: list[Any]) -> list[Any]:
    """The answers of an engine to some queries on one state of its tables, as Arrow tables.

    :param queries: of Ibis, all of the same engine
    """
    backend = queries[0].get_backend()
    found: list[Any] = []

    def work() -> None:
        with _snapshot(backend, len(queries)):
            found.extend(query.to_pyarrow() for query in queries)

    with turn_of(backend):
        quietly("the database did not answer the query", lambda: _stoppable(backend, work))
    return found


def _stoppable(backend: Any, work: Callable[[], None]) -> None:
    """Work in another thread; whatever interrupts the wait stops the engine, too."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            if backend.name == "pyspark":
                backend._session.sparkContext.setJobGroup(_group(), "warehouse", True)
            work()
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    tick = _tick.get()
    try:
        while worker.is_alive():
            worker.join(_EVERY)
            if tick is not None:
                tick()
    except BaseException:
        _stop(backend, worker)
        raise
    if failed:
        raise RuntimeError("the engine failed")


def _group() -> str:
    return f"warehouse-{threading.get_ident()}"


def _stop(backend: Any, worker: threading.Thread) -> None:
    """Stop what the engine does, until it has."""
    while worker.is_alive():
        if backend.name == "duckdb":
            backend.con.interrupt()
        elif backend.name == "postgres":
            backend.con.cancel_safe()
        else:
            backend._session.sparkContext.cancelJobGroup(f"warehouse-{worker.ident}")
        worker.join(_EVERY)


@contextmanager
def _snapshot(backend: Any, statements: int) -> Iterator[None]:
    """One state of the data for several statements; one statement has it anyway."""
    if statements == 1 or backend.name == "pyspark":
        yield
    elif backend.name == "postgres":
        from psycopg import IsolationLevel

        backend.con.isolation_level = IsolationLevel.REPEATABLE_READ
        with backend.con.transaction():
            yield
    else:
        backend.con.begin()
        try:
            yield
        finally:
            backend.con.rollback()
