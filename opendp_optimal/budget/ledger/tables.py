"""What a ledger keeps: the tables, the rows as values, and whether they agree with the log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

from opendp_optimal.budget.ledger.chain import BEGINNING, KINDS, UNITS, Amount, Entry, Kind
from opendp_optimal.errors import BudgetError, LedgerError
from opendp_optimal.exact.numbers import float_down

FORMAT = 1
NOTHING = Amount(0, 0)


@dataclass(frozen=True)
class Budget:
    """A data set's budget as it stands.

    :param name: of the data set
    :param kind: the notion of privacy loss it is kept in
    :param limit: what may be spent
    :param exact: the limit as it was given
    :param spent: what was charged
    :param unit: the privacy unit that the first context fixed; None before
    """

    name: str
    kind: Kind
    limit: Amount
    exact: str
    spent: Amount
    unit: str | None

    @property
    def remaining(self) -> float | tuple[float, float]:
        """What is left, rounded down."""
        return self._left(self.spent)

    @property
    def whole(self) -> float | tuple[float, float]:
        """The limit as it was given, rounded down."""
        return self._left(NOTHING)

    def _left(self, spent: Amount) -> float | tuple[float, float]:
        left = self.limit.minus(spent)
        found = [float_down(Fraction(*pair)) for pair in zip(left, UNITS, strict=True)]
        for place, whole in enumerate(self.exact.split()):
            if self.limit[place] and not spent[place]:
                found[place] = float_down(Fraction(whole))
        return (found[0], found[1]) if self.kind.delta else found[0]

    def whole_price(self, price: Amount, exact: str) -> Amount:
        """A price of exactly the limit is the limit, which was rounded down, and not more.

        It is so only while nothing is spent, and leaves nothing: no two of them are added up.

        :param price: in whole units, rounded up
        :param exact: the price as it was given
        """
        found = list(price)
        for place, (asked, whole) in enumerate(zip(exact.split(), self.exact.split(), strict=True)):
            if asked == whole and self.limit[place]:
                found[place] = self.limit[place]
        return Amount(*found)


@dataclass(frozen=True)
class Stored:
    """What a request has come to.

    :param number: the line of the log with its charge
    :param answer: the stored answer; None while there is none
    """

    number: int
    answer: bytes | None


def create_tables(change: Any, types: dict[str, str]) -> None:
    """Make the tables of an empty ledger.

    :param change: a transaction that writes
    :param types: what the database calls whole numbers and bytes, and the end of a definition
    """
    whole, blob, strict = (types[kind] for kind in ("whole", "bytes", "strict"))
    change.all(f"CREATE TABLE ledger_state (format {whole} NOT NULL){strict}")
    change.all(
        f"CREATE TABLE ledger_budgets (name TEXT PRIMARY KEY, kind TEXT NOT NULL, "
        f"limit_main {whole} NOT NULL, limit_delta {whole} NOT NULL, exact TEXT NOT NULL, "
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
    change.all(
        f"CREATE TABLE ledger_columns (name TEXT NOT NULL, number {whole} NOT NULL, "
        f"place {whole} NOT NULL, sort TEXT NOT NULL, content {blob} NOT NULL, "
        f"PRIMARY KEY (name, number, place)){strict}"
    )
    change.all("INSERT INTO ledger_state VALUES (?)", FORMAT)


def refuse_old(address: str, generation: int, seen: int) -> None:
    """Raise if a ledger is older than one that was seen."""
    if generation < seen:
        raise LedgerError(
            f"{address} is an old copy: it is at generation {generation}, and {seen} was seen; "
            "what was charged since is missing"
        )


def refuse(look: Any, name: str, kind: Kind, price: Amount) -> NoReturn:
    """Say why a charge was not made."""
    found = budgets(look, name)
    if not found or found[0].kind != kind or price.within(found[0].limit.minus(found[0].spent)):
        raise LedgerError(f"the budget of {name!r} is not the one that was there before")
    asked, left = kind.floats(price, up=True), found[0].remaining
    raise BudgetError(
        f"{name}: a release at {kind.told} {asked} must cost at most what is left, {left}"
    )


def charge_whole(change: Any, name: str, kind: Kind, price: Amount, exact: str, line: str) -> int:
    """Charge what was refused if it is the whole limit, as it was given.

    :param change: a transaction that writes
    :param name: of the data set
    :param kind: of the budget
    :param price: in whole units, rounded up
    :param exact: the price as it was given
    :param line: the detail of its line in the log
    """
    found = budgets(change, name)
    if found and found[0].kind == kind:
        whole = found[0].whole_price(price, exact)
        number: int | None = change.charge(name, kind.name, whole, line)
        if number is not None:
            return number
    refuse(change, name, kind, price)


def budgets(look: Any, name: str | None = None) -> list[Budget]:
    """All budgets, by name, or the one of a name."""
    where, values = ("", ()) if name is None else (" WHERE name = ?", (name,))
    rows = look.all(
        "SELECT name, kind, limit_main, limit_delta, exact, spent_main, spent_delta, unit "
        f"FROM ledger_budgets{where} ORDER BY name",
        *values,
    )
    try:
        return [
            Budget(name, KINDS[kind], Amount(most, most_delta), exact, Amount(main, delta), unit)
            for name, kind, most, most_delta, exact, main, delta, unit in rows
        ]
    except KeyError as error:
        raise LedgerError(f"a budget of the kind {error} was never made") from None


def entries(look: Any, name: str | None = None) -> list[Entry]:
    """Every line of the log, or those of a data set."""
    where, values = ("", ()) if name is None else (" WHERE name = ?", (name,))
    rows = look.all(
        "SELECT number, time, name, action, main, delta, detail, link "
        f"FROM ledger_log{where} ORDER BY number",
        *values,
    )
    return [
        Entry(number, time, name, action, Amount(main, delta), _parsed(number, detail), link)
        for number, time, name, action, main, delta, detail, link in rows
    ]


def _parsed(number: int, detail: str) -> dict[str, Any]:
    try:
        found = json.loads(detail)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _changed(number)
    return found


def _changed(number: int) -> LedgerError:
    return LedgerError(f"line {number} of the log was changed, added or removed")


def check(look: Any) -> list[Entry]:
    """Return the log if it is whole, and budgets and requests are what its lines add up to.

    :param look: a transaction that sees one state of the ledger
    :raises LedgerError: naming the first thing that is wrong
    """
    lines = entries(look)
    _check_chain(lines, look.link)
    if look.generation != len(lines):
        raise LedgerError(f"the log has {len(lines)} lines where {look.generation} were written")
    made, asked = _replayed(lines)
    kept = {budget.name: budget for budget in budgets(look)}
    if made.keys() != kept.keys():
        raise LedgerError("the log speaks of other budgets than there are")
    for name, budget in made.items():
        if kept[name] != budget:
            raise LedgerError(f"the budget of {name!r} is not what its lines add up to")
        if not budget.spent.within(budget.limit):
            raise LedgerError(f"the budget of {name!r} is overspent")
    rows = look.all("SELECT name, request, question, number, answer FROM ledger_requests")
    found = {
        (name, request): (question, number, None if answer is None else digest(bytes(answer)))
        for name, request, question, number, answer in rows
    }
    if found != asked:
        raise LedgerError("requests or their answers are not what the log says")
    return lines


def _check_chain(lines: list[Entry], link: str) -> None:
    before = BEGINNING
    for place, line in enumerate(lines, 1):
        if line.number != place or line.digest(before) != line.link:
            raise _changed(place)
        before = line.link
    if link != before:
        raise _changed(len(lines))


Asked = dict[tuple[str, str], tuple[str, int, str | None]]


def _replayed(lines: Iterable[Entry]) -> tuple[dict[str, Budget], Asked]:
    """The budgets and the requests that the lines of a log make."""
    made: dict[str, Budget] = {}
    asked: Asked = {}
    for line in lines:
        detail, name = line.detail, line.name
        if line.action == "columns":
            continue
        try:
            if line.action == "create" and name not in made:
                kind, exact = KINDS[detail["kind"]], detail["limit"]
                made[name] = Budget(name, kind, line.amount, exact, NOTHING, None)
                continue
            of = made[name]
            if line.action == "unit" and of.unit is None:
                made[name] = replace(of, unit=detail["unit"])
            elif line.action == "charge" and NOTHING.within(line.amount):
                made[name] = replace(of, spent=of.spent.plus(line.amount))
                if "request" in detail:
                    asked[name, detail["request"]] = (detail["question"], line.number, None)
            elif line.action == "answer" and asked[name, detail["request"]][2] is None:
                question, number, _ = asked[name, detail["request"]]
                asked[name, detail["request"]] = (question, number, detail["digest"])
            else:
                raise _changed(line.number)
        except KeyError:
            raise _changed(line.number) from None
    return made, asked


def digest(answer: bytes) -> str:
    """What the log says of an answer."""
    return hashlib.sha256(answer).hexdigest()
