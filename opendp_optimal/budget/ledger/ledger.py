"""Budgets that cannot be spent twice.

A charge is one conditional update and one line in the log, in one transaction, on disk before the
mechanism runs. There is no refund: whether a release fails may depend on the data.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from opendp_optimal.budget.ledger.chain import BEGINNING, KINDS, Amount, Entry, Kind
from opendp_optimal.errors import BudgetError, LedgerError

if TYPE_CHECKING:
    from opendp_optimal.budget.ledger.columns import Columns

__all__ = ["Budget", "Ledger", "Stored"]

FORMAT = 1
LONGEST_NOTE = 10_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}")
_KEPT = 200
"""Names whose kind is remembered: it never changes."""


@dataclass(frozen=True)
class Budget:
    """A data set's budget as it stands.

    :param name: of the data set
    :param kind: the notion of privacy loss it is kept in
    :param limit: what may be spent
    :param spent: what was charged
    :param unit: the privacy unit that the first context fixed; None before
    """

    name: str
    kind: Kind
    limit: Amount
    spent: Amount
    unit: str | None

    @property
    def remaining(self) -> float | tuple[float, float]:
        """What is left, rounded down."""
        return self.kind.floats(self.limit - self.spent, up=False)


@dataclass(frozen=True)
class Stored:
    """What a request has come to.

    :param number: the line of the log with its charge
    :param answer: the stored answer; None while there is none
    """

    number: int
    answer: bytes | None


class Ledger:
    """A durable account of privacy budgets, shared by threads, processes and machines.

    Made by :func:`~opendp_optimal.budget.open_ledger`.

    :param store: where it is kept
    :param at_least: a generation that was seen before; an older copy is refused
    """

    def __init__(self, store: Any, at_least: int = 0) -> None:
        """Prepare the tables, and look at what is there."""
        self._store = store
        self._seen = at_least
        self._kinds: dict[str, Kind] = {}
        self._prepare()
        with self._reading() as look:
            self._check_age(look)

    @property
    def address(self) -> str:
        """Where it is kept, without a password."""
        return str(self._store.address)

    @property
    def generation(self) -> int:
        """A number that grows with every change: keep it, and an old copy can be told."""
        with self._reading() as look:
            return self._check_age(look)

    def __repr__(self) -> str:
        """Where it is."""
        return f"Ledger({self.address!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        """The same ledger: there is one budget, however often what holds it is copied."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its address: another process opens the same ledger."""
        return _reopen, (*self._store.where(), self._seen)

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
            self._append(change, name, "create", limit, detail)

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
        price = self._kind(name).price({"epsilon": epsilon, "delta": delta, "rho": rho})
        detail = _detail(note)
        with self._writing() as change:
            return self._charge(change, name, price, detail)

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
        if not isinstance(request, str) or not 0 < len(request) <= LONGEST_NOTE:
            raise ValueError(f"request ({request!r}) must be a text of 1 to {LONGEST_NOTE} letters")
        amount = self._kind(name).price(dict(price))
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
            number = self._charge(change, name, amount, detail)
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
        with self._writing() as change:
            kept = change.all(
                "UPDATE ledger_requests SET answer = ? "
                "WHERE name = ? AND request = ? AND answer IS NULL RETURNING number",
                *(answer, name, request),
            )
            if kept:
                digest = hashlib.sha256(answer).hexdigest()
                detail = {"request": request, "digest": digest}
                self._append(change, name, "answer", Amount(0, 0), detail)
                return answer
            found = change.all(
                "SELECT answer FROM ledger_requests WHERE name = ? AND request = ?",
                *(name, request),
            )
        if not found:
            raise ValueError(f"request ({request!r}) was never charged")
        return bytes(found[0][0])

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
                    self._append(change, name, "unit", Amount(0, 0), {"unit": unit})
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
        for budget in self.budgets(name):
            return budget
        raise ValueError(f"name ({name!r}) has no budget in this ledger")

    def budgets(self, name: str | None = None) -> list[Budget]:
        """All budgets, by name, or the one of a name.

        :param name: of a data set
        """
        with self._reading() as look:
            self._check_age(look)
            found = _budgets(look)
        return [budget for budget in found if name is None or budget.name == name]

    def log(self, name: str | None = None) -> list[Entry]:
        """Every line of the log, or those of a data set.

        :param name: of a data set
        """
        with self._reading() as look:
            self._check_age(look)
            entries = _entries(look)
        return [entry for entry in entries if name is None or entry.name == name]

    def verify(self) -> int:
        """Check that the log is whole and that every budget is what its lines add up to.

        :returns: the generation
        :raises LedgerError: naming the first thing that is wrong
        """
        from opendp_optimal.budget.ledger.columns import check_columns

        with self._reading() as look:
            generation = self._check_age(look)
            entries, budgets = _entries(look), {b.name: b for b in _budgets(look)}
            check_columns(look, entries)
        before = BEGINNING
        limits: dict[str, Amount] = {}
        spent: dict[str, Amount] = {}
        for place, entry in enumerate(entries, 1):
            if entry.number != place or entry.digest(before) != entry.link:
                raise LedgerError(f"line {place} of the log was changed, added or removed")
            before = entry.link
            if entry.action == "create":
                limits[entry.name], spent[entry.name] = entry.amount, Amount(0, 0)
            elif entry.action == "charge":
                spent[entry.name] = spent[entry.name] + entry.amount
        if generation != len(entries):
            raise LedgerError(f"the log has {len(entries)} lines where {generation} were written")
        if limits.keys() != budgets.keys():
            raise LedgerError("the log speaks of other budgets than there are")
        for name, budget in budgets.items():
            if (budget.limit, budget.spent) != (limits[name], spent[name]):
                raise LedgerError(f"the budget of {name!r} is not what its lines add up to")
            if not budget.spent.within(budget.limit):
                raise LedgerError(f"the budget of {name!r} is overspent")
        return generation

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
        if name not in self._kinds:
            if len(self._kinds) >= _KEPT:
                self._kinds.clear()
            self._kinds[name] = self.budget(name).kind
        return self._kinds[name]

    def _charge(self, change: Any, name: str, price: Amount, detail: dict[str, Any]) -> int:
        paid = change.all(
            "UPDATE ledger_budgets "
            "SET spent_main = spent_main + ?, spent_delta = spent_delta + ? "
            "WHERE name = ? AND ? <= limit_main - spent_main AND ? <= limit_delta - spent_delta "
            "RETURNING spent_main",
            *(price.main, price.delta, name, price.main, price.delta),
        )
        if not paid:
            rows = change.all(
                "SELECT kind, limit_main - spent_main, limit_delta - spent_delta "
                "FROM ledger_budgets WHERE name = ?",
                name,
            )
            if not rows:
                raise ValueError(f"name ({name!r}) has no budget in this ledger")
            kind = KINDS[rows[0][0]]
            asked, left = kind.floats(price, up=True), kind.floats(Amount(*rows[0][1:]), up=False)
            raise BudgetError(
                f"{name}: a release at {kind.told} {asked} must cost at most what is left, {left}"
            )
        return self._append(change, name, "charge", price, detail)

    def _append(
        self, change: Any, name: str, action: str, amount: Amount, detail: dict[str, Any]
    ) -> int:
        """Write a line of the log, linked to the one before."""
        (number, before), *_ = change.all("SELECT generation, link FROM ledger_state")
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = Entry(number + 1, time, name, action, amount, detail).linked(before)
        change.all(
            "INSERT INTO ledger_log VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *(entry.number, entry.time, name, action, amount.main, amount.delta),
            *(json.dumps(detail, sort_keys=True), entry.link),
        )
        change.all("UPDATE ledger_state SET generation = ?, link = ?", entry.number, entry.link)
        self._seen = max(self._seen, number)
        return entry.number

    def _check_age(self, look: Any) -> int:
        """The generation; refuses a ledger that is older than one that was seen."""
        generation: int = look.all("SELECT generation FROM ledger_state")[0][0]
        seen = max(self._seen, self._store.seen())
        if generation < seen:
            raise LedgerError(
                f"{self.address} is an old copy: it is at generation {generation}, and {seen} was "
                "seen; what was charged since is missing"
            )
        self._seen = generation
        return generation

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        with self._store.transaction(write=False) as look:
            yield look

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        """A transaction on a ledger that is no old copy."""
        with self._store.transaction(write=True) as change:
            self._store.note_seen(self._check_age(change))
            yield change

    def _prepare(self) -> None:
        whole, blob, strict = (self._store.types[t] for t in ("whole", "bytes", "strict"))
        with self._store.preparing() as change:
            change.all(
                f"CREATE TABLE IF NOT EXISTS ledger_state (format {whole} NOT NULL, "
                f"generation {whole} NOT NULL, link TEXT NOT NULL){strict}"
            )
            change.all(
                f"CREATE TABLE IF NOT EXISTS ledger_columns (name TEXT NOT NULL, "
                f"number {whole} NOT NULL, place {whole} NOT NULL, sort TEXT NOT NULL, "
                f"content {blob} NOT NULL, PRIMARY KEY (name, number, place)){strict}"
            )
            rows = change.all("SELECT format FROM ledger_state")
            if rows and rows[0][0] != FORMAT:
                raise ValueError(
                    f"{self.address} is a ledger of format {rows[0][0]}; this version reads "
                    f"{FORMAT}"
                )
            if rows:
                return
            change.all(
                f"CREATE TABLE ledger_budgets (name TEXT PRIMARY KEY, kind TEXT NOT NULL, "
                f"limit_main {whole} NOT NULL, limit_delta {whole} NOT NULL, "
                f"spent_main {whole} NOT NULL CHECK (spent_main BETWEEN 0 AND limit_main), "
                f"spent_delta {whole} NOT NULL CHECK (spent_delta BETWEEN 0 AND limit_delta), "
                f"unit TEXT){strict}"
            )
            change.all(
                f"CREATE TABLE ledger_log (number {whole} PRIMARY KEY, time TEXT NOT NULL, "
                f"name TEXT NOT NULL, action TEXT NOT NULL, main {whole} NOT NULL, "
                f"delta {whole} NOT NULL, detail TEXT NOT NULL, link TEXT NOT NULL){strict}"
            )
            change.all(
                f"CREATE TABLE ledger_requests (name TEXT NOT NULL, request TEXT NOT NULL, "
                f"question TEXT NOT NULL, number {whole} NOT NULL, answer {blob}, "
                f"PRIMARY KEY (name, request)){strict}"
            )
            change.all("INSERT INTO ledger_state VALUES (?, 0, ?)", FORMAT, BEGINNING)


