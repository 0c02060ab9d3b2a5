"""A change to any field of a channel's table is refused, or everything it claims is still true."""

import copy
import functools
import math
import random
from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import CertificateError, solve_channel
from opendp_optimal.testing import independent

LINE = [[abs(x - z) for z in range(4)] for x in range(4)]
PRIOR = [Fraction(1, 10), Fraction(2, 10), Fraction(3, 10), Fraction(4, 10)]
GROUPED = [[0, 0, 2, 3], [0, 0, 2, 3], [2, 2, 0, 1], [3, 3, 1, 0]]
TABLES = {
    "pure": lambda: solve_channel(PRIOR, LINE, 0.7, LINE),
    "delta": lambda: solve_channel(PRIOR, LINE, 0.7, LINE, delta=0.05),
    "groups": lambda: solve_channel(PRIOR, LINE, 0.7, GROUPED),
}


exp_below = functools.cache(independent.exp_below)


def exp_above(x):
    """A fraction above e^x, for small x: what is left out of 200 terms is far below 2^-200."""
    return exp_below(x) * (1 + Fraction(1, 2**200)) + Fraction(1, 2**200)


def holds(table):
    """Every claim from the definitions, in fractions, for all pairs of inputs."""
    asked = table.request
    rows = [[Fraction(int(w), 2**62) for w in row] for row in table.weights]
    if any(sum(row) != 1 or min(row) < 0 for row in rows):
        return False
    for x, row in enumerate(rows):
        for z, other in enumerate(rows):
            if x == z or asked.distances[x][z] == math.inf:
                continue
            growth = exp_below(asked.epsilon * Fraction(asked.distances[x][z]))
            short = sum(max(Fraction(0), p - growth * q) for p, q in zip(row, other, strict=True))
            if short > Fraction(asked.delta):
                return False
    cost = sum(
        p * loss[x] * rows[x][y]
        for x, p in enumerate(asked.prior)
        for y, loss in enumerate(asked.loss)
    )
    return table.lower <= plain_bound(table) and cost <= table.upper and table.lower <= table.upper


def plain_bound(table):
    """What the prices prove, from the definition, for the inputs themselves."""
    dual, below = table.dual, table.request.below
    kept = sorted(set(table.request.same))
    groups = [[x for x, g in enumerate(table.request.same) if g == one] for one in kept]
    asked = table.request
    reduced = [
        [sum(asked.prior[x] * loss[x] for x in group) / asked.unit for loss in asked.loss]
        for group in groups
    ]
    unit = Fraction(2) ** -dual.scale
    for r, row in zip(dual.pairs.tolist(), dual.slack.tolist(), strict=True):
        x, z = below.pairs[r].tolist()
        apart = min(asked.distances[a][b] for a in groups[x] for b in groups[z])
        growth = exp_above(asked.epsilon * Fraction(apart))
        for y, price in enumerate(row):
            reduced[x][y] += price * unit
            reduced[z][y] -= growth * price * unit
    paid = Fraction(asked.delta) * sum(dual.budget.tolist()) * unit
    return (sum(map(min, reduced)) - paid) * asked.unit


def change(value, rng):
    """Something else of the same kind."""
    if isinstance(value, np.ndarray):
        out = value.copy()
        if not out.size or rng.random() < 0.15:
            return rng.choice(
                [out[:0], out[..., :-1], out.astype(float), np.ones((3, 3), np.int64)]
            )
        place = tuple(rng.randrange(n) for n in out.shape)
        old = int(out[place])
        out[place] = rng.choice(
            [old + 1, old - 1, -old, 0, old // 2, old + (1 << rng.randrange(61))]
        )
        if rng.random() < 0.5 and out.ndim == 2:  # what one entry gains another loses
            out[place[0], rng.randrange(out.shape[1])] -= out[place] - old
        return out
    if isinstance(value, tuple):
        at = rng.randrange(len(value))
        if rng.random() < 0.1:
            return value[:at] + value[at + 1 :]
        return (*value[:at], change(value[at], rng), *value[at + 1 :])
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, -value - 1, value + 100, 10**9, -(10**9)])
    factor = 1 + Fraction(rng.choice([1, -1]), 2 ** rng.randrange(30))
    others = [value * type(value)(factor), -value, value + 1, value - 1, type(value)(0)]
    if isinstance(value, float):
        others += [math.nan, math.inf, -math.inf]
    return rng.choice(others)


@pytest.mark.parametrize("kind", TABLES)
def test_a_changed_field_is_refused_or_what_is_claimed_is_true(kind):
    table, rng = TABLES[kind](), random.Random(5)
    assert holds(table)
    parts = [
        (lambda t: t, table),
        (lambda t: t.request, table.request),
        (lambda t: t.dual, table.dual),
    ]
    for find, part in parts:
        for name in (f.name for f in fields(part) if f.name not in ("request", "dual")):
            refused = 0
            for _ in range(8):
                other = copy.copy(table)
                for inner in ("request", "dual"):
                    object.__setattr__(other, inner, copy.copy(getattr(table, inner)))
                # Behind the constructor's back, as a damaged or forged table would have it.
                object.__setattr__(find(other), name, change(getattr(part, name), rng))
                try:
                    other.verify()
                except CertificateError:
                    refused += 1
                else:
                    assert holds(other), name
            assert refused >= 2, name
    table.verify()


def test_claims_follow_from_what_was_asked():
    table = TABLES["pure"]()
    for name, value in [
        ("upper", math.nextafter(table.upper, math.inf)),
        ("upper", math.nextafter(table.upper, 0)),
        ("lower", math.nextafter(table.lower, 0)),
        ("lower", table.upper + 1),
        ("weights", np.diag([1 << 62] * 4)),
    ]:
        other = copy.copy(table)
        object.__setattr__(other, name, value)
        with pytest.raises(CertificateError):
            other.verify()
    # What was computed of a request before it was changed is not believed.
    table.request.above, table.request.below  # noqa: B018 (they are kept)
    object.__setattr__(table.request, "epsilon", Fraction(1, 2))
    with pytest.raises(CertificateError, match="privacy"):
        table.verify()
