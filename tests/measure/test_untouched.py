"""Importing the package leaves OpenDP's classes, measurements, contexts and queries as they are."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

SCRIPT = """
import opendp.prelude as dp
from opendp import context, mod
from opendp.typing import _ELEMENTARY_TYPES

dp.enable_features("contrib")

def members(kind):
    return {name: value for name, value in vars(kind).items()}

KINDS = [mod.Measurement, mod.Transformation, mod.Function, context.Context, context.Query]
before = [members(kind) for kind in KINDS]
types, names = dict(_ELEMENTARY_TYPES), dict(context.constructors)
space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
old = dp.m.make_laplace(*space, scale=1.0)

import opendp_optimal
import opendp_optimal_bayes, opendp_optimal_geo, opendp_optimal_learn, opendp_optimal_select
import opendp_optimal_warehouse
ours = opendp_optimal.make_optimal_noise(*space, 1, (1.0, 1e-3))
ours(1)

assert [members(kind) for kind in KINDS] == before
assert {kind: name for kind, name in _ELEMENTARY_TYPES.items() if kind in types} == types
assert {name: made for name, made in context.constructors.items() if name in names} == names
new = dp.m.make_laplace(*space, scale=1.0)
assert type(old) is type(new) is mod.Measurement
assert type(ours) is not mod.Measurement and isinstance(ours, mod.Measurement)
assert type(space >> opendp_optimal.then_optimal_noise(1, (1.0, 1e-3))) is type(ours)
asked = dp.Context.compositor(
    data=[1, 2], privacy_unit=dp.unit_of(contributions=1),
    privacy_loss=dp.loss_of(epsilon=1.0), split_evenly_over=1,
    domain=dp.vector_domain(dp.atom_domain(T=int)),
).query().count().laplace()
assert type(asked) is context.Query and type(asked.resolve()) is mod.Measurement
print("untouched")
"""


def test_what_opendp_had_is_as_it_was() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.stdout == "untouched\n", done.stderr
