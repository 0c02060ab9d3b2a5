"""Asking the engine: several statements on one state of the data, which Ctrl-C can stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from opendp_optimal_warehouse.errors import quietly

_EVERY = 0.1
"""Seconds between looks at an engine that works."""
_JOBS = "opendp-optimal-warehouse"


@dataclass
class Watch:
    """Who waits for an engine.

    :param tick: called again and again meanwhile
    :param interrupted: what ended the wait, Ctrl-C for one
    """

    tick: Callable[[], None] | None = None
    interrupted: BaseException | None = None


_watch: ContextVar[Watch | None] = ContextVar("_watch", default=None)


@contextmanager
def watched(tick: Callable[[], None] | None) -> Iterator[None]:
    """Call a function again and again while an engine works; raise what interrupts it afterwards.

    Not from where it happens: OpenDP is on the way, whose library may swallow it.

    :param tick: takes nothing
    """
    watch = Watch(tick)
    token = _watch.set(watch)
    try:
        yield
    except Exception:
        if watch.interrupted is None:
            raise
    finally:
        _watch.reset(token)
    if watch.interrupted is not None:
        raise watch.interrupted.with_traceback(None)


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
    done, failed = threading.Event(), threading.Event()

    def run() -> None:
        try:
            if backend.name == "pyspark":
                backend._session.sparkContext.setJobGroup(_JOBS, "warehouse", True)
            work()
        except BaseException:  # nothing keeps what was raised
            failed.set()
        finally:
            done.set()

    watch = _watch.get()
    worker = threading.Thread(target=run, daemon=True)
    try:
        worker.start()
        while not done.wait(_EVERY):  # not for the thread: Ctrl-C in a join takes it for ended
            if watch is not None and watch.tick is not None:
                watch.tick()
    except BaseException as error:
        if worker.ident is not None:
            _stop(backend, done)
        if watch is None:
            raise
        watch.interrupted = error
        failed.set()
    if failed.is_set():
        raise RuntimeError("the engine failed")


def _stop(backend: Any, done: threading.Event) -> None:
    """Stop what the engine does, until it has."""
    while not done.is_set():
        if backend.name == "duckdb":
            backend.con.interrupt()
        elif backend.name == "postgres":
            backend.con.cancel_safe()
        else:
            backend._session.sparkContext.cancelJobGroup(_JOBS)
        done.wait(_EVERY)


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
