"""Budgets that cannot be spent twice.

A charge is one conditional update and one line in the log, in one transaction, on disk before the
mechanism runs. There is no refund: whether a release fails may depend on the data.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from opendp_optimal.budget.ledger import tables
from opendp_optimal.budget.ledger.chain import KINDS, Amount, Entry, Kind, as_text
from opendp_optimal.budget.ledger.lines import check_name, check_request, detail_of
from opendp_optimal.budget.ledger.tables import NOTHING, Budget, Stored

if TYPE_CHECKING:
    from opendp_optimal.budget.ledger.columns import Columns

__all__ = ["Budget", "Ledger", "Stored"]

_T = TypeVar("_T")
_PLAIN = frozenset({float, str, type(None)})
"""What a charge is asked by if its terms are remembered."""
_KEPT = 200
"""Names and charges that are remembered: a name's kind never changes."""


class Ledger:
    """A durable account of privacy budgets, shared by threads, processes and machines.

    Made by :func:`~opendp_optimal.budget.open_ledger`. ``with open_ledger(...) as ledger`` closes
    it at the end.

    :param store: where it is kept
    """

    def __init__(self, store: Any) -> None:
        """Prepare the tables, and look at what is there."""
        self._store = store
        self._kinds: dict[str, Kind] = {}
        self._terms: dict[tuple[Any, ...], tuple[Kind, Amount, str]] = {}
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
        with self._reading() as look:
            return int(look.generation)

    def __repr__(self) -> str:
        """Where it is."""
        return f"Ledger({self.address!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        """The same ledger: there is one budget, however often what holds it is copied."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its address: another process opens the same ledger."""
        return _reopen, (*self._store.where(), self._store.seen)

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
        check_name(name)
        if (epsilon is None) == (rho is None):
            raise ValueError(f"give one of epsilon ({epsilon!r}) and rho ({rho!r})")
        main = "epsilon" if rho is None else "rho"
        kind = KINDS[main if delta is None else f"{main}-delta"]
        given = {"epsilon": epsilon, "delta": delta, "rho": rho}
        limit, exact = kind.limit(given), kind.exactly(given)
        detail = detail_of(note, kind=kind.name, limit=exact)
        with self._writing() as change:
            made = change.all(
                "INSERT INTO ledger_budgets VALUES (?, ?, ?, ?, ?, 0, 0, NULL) "
                "ON CONFLICT DO NOTHING RETURNING name",
                *(name, kind.name, limit.main, limit.delta, exact),
            )
            if not made:
                raise ValueError(f"name ({name!r}) has a budget already")
            change.append(name, "create", limit, as_text(detail))

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
        asked = name, epsilon, delta, rho, note
        # What calls itself equal to another number need not be.
        plain = _PLAIN.issuperset(map(type, asked))
        if not plain or (terms := self._terms.get(asked)) is None:
            kind = self._kind(name)
            price = kind.price({"epsilon": epsilon, "delta": delta, "rho": rho})
            terms = kind, price, as_text(detail_of(note))
            if plain:
                _keep(self._terms, asked, terms)
        kind, price, detail = terms
        number: int | None = self._store.charge(name, kind.name, price, detail)
        if number is not None:
            return number
        exact = kind.exactly({"epsilon": epsilon, "delta": delta or 0, "rho": rho})
        with self._writing() as change:
            return tables.charge_whole(change, name, kind, price, exact, detail)

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
        check_request(request)
        kind = self._kind(name)
        amount = kind.price(dict(price))
        asked = hashlib.sha256(f"{question}|{amount.main}|{amount.delta}".encode()).hexdigest()
        detail = as_text(detail_of(note, request=request, question=asked))
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
            number = change.charge(name, kind.name, amount, detail)
            if number is None:
                exact = kind.exactly({"delta": 0, **price})
                number = tables.charge_whole(change, name, kind, amount, exact, detail)
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
        check_name(name)
        check_request(request)
        with self._writing() as change:
            kept = change.all(
                "UPDATE ledger_requests SET answer = ? "
                "WHERE name = ? AND request = ? AND answer IS NULL RETURNING number",
                *(answer, name, request),
            )
            if kept:
                digest = hashlib.sha256(answer).hexdigest()
                detail = as_text({"request": request, "digest": digest})
                change.append(name, "answer", NOTHING, detail)
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
        check_request(request)
        check_name(name)
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
                    change.append(name, "unit", NOTHING, as_text({"unit": unit}))
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
        return self._found(tables.budgets, name, "has no budget in this ledger")

    def log(self, name: str | None = None) -> list[Entry]:
        """Every line of the log, or those of a data set.

        :param name: of a data set
        """
        return self._found(tables.entries, name, "is not in this ledger")

    def _found(
        self, find: Callable[[Any, str | None], list[_T]], name: str | None, missing: str
    ) -> list[_T]:
        if name is not None:
            check_name(name)
        with self._reading() as look:
            found = find(look, name)
        if name is not None and not found:
            raise ValueError(f"name ({name!r}) {missing}")
        return found

    def verify(self) -> int:
        """Check that the log is whole, and that budgets, answers and columns are what it says.

        :returns: the generation
        :raises LedgerError: naming the first thing that is wrong
        """
        from opendp_optimal.budget.ledger.columns import check_columns

        with self._reading() as look:
            check_columns(look, tables.check(look))
            return int(look.generation)

    def columns(self, name: str) -> Columns:
        """Budgets of many people, or anything else that a plugin keeps under a name.

        :param name: letters, digits, spaces, dots, dashes
        """
        from opendp_optimal.budget.ledger.columns import Columns

        check_name(name)
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
        known = self._kinds.get(name) if isinstance(name, str) else None
        if known is None:
            known = self.budget(name).kind
            _keep(self._kinds, name, known)
        return known

    def _reading(self) -> AbstractContextManager[Any]:
        """A transaction that sees one state of the ledger, which is no old copy."""
        transaction: AbstractContextManager[Any] = self._store.transaction(write=False)
        return transaction

    def _writing(self) -> AbstractContextManager[Any]:
        """A transaction on a ledger that is no old copy; writers take turns."""
        transaction: AbstractContextManager[Any] = self._store.transaction(write=True)
        return transaction

    def _prepare(self) -> None:
        with self._store.transaction(write=False, made=False) as look:
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


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    if len(kept) >= _KEPT:
        kept.clear()
    kept[key] = value


def _reopen(address: str, timeout: float, at_least: int) -> Ledger:
    from opendp_optimal.budget.ledger import open_ledger

    return open_ledger(address, at_least=at_least, timeout=timeout)
