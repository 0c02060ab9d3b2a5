"""The exponential, with proved error bounds: exact intervals for one number, tables for many."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.exact.numbers import exp_minus

STEPS = 32
"""Table entries per unit of the exponent in :func:`exp_many`."""

FARTHEST = 60
"""Larger exponents count as this one in :func:`exp_many`: e^-60 is below 2^-86."""

EXP_ERROR = 2.0**-31
"""What :func:`exp_many` may be off by, at most."""


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Return integers with ``lo <= 2**bits * exp(-x) <= hi``, a few units apart.

    :param x: exact exponent, at least 0
    :param bits: fractional bits of the result

    >>> lo, hi = exp_bounds(Fraction(1), 60)
    >>> hi - lo <= 4, round(lo / 2**60, 12)
    (True, 0.367879441171)
    """
    (low, m), (high, n) = (exp_minus(x, bits + 24, up=up) for up in (False, True))
    return (low << bits) >> m, min(1 << bits, -(-(high << bits) >> n))


@cache
def _table() -> Floats:
    entries = [exp_bounds(Fraction(k, STEPS), 160)[0] for k in range(FARTHEST * STEPS + 1)]
    return np.array([entry / 2**160 for entry in entries])


def exp_many(x: Floats) -> Floats:
    """Return ``exp(-x)`` for floats ``x >= 0``, off by at most :data:`EXP_ERROR`.

    Only a table of exact values and additions and multiplications, which IEEE arithmetic rounds
    correctly, so the bound does not depend on a mathematical library. The series stops after the
    fourth power of a number below 1/32; the rest is below 2.5e-10.

    :param x: exponents

    >>> np.allclose(exp_many(np.array([0.0, 1.0, 20.5])), np.exp([-0.0, -1.0, -20.5]), rtol=1e-12)
    True
    """
    clipped = np.minimum(x, float(FARTHEST))
    whole = np.floor(clipped * STEPS)
    f = clipped - whole / STEPS
    series = 1.0 - f * (1.0 - f * (0.5 - f * (1.0 / 6.0 - f * (1.0 / 24.0))))
    head: Floats = _table()[whole.astype(np.intp)]
    head *= series
    return head
