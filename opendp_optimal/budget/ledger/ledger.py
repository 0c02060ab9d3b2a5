"""Budgets that cannot be spent twice.

A charge is one conditional update and one line in the log, in one transaction, on disk before the
mechanism runs. There is no refund: whether a release fails may depend on the data.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, lru_cache
from time import time_ns
from typing import TYPE_CHECKING, Any

from opendp_optimal.budget.ledger import tables
from opendp_optimal.budget.ledger.chain import KINDS, Amount, Entry, Kind, as_text, link_of
from opendp_optimal.budget.ledger.tables import Budget, Stored
from opendp_optimal.errors import BudgetError, LedgerError

if TYPE_CHECKING:
    from opendp_optimal.budget.ledger.columns import Columns

__all__ = ["Budget", "Ledger", "Stored"]

LONGEST_NOTE = 10_000
LONGEST_REQUEST = 500
"""Requests are keys: in any alphabet these fit in an index of PostgreSQL."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}")
_KEPT = 200
"""Names whose kind is remembered: it never changes."""


class Ledger:
    """A durable account of privacy budgets, shared by threads, processes and machines.

    Made by :func:`~opendp_optimal.budget.open_ledger`. ``with open_ledger(...) as ledger`` closes
    it at the end.

    :param store: where it is kept
    :param at_least: a generation that was seen before; an older copy is refused
    """

    def __init__(self, store: Any, at_least: int = 0) -> None:
        """Prepare the tables, and look at what is there."""
        self._store = store
        self._seen = at_least
        self._kinds: dict[str, Kind] = {}
        self._turns: dict[tuple[int, str, str], threading.Lock] = {}
        self._prepare()
        with self._reading():
            pass

    @property
    def address(self) -> str:
        """Where it is kept, without a password."""
        return str(self._store.address)

    @property
    def generation(self) -> int:
        """A number that grows with every change: keep it, and an old copy can be told."""
        with self._reading():
            return self._seen

    def __repr__(self) -> str:
        """Where it is."""
        return f"Ledger({self.address!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        """The same ledger: there is one budget, however often what holds it is copied."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its address: another process opens the same ledger."""
        return _reopen, (*self._store.where(), self._seen)

    def __enter__(self) -> Ledger:
        """Use it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def create(
        self,
        name: str,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        note: str = "",
    ) -> None:
        """Open a budget for a data set: epsilon, epsilon and delta, or rho (and delta).

        :param name: letters, digits, spaces, dots, dashes; what it is called from now on
        :param epsilon: the limit, of pure or approximate privacy
        :param delta: the limit of delta
        :param rho: the limit, of zero-concentrated privacy
        :param note: why
        :raises ValueError: if there is one of this name, or an argument makes no sense
        """
        _check_name(name)
        if (epsilon is None) == (rho is None):
            raise ValueError(f"give one of epsilon ({epsilon!r}) and rho ({rho!r})")
        main = "epsilon" if rho is None else "rho"
        kind = KINDS[main if delta is None else f"{main}-delta"]
        limit = kind.limit({"epsilon": epsilon, "delta": delta, "rho": rho})
        detail = _detail(note, kind=kind.name)
        with self._writing() as change:
            made = change.all(
                "INSERT INTO ledger_budgets VALUES (?, ?, ?, ?, 0, 0, NULL) "
                "ON CONFLICT DO NOTHING RETURNING name",
                *(name, kind.name, limit.main, limit.delta),
            )
            if not made:
                raise ValueError(f"name ({name!r}) has a budget already")
            change.append(name, "create", limit, detail)

    def charge(
        self,
        name: str,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        note: str = "",
    ) -> int:
        """Charge a data set, on disk, before anything is released.

        :param name: of the data set
        :param epsilon: the price
        :param delta: the price
        :param rho: the price
        :param note: who, what, which query
        :returns: the generation of the ledger with this charge
        :raises BudgetError: if it costs more than is left; nothing is charged
        """
        kind = self._kind(name)
        price = kind.price({"epsilon": epsilon, "delta": delta, "rho": rho})
        detail = _detail(note)
        with self._writing() as change:
            return _charge(change, name, kind, price, detail)

    def charge_request(
        self, name: str, request: str, question: str, *, note: str = "", **price: float
    ) -> Stored:
        """Charge a request once, however often it is asked.

        :param name: of the data set
        :param request: the key under which the answer is kept
        :param question: identifies what is asked: another one under the same key is refused
        :param note: who, what, which query
        :param price: as for :meth:`charge`
        :returns: the stored answer, or none if it is yet to be drawn
        """
        _check_request(request)
        kind = self._kind(name)
        amount = kind.price(dict(price))
        asked = hashlib.sha256(f"{question}|{amount.main}|{amount.delta}".encode()).hexdigest()
        detail = _detail(note, request=request, question=asked)
        with self._writing() as change:
            found = change.all(
                "SELECT question, number, answer FROM ledger_requests "
                "WHERE name = ? AND request = ?",
                *(name, request),
            )
            if found:
                known, number, answer = found[0]
                if known != asked:
                    raise ValueError(
                        f"request ({request!r}) was used for another question: nothing is charged"
                    )
                return Stored(number, None if answer is None else bytes(answer))
            number = _charge(change, name, kind, amount, detail)
            change.all(
                "INSERT INTO ledger_requests VALUES (?, ?, ?, ?, NULL)",
                *(name, request, asked, number),
            )
            return Stored(number, None)

    def store_answer(self, name: str, request: str, answer: bytes) -> bytes:
        """Keep the answer to a request if there is none yet; return the one that is kept.

        :param name: of the data set
        :param request: a key that was charged
        :param answer: what was drawn
        """
        _check_name(name)
        _check_request(request)
        with self._writing() as change:
            kept = change.all(
                "UPDATE ledger_requests SET answer = ? "
                "WHERE name = ? AND request = ? AND answer IS NULL RETURNING number",
                *(answer, name, request),
            )
            if kept:
                digest = hashlib.sha256(answer).hexdigest()
                change.append(
                    name, "answer", tables.NOTHING, {"request": request, "digest": digest}
                )
                return answer
            found = change.all(
                "SELECT answer FROM ledger_requests WHERE name = ? AND request = ?",
                *(name, request),
            )
        if not found:
            raise ValueError(f"request ({request!r}) was never charged")
        return bytes(found[0][0])

    def answer_once(
        self,
        name: str,
        request: str,
        question: str,
        draw: Callable[[], bytes],
        *,
        note: str = "",
        **price: float,
    ) -> bytes:
        """Charge a request, draw its answer and store it; asked again, return what is stored.

        Threads of this process that ask for the same at once wait for one draw. Other processes
        draw for themselves, and all return what was stored first. After a crash before storing,
        the answer is drawn again under the same charge: what was not stored never left.

        :param name: of the data set
        :param request: the key under which the answer is kept
        :param question: identifies what is asked: another one under the same key is refused
        :param draw: makes the answer
        :param note: who, what, which query
        :param price: as for :meth:`charge`
        """
        _check_request(request)
        _check_name(name)
        key = os.getpid(), name, request
        with self._turns.setdefault(key, threading.Lock()):
            try:
                stored = self.charge_request(name, request, question, note=note, **price)
                if stored.answer is not None:
                    return stored.answer
                return self.store_answer(name, request, draw())
            finally:
                self._turns.pop(key, None)

    def fix_unit(self, name: str, unit: str) -> None:
        """Fix a data set's privacy unit with the first context; refuse another.

        :param name: of the data set
        :param unit: metric and distance, as text
        """
        budget = self.budget(name)
        if budget.unit is None:
            with self._writing() as change:
                fixed = change.all(
                    "UPDATE ledger_budgets SET unit = ? WHERE name = ? AND unit IS NULL "
                    "RETURNING name",
                    *(unit, name),
                )
                if fixed:
                    change.append(name, "unit", tables.NOTHING, {"unit": unit})
            budget = self.budget(name)
        if budget.unit != unit:
            raise ValueError(
                f"privacy_unit ({unit}) must be that of the first context, {budget.unit}"
            )

    def remaining(self, name: str) -> Any:
        """What is left of a budget, rounded down: a number, or a pair with delta.

        :param name: of the data set
        """
        return self.budget(name).remaining

    def budget(self, name: str) -> Budget:
        """A data set's budget as it stands.

        :param name: of the data set
        """
        return self.budgets(name)[0]

    def budgets(self, name: str | None = None) -> list[Budget]:
        """All budgets, by name, or the one of a name.

        :param name: of a data set
        """
        if name is not None:
            _check_name(name)
        with self._reading() as look:
            found = tables.budgets(look, name)
        if name is not None and not found:
            raise ValueError(f"name ({name!r}) has no budget in this ledger")
        return found

    def log(self, name: str | None = None) -> list[Entry]:
        """Every line of the log, or those of a data set.

        :param name: of a data set
        """
        if name is not None:
            _check_name(name)
        with self._reading() as look:
            found = tables.entries(look, name)
        if name is not None and not found:
            raise ValueError(f"name ({name!r}) is not in this ledger")
        return found

    def verify(self) -> int:
        """Check that the log is whole, and that budgets, answers and columns are what it says.

        :returns: the generation
        :raises LedgerError: naming the first thing that is wrong
        """
        from opendp_optimal.budget.ledger.columns import check_columns

        with self._reading() as look:
            check_columns(look, tables.check(look))
            return self._seen

    def columns(self, name: str) -> Columns:
        """Budgets of many people, or anything else that a plugin keeps under a name.

        :param name: letters, digits, spaces, dots, dashes
        """
        from opendp_optimal.budget.ledger.columns import Columns

        _check_name(name)
        return Columns(self, name)

    def context(
        self, name: str, *, data: Any, privacy_unit: Any, domain: Any = None, margins: Any = None
    ) -> Any:
        """An OpenDP Context whose every release is charged here first.

        :param name: of the data set
        :param data: the private data
        :param privacy_unit: (metric, distance), e.g. from ``dp.unit_of``; the first context fixes
            it for the data set
        :param domain: of the data
        :param margins: descriptors of grouped data, as for ``dp.Context.compositor``
        """
        from opendp_optimal.measure.ledgered import ledger_context

        return ledger_context(self, name, data, privacy_unit, domain, margins)

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        self._store.close()

    def _kind(self, name: str) -> Kind:
        _check_name(name)
        if name not in self._kinds:
            if len(self._kinds) >= _KEPT:
                self._kinds.clear()
            self._kinds[name] = self.budget(name).kind
        return self._kinds[name]

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """A transaction that sees one state of the ledger, which is no old copy."""
        noted = self._store.seen()  # before the look begins: others go on
        with self._store.transaction(write=False) as look:
            (generation,), *_ = look.all("SELECT generation FROM ledger_state")
            self._check_age(generation, noted)
            yield look

    @contextmanager
    def _writing(self) -> Iterator[_Change]:
        """A transaction on a ledger that is no old copy; writers take turns."""
        with self._store.transaction(write=True) as transaction:
            (generation, link), *_ = transaction.all(
                f"SELECT generation, link FROM ledger_state{self._store.for_update}"
            )
            noted = self._store.seen()
            self._check_age(generation, noted)
            if noted < generation:
                self._store.note_seen(generation)
            change = _Change(transaction, generation, link)
            yield change
        self._seen = max(self._seen, change.generation)

    def _check_age(self, generation: int, noted: int) -> None:
        """Refuse a ledger that is older than one that was seen."""
        seen = max(self._seen, noted)
        if generation < seen:
            raise LedgerError(
                f"{self.address} is an old copy: it is at generation {generation}, and {seen} was "
                "seen; what was charged since is missing"
            )
        self._seen = generation

    def _prepare(self) -> None:
        with self._store.transaction(write=False) as look:
            if self._known_format(look):
                return
        with self._store.preparing() as change:
            if not self._known_format(change):
                tables.create_tables(change, self._store.types)

    def _known_format(self, look: Any) -> bool:
        """Whether there is a ledger; one of another format is refused."""
        if not self._store.exists(look):
            return False
        rows = look.all("SELECT format FROM ledger_state")
        if rows != [(tables.FORMAT,)]:
            found = ", ".join(str(row[0]) for row in rows) or "none"
            raise ValueError(
                f"{self.address} is a ledger of format {found}; this version reads {tables.FORMAT}"
            )
        return True


def _reopen(address: str, timeout: float, at_least: int) -> Ledger:
    from opendp_optimal.budget.ledger import open_ledger

    return open_ledger(address, at_least=at_least, timeout=timeout)


class _Change:
    """A transaction that writes lines of the log, each linked to the one before."""

    def __init__(self, transaction: Any, generation: int, link: str) -> None:
        self._transaction = transaction
        self.all, self.run = transaction.all, transaction.run
        self.generation, self._link = generation, link

    def append(self, name: str, action: str, amount: Amount, detail: dict[str, Any]) -> int:
        """Write a line and return its number, the new generation."""
        number, text = self.generation + 1, as_text(detail)
        time = _now()
        link = link_of(self._link, number, time, name, action, amount, text)
        self.run(
            "INSERT INTO ledger_log VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *(number, time, name, action, amount.main, amount.delta, text, link),
        )
        self.run("UPDATE ledger_state SET generation = ?, link = ?", number, link)
        self.generation, self._link = number, link
        self._transaction.generation = number
        return number


def _charge(change: _Change, name: str, kind: Kind, price: Amount, detail: dict[str, Any]) -> int:
    paid = change.run(
        "UPDATE ledger_budgets "
        "SET spent_main = spent_main + ?, spent_delta = spent_delta + ? WHERE name = ? "
        "AND kind = ? AND ? <= limit_main - spent_main AND ? <= limit_delta - spent_delta",
        *(price.main, price.delta, name, kind.name, price.main, price.delta),
    )
    if paid:
        return change.append(name, "charge", price, detail)
    found = tables.budgets(change, name)
    if not found or found[0].kind != kind:
        raise LedgerError(f"the budget of {name!r} is not the one that was there before")
    asked, left = kind.floats(price, up=True), found[0].remaining
    raise BudgetError(
        f"{name}: a release at {kind.told} {asked} must cost at most what is left, {left}"
    )


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"name ({_shown(name)}) must be 1 to 100 letters (A to z), digits, spaces, dots, "
            "dashes or underscores, and begin with a letter or a digit"
        )


def _check_request(request: Any) -> None:
    if (
        not isinstance(request, str)
        or not 0 < len(request) <= LONGEST_REQUEST
        or "\0" in request
        or not _encodable(request)
    ):
        raise ValueError(
            f"request ({_shown(request)}) must be a text of 1 to {LONGEST_REQUEST} letters"
        )


def _detail(note: str, **more: Any) -> dict[str, Any]:
    if not isinstance(note, str) or len(note) > LONGEST_NOTE or "\0" in note:
        raise ValueError(f"note must be a text of at most {LONGEST_NOTE} letters")
    if not _encodable(note):
        raise ValueError(f"note ({_shown(note)}) must be a text that can be written as UTF-8")
    return {"note": note, "by": _by(), **more}


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _now() -> str:
    """The time in UTC, to the millisecond."""
    seconds, parts = divmod(time_ns(), 10**9)
    return f"{_second(seconds)}.{parts // 10**6:03d}+00:00"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@cache
def _by() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{platform.node()}"
