"""Columns: a piece is added by one who has seen the last, whole, and the log vouches for it."""

import threading

import pytest

from opendp_optimal.budget.ledger import columns, open_ledger
from opendp_optimal.errors import LedgerError


def test_pieces_come_back_in_order(ledger, monkeypatch):
    monkeypatch.setattr(columns, "CHUNK", 7)
    people = ledger.columns("city")
    contents = [b"", b"\0\1" * 20, b"seven..", bytes(range(256))]
    seen = 0
    for content in contents:
        seen = people.add("pay", content, seen=seen, note="a look", price=3)
    assert [piece.content for piece in people.since(0)] == contents
    assert [piece.content for piece in people.since(people.since(0)[1].number)] == contents[2:]
    assert ledger.columns("town").since(0) == []
    assert ledger.log("city")[-1].detail["price"] == 3
    assert ledger.verify() == seen == 4


def test_only_who_has_seen_the_last_piece_adds_one(ledger):
    people = ledger.columns("city")
    first = people.add("pay", b"1", seen=0)
    assert people.add("pay", b"2", seen=0) is None
    assert people.add("pay", b"2", seen=first + 1) is None
    assert ledger.columns("town").add("pay", b"other", seen=0) == first + 1
    assert people.add("pay", b"2", seen=first) == first + 2
    assert [piece.content for piece in people.since(0)] == [b"1", b"2"]


def test_a_piece_takes_the_place_of_others(ledger):
    people = ledger.columns("city")
    seen = 0
    for sort, content in (("join", b"ann"), ("pay", b"1"), ("fold", b"0"), ("join", b"bob")):
        seen = people.add(sort, content, seen=seen)
    seen = people.add("fold", b"1", seen=seen, replaces={"fold", "pay"})
    assert [piece.content for piece in people.since(0)] == [b"ann", b"bob", b"1"]
    assert ledger.verify() == seen


def test_threads_never_add_to_the_same_piece(address):
    open_ledger(address).close()
    added = []

    def work(name):
        own = open_ledger(address)
        people = own.columns("city")
        for _ in range(10):
            while True:
                pieces = people.since(0)
                seen = pieces[-1].number if pieces else 0
                if number := people.add("pay", f"{name} after {seen}".encode(), seen=seen):
                    added.append((seen, number))
                    break
        own.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(added) == [(number, number + 1) for number in range(40)]


@pytest.mark.parametrize("damage", ["changed", "removed", "added"])
def test_pieces_that_were_tampered_with_are_noticed(tmp_path, damage):
    ledger = open_ledger(tmp_path / "budgets.db")
    people = ledger.columns("city")
    people.add("pay", b"12345", seen=people.add("join", b"ann", seen=0))
    with ledger._writing() as change:
        if damage == "changed":
            change.all("UPDATE ledger_columns SET content = ? WHERE number = 2", b"00000")
        elif damage == "removed":
            change.all("DELETE FROM ledger_columns WHERE number = 2")
        else:
            change.all("INSERT INTO ledger_columns VALUES ('city', 3, 0, 'pay', ?)", b"0")
    with pytest.raises(LedgerError, match="not what the log says"):
        people.since(0)
    with pytest.raises(LedgerError, match="columns"):
        ledger.verify()


def test_names_are_those_of_budgets(ledger):
    for name in ("", "a/b", 3, "x" * 101):
        with pytest.raises(ValueError, match="name"):
            ledger.columns(name)
