"""Tables under the proof in plain fractions and under dp-accounting, beside the fast proof."""

import pytest

from opendp_optimal import solve
from tests.attacks.bundled import accounting_agrees, bundled, fractions_agree


def quick(tables):
    """Those that take a moment; the deep command takes all."""
    return [table for table in tables if table.cells * len(table.weights) < 10_000]


@pytest.mark.parametrize(
    "table", quick(bundled(24)), ids=lambda t: f"{t.kind}-{t.epsilon}-{t.delta}"
)
def test_bundled_tables(table):
    assert fractions_agree(table)
    if table.radius < 150:
        pytest.importorskip("dp_accounting")
        assert accounting_agrees(table)


@pytest.mark.parametrize(
    "asked",
    [
        {"epsilon": 1.0, "delta": 0.1, "cells": 4},
        {"epsilon": 5.0, "delta": 0.75, "cells": 8},  # with an atom
        {"epsilon": 1.0, "delta": 0.05, "integer_sensitivity": 3},
        {"epsilon": 1.0, "delta": 0.1, "cells": 4, "loss": "pinball:0.8"},
        {"epsilon": 1.0, "delta": 0.0},
        {"epsilon": 0.5, "delta": 0.0, "integer_sensitivity": 2},
    ],
    ids=str,
)
def test_other_tables(asked):
    table = solve(**asked, gap=10.0, cache=False)
    assert fractions_agree(table)
    assert accounting_agrees(table)
