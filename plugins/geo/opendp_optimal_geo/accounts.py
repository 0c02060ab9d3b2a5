"""Budgets of people in a ledger: columns that are changed by those alone who have seen them.

What each has paid is the sum of pieces in the ledger: who came (``join``), what a look cost whom
(``pay``), how far schedules have come (``plan``), and all of that put together (``fold``). A look
is paid for by one piece, on disk before anybody is asked. Whoever adds a piece must have read all
others; so threads, processes and machines never spend the same part of a budget.
"""

from __future__ import annotations

import io
import json
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from opendp_optimal.budget import Ledger, LedgerError
from opendp_optimal_geo.allowances import WHOLE, Allowances, Asked, Blocks, Prices, Users
from opendp_optimal_geo.course import Course
from opendp_optimal_geo.identity import Keys, Pseudonyms, check_ids, create_key, find

FOLDED = ("fold", "pay", "plan")
"""Pieces that a fold has in it."""
LEAST_FOLD = 1 << 16
"""Fewer bytes of pieces are not worth a fold."""
NEAR = Fraction(1, 10**8)
"""Relative difference of capacities that were worked out on different machines."""


class Accounts(Allowances):
    """The budgets of people, kept in a ledger under a name.

    People are recognised by their identifiers, in whatever order they come. Newcomers start with a
    whole budget; those who are left out are remembered. A name is opened with the settings it was
    made with, and no others.

    :param ledger: where they are kept
    :param name: of the population
    :param ids: an identifier for each user
    :param capacity: what each user may spend, exactly
    :param size: how many users there are
    :param settings: what the budgets mean
    :param key: file with the key of the hash; beside the ledger by default
    """

    def __init__(
        self,
        ledger: Ledger,
        name: str,
        ids: Any,
        capacity: Fraction,
        size: int,
        settings: dict[str, Any],
        key: Path | str | None,
    ) -> None:
        """Find everybody, or let them join."""
        if not isinstance(ledger, Ledger):
            raise ValueError(f"ledger ({ledger!r}) must be a ledger: see open_ledger")
        if key is None and ledger.address.startswith("postgres"):
            raise ValueError("key (None) must be a file: there is none beside a database")
        known = check_ids(ids, size)
        path = Path(key if key is not None else f"{ledger.address}-key")
        self.name, self._columns = name, ledger.columns(name)
        self._open: dict[str, Any] = {}
        self._known: list[Keys] | None = []
        super().__init__(capacity, size)
        _all.add(self)
        with self._reading():
            if not self._open:
                create_key(path)
            self._pseudonyms = Pseudonyms(path, name)
            settings = {**settings, "key": self._pseudonyms.commitment}
            while not self._open:
                opened = _pack({**settings, "capacity": str(capacity)})
                self._add("open", opened, "people with budgets")
            self.capacity = _same(self._open, settings, capacity)
            self._find(self._pseudonyms.of(known))

    def _begin(self, people: int) -> None:
        """Forget everything: it is read from the ledger again, and nobody is there before."""
        super()._begin(0)
        self._seen = self._weight = 0
        self._courses: dict[str, Course] = {}

    def _find(self, keys: Keys) -> None:
        """Recognise people, and let newcomers join."""
        new = np.arange(len(keys))
        while len(new):
            known = np.concatenate([keys[:0], *(self._known or ())])
            if np.array_equal(known[: len(keys)], keys):
                self.places = None
                break
            self.places, new = find(keys, known)
            if len(new):
                self._add("join", _pack({}, keys=keys[new]), f"{len(new)} people join")
        self._known = None

    def rows_of(self, ids: Any) -> Users:
        """Return for each user the row with its identifier.

        :param ids: of the same users, in any order
        """
        keys = self._pseudonyms.of(check_ids(ids, self.size))
        pieces = [piece for piece in self._columns.since(0) if piece.sort == "join"]
        known = np.concatenate([_unpack(piece.content)[1]["keys"] for piece in pieces])
        rows, missing = find(self.rows(known), keys)
        if len(missing):
            raise ValueError("ids must be those of the population")
        return rows

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Let one thread at a time work with columns that are up to date."""
        with self._lock:
            self._refresh()
            yield

    def settle(self) -> None:
        """Put the pieces together if they have become more than the columns."""
        with self._reading():
            if self._weight > max(LEAST_FOLD, self._paid.nbytes + self._halted.nbytes):
                told = "what was paid, put together"
                self._add("fold", self._folded(), told, replaces=FOLDED)

    def course(self, name: str, queries: int, rule: str) -> Course:
        """Return how far a schedule has come, after everybody who is here has come into it.

        :param name: of the schedule
        :param queries: how many there will be
        :param rule: what its rule is called
        """
        with self._reading():
            while True:
                course = self._courses.get(name, Course(queries, rule))
                if (course.queries, course.rule) != (queries, rule):
                    raise ValueError(
                        f"schedule ({name!r}) was made for {course.queries} queries with "
                        f"{course.rule}, not for {queries} with {rule}"
                    )
                new = WHOLE - self._paid[len(course.start) :]
                if not len(new) or course.done >= queries:
                    return course
                self._add_plan(name, course, new, step=False)

    def step(self, name: str, done: int) -> bool:
        """Take the next query of a schedule; return False if somebody else has taken it.

        :param name: of the schedule
        :param done: how many queries there were
        """
        with self._reading():
            while self._courses[name].done == done:
                if self._add_plan(name, self._courses[name], self._paid[:0], step=True):
                    return True
            return False

    def _add_plan(self, name: str, course: Course, start: Any, *, step: bool) -> bool:
        head = {"course": name, "queries": course.queries, "rule": course.rule, "step": step}
        return self._add("plan", _pack(head, start=start), f"schedule {name}")

    def _write(
        self, users: Blocks, prices: Prices, asked: Asked, halting: Sequence[Any], note: str
    ) -> bool:
        """Write down who pays what for a look, and who halts; return False if it was too late."""
        people = len(self._paid)
        charged, halted = np.zeros(people, np.bool_), np.zeros(people, np.bool_)
        same = prices[0] if isinstance(prices[0], int) else None
        each = np.zeros(people if same is None else 0, np.int64)
        for some, price, mask in zip(users, prices, asked, strict=True):
            at = self._at(some if mask is None else some[mask])
            charged[at] = True
            if not isinstance(price, int):
                each[at] = price if mask is None else price[mask]
        for at in halting:
            halted[at] = True
        if same is None:
            each = each[charged]
        content = _pack(
            {"people": people, "price": same},
            charged=np.packbits(charged),
            halted=np.packbits(halted) if len(halting) else np.zeros(0, np.uint8),
            each=each,
        )
        most = same if same is not None else int(each.max(initial=0))
        count = int(charged.sum())
        cost = f"{'' if same is not None else 'up to '}{float(most * self.tick):.6g}"
        told = {"price": f"{cost} from {count}", "ticks": most, "halted": int(halted.sum())}
        return self._add("pay", content, note, **told)

    def _folded(self) -> bytes:
        """Write down everything that was read."""
        columns = {"paid": self._paid, "halted": np.packbits(self._halted)}
        head: dict[str, Any] = {"people": len(self._paid), "courses": []}
        for place, (name, course) in enumerate(self._courses.items()):
            head["courses"].append([name, [course.queries, course.rule, course.done]])
            columns |= {f"start{place}": course.start, f"first{place}": course.first}
        return _pack(head, **columns)

    def _add(self, sort: str, content: bytes, note: str, **told: Any) -> bool:
        """Add a piece; if somebody else was faster, read theirs and say that nothing was added."""
        number = self._columns.add(sort, content, seen=self._seen, note=note, **told)
        if number is None:
            self._refresh()
            return False
        self._take(number, sort, content)
        return True

    def _refresh(self) -> None:
        """Read what was added since."""
        for piece in self._columns.since(self._seen):
            self._take(piece.number, piece.sort, piece.content)

    def _take(self, number: int, sort: str, content: bytes) -> None:
        """Bring the columns up to date with a piece, all of it or none."""
        try:
            self._apply(sort, *_unpack(content))
        except BaseException as error:
            self._begin(0)
            if not isinstance(error, Exception):
                raise
            raise LedgerError(
                f"piece {number} of {self.name!r} in the ledger is not what it should be"
            ) from None
        self._weight = 0 if sort == "fold" else self._weight + len(content) * (sort in FOLDED)
        self._seen = self.generation = number

    def _apply(self, sort: str, head: dict[str, Any], columns: dict[str, Any]) -> None:
        people = len(self._paid)
        if sort == "open":
            self._open = head
        elif sort == "join":
            new = len(columns["keys"])
            self._paid = np.concatenate([self._paid, np.zeros(new, np.int64)])
            self._halted = np.concatenate([self._halted, np.zeros(new, np.bool_)])
            if self._known is not None:
                self._known.append(columns["keys"])
        elif sort == "plan":
            name, course = head["course"], Course(head["queries"], head["rule"])
            course = self._courses.get(name, course).entered(columns["start"])
            self._courses[name] = course.stepped() if head["step"] else course
        elif head["people"] != people:
            raise ValueError("columns of other people")
        elif sort == "fold":
            self._paid, self._halted = columns["paid"], _bits(columns["halted"], people)
            if self._paid.shape != (people,) or self._paid.dtype != np.int64:
                raise ValueError("columns of another kind")
            self._most, self._any_halted = WHOLE, bool(self._halted.any())
            self._courses = {
                name: Course(queries, called, done, columns[f"start{at}"], columns[f"first{at}"])
                for at, (name, (queries, called, done)) in enumerate(head["courses"])
            }
        else:
            charged, each = _bits(columns["charged"], people), columns["each"]
            if head["price"] is None:
                self._paid[charged] += each
            else:
                each = np.array([head["price"]], np.int64)
                np.add(self._paid, each, out=self._paid, where=charged)
            if each.min(initial=0) < 0:
                raise ValueError("less than nothing")
            self._most += int(each.max(initial=0))
            if len(columns["halted"]):
                self._halt([_bits(columns["halted"], people)])
        if self._most >= WHOLE:  # a bound, or not known
            self._most = int(self._paid.max(initial=0))
            if self._most > WHOLE or self._paid.min(initial=0) < 0:
                raise ValueError("more than everything, or less than nothing")


def _pack(head: dict[str, Any], **columns: Any) -> bytes:
    body = io.BytesIO()
    np.savez(body, head=np.frombuffer(json.dumps(head).encode(), np.uint8), **columns)
    return body.getvalue()


def _unpack(content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        columns = {name: arrays[name] for name in arrays.files}
    return json.loads(columns.pop("head").tobytes()), columns


def _bits(packed: Any, people: int) -> Any:
    return np.unpackbits(packed, count=people).view(np.bool_)


def _same(opened: dict[str, Any], settings: dict[str, Any], capacity: Fraction) -> Fraction:
    """Return the capacity that budgets were made with; refuse other settings."""
    was = Fraction(opened["capacity"])
    for name, value in settings.items():
        if opened.get(name) != value:
            told = "" if name == "key" else f"({value!r}) "
            kept = "" if name == "key" else f": {opened.get(name)!r}"
            raise ValueError(
                f"{name} {told}must be what these budgets were made with in the ledger{kept}"
            )
    if abs(was - capacity) > NEAR * capacity:
        raise ValueError("the budgets in the ledger must fit their settings")
    return was


_all: weakref.WeakSet[Accounts] = weakref.WeakSet()


def _after_fork() -> None:
    """Read everything again in the child: a thread of the parent may have been at work."""
    for accounts in list(_all):
        accounts._lock = threading.RLock()
        accounts._begin(0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