def _reopen(address: str, timeout: float, at_least: int) -> Ledger:
    from opendp_optimal.budget.ledger import open_ledger

    return open_ledger(address, at_least=at_least, timeout=timeout)


def _budgets(look: Any) -> list[Budget]:
    rows = look.all(
        "SELECT name, kind, limit_main, limit_delta, spent_main, spent_delta, unit "
        "FROM ledger_budgets ORDER BY name"
    )
    return [
        Budget(name, KINDS[kind], Amount(most, most_delta), Amount(main, delta), unit)
        for name, kind, most, most_delta, main, delta, unit in rows
    ]


def _entries(look: Any) -> list[Entry]:
    rows = look.all(
        "SELECT number, time, name, action, main, delta, detail, link FROM ledger_log "
        "ORDER BY number"
    )
    return [
        Entry(number, time, name, action, Amount(main, delta), json.loads(detail), link)
        for number, time, name, action, main, delta, detail, link in rows
    ]


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"name ({name!r}) must be 1 to 100 letters, digits, spaces, dots, dashes or "
            "underscores, and begin with a letter or a digit"
        )


def _detail(note: str, **more: Any) -> dict[str, Any]:
    if not isinstance(note, str) or len(note) > LONGEST_NOTE or "\0" in note:
        raise ValueError(f"note must be a text of at most {LONGEST_NOTE} letters")
    return {"note": note, "by": _by(), **more}


def _by() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{platform.node()}"
