"""Examples of the advisories in ``docs/explanation/security.md``, as attacks: each must fail."""

import ast
from pathlib import Path

import opendp.prelude as dp
import pytest

import opendp_optimal as oo
from opendp_optimal.testing import audit
from tests.attacks.advisories import SENTENCES

dp.enable_features("contrib")


@pytest.mark.parametrize("pair", [(2**60 + 127, 2**60 + 129), (2**60 + 383, 2**60 + 385)])
def test_large_integers_are_not_told_apart(pair):
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    measurement = oo.make_optimal_bounded_noise(
        *space, 16, 1.0, range=(2**60, 2**60 + 1024), bins=64, gap=10.0, cache=False
    )
    claimed = measurement.map(2)
    assert claimed <= 1.0
    assert not audit(measurement, *pair, claimed, 0.0, draws=2000).violated


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_sentence_has_a_test(sentence):
    root = Path(__file__).resolve().parents[2]
    for name in SENTENCES[sentence]:
        file, _, function = name.partition("::")
        tree = ast.parse((root / file).read_text())
        assert function in {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
