"""Selections through a ledger: asked again, the same answers come back and nothing is charged."""

import opendp.prelude as dp
import pytest

import opendp_optimal_select as select
from opendp_optimal.budget import open_ledger

dp.enable_features("contrib")
NUMBER = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
WHOLE = dp.atom_domain(T=int), dp.absolute_distance(T=int)
CATALOGUE = select.Catalogue([1.0, 2.0, 3.0])
KINDS = {
    "multi": (
        NUMBER,
        1.5,
        lambda k: select.make_multi_selection(*NUMBER, epsilon=0.5, k=k),
    ),
    "ring": (WHOLE, 5, lambda k: select.make_ring_selection(*WHOLE, select.design_ring(0.5, k, 8))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_selection_is_answered_once(tmp_path, kind):
    space, value, make = KINDS[kind]
    ledger = open_ledger(tmp_path / "budgets.db")
    ledger.create("client", epsilon=100.0)

    def ask(k):
        unit = space[1], type(value)(1)
        context = ledger.context("client", data=value, privacy_unit=unit, domain=space[0])
        return context(make(k), request="key")

    first = ask(2)
    spent = ledger.remaining("client")
    assert spent < 100.0
    ledger.close()
    assert [ask(2) for _ in range(5)] == [first] * 5
    with pytest.raises(ValueError, match="another question"):
        ask(3)
    assert ledger.remaining("client") == spent
    ledger.verify()
    ledger.close()


def test_a_catalogue_cannot_be_told_from_others(tmp_path):
    """A clear error, before anything is charged."""
    with open_ledger(tmp_path / "budgets.db") as ledger:
        ledger.create("client", epsilon=1.0)
        unit = NUMBER[1], 1.0
        context = ledger.context("client", data=1.5, privacy_unit=unit, domain=NUMBER[0])
        asked = select.make_multi_selection(*NUMBER, epsilon=0.5, k=2, catalogue=CATALOGUE)
        with pytest.raises(ValueError, match="told from others"):
            context(asked, request="key")
        assert ledger.remaining("client") == 1.0
        assert len(context(asked)) == 2
