"""Hostile files of tables for several numbers at once: vectors, and means with their counts."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from opendp_optimal import solve_pair, solve_radial
from opendp_optimal.certify.decay import Decay
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.certify.pair import unfolded
from opendp_optimal.certify.radial import Staircase
from opendp_optimal.table.files.pair import KIND as PAIR
from opendp_optimal.table.files.radial import KIND as RADIAL
from opendp_optimal.testing.independent import exp_below
from tests.attacks.fuzz_core import Sealed, accepted, sealed_files
from tests.attacks.hostile import FuzzError


@cache
def radial_tables() -> list[Sealed]:
    """Small files of every law of noise for vectors."""
    asked: list[dict[str, Any]] = [
        {"epsilon": 2.0, "delta": 0.0, "size": 2, "norm": "l1"},
        {"epsilon": 3.0, "delta": 0.0, "size": 3, "norm": "l2", "bound": False},
        {"epsilon": 2.0, "delta": 0.0, "size": 2, "norm": "linf", "integer_sensitivity": 1},
        {"epsilon": 2.0, "delta": 1e-3, "size": 12, "bound": False},
        {"epsilon": 2.0, "delta": 0.0, "size": 3, "norm": "linf", "weights": (4.0, 1.0, 0.5)},
    ]
    return sealed_files(RADIAL, [solve_radial(**each, cache=False) for each in asked])


@cache
def pair_tables() -> list[Sealed]:
    """Small files of noise for a mean and its count."""
    return sealed_files(PAIR, [solve_pair(e, 0.1, gap=0.2, cache=False) for e in (2.0, 3.0)])


def _steps_hold(law: Staircase, size: int, epsilon: float) -> bool:
    """No ball's density is more than e^epsilon times that of the next, in plain fractions."""
    growth = exp_below(Fraction(epsilon)) * (1 + Fraction(1, 2**100))
    again = Fraction(law.again, TOTAL)
    beyond = [law.tail * (1 - again) * again**j for j in range(3)]
    weights = [Fraction(int(w)) for w in law.weights] + beyond
    balls = [Fraction(law.first + (law.start + j) * law.step) for j in range(len(weights))]
    reached = law.offsets or (0,) * size
    density = [w / math.prod(r + o for o in reached) for w, r in zip(weights, balls, strict=True)]
    return all(a <= growth * b for a, b in pairwise(density))


@cache
def _decay_holds(law: Decay, size: int, epsilon: float, delta: float) -> bool:
    """Delta by adding up over the plane of a move; the proof may be a little above it."""
    c, k = law.c, law.k
    spread = (size + 40.0) / (c + math.sqrt(k))
    x = np.linspace(-spread, spread, 1501)
    along, across = np.meshgrid(x, x[x > 0], indexing="ij")
    near, far = np.hypot(along, across), np.hypot(along - 1, across)
    lengths = np.log(across) * (size - 2)
    here = np.exp(lengths - c * near - k * near**2)
    there = np.exp(lengths - c * far - k * far**2)
    lost = np.maximum(here - math.exp(epsilon) * there, 0.0).sum() / here.sum()
    return bool(lost <= delta * 1.01)


def radial_table(rng: random.Random) -> bool:
    """Noise for vectors: damaged, or changed and sealed again."""
    table = accepted(rng, RADIAL, radial_tables())
    if table is None:
        return False
    law = table.law
    if isinstance(law, Staircase):
        held = _steps_hold(law, table.size, table.epsilon)
    else:
        held = _decay_holds(law, table.size, table.epsilon, table.delta)
    if not held:
        raise FuzzError("a radial table was accepted whose noise is not private")
    return True


def pair_table(rng: random.Random) -> bool:
    """Noise for a mean and its count: damaged, or changed and sealed again."""
    table = accepted(rng, PAIR, pair_tables())
    if table is None:
        return False
    every = unfolded(table.weights)
    growth, half = math.exp(table.epsilon), table.cells // 2
    rows, columns = every.shape
    moved = np.pad(every, ((1, 1), (half, half)))
    worst = max(
        np.maximum(every - growth * moved[2 : 2 + rows, i : i + columns], 0.0).sum()
        for i in range(2 * half + 1)
    )
    if worst > table.delta * TOTAL * (1 + 1e-9):
        raise FuzzError("a pair table was accepted whose noise is not private")
    return True


PARSERS: dict[str, Callable[[random.Random], bool]] = {
    "radial table files": radial_table,
    "pair table files": pair_table,
}
