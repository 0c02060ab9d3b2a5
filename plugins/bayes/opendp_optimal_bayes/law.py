"""What a measurement does to an answer, as far as deciding after it needs to know.

A :class:`Law` is Laplace or geometric noise clamped to lo..hi. :func:`law_of` finds it behind
chains, and for OpenDP's own noise if the bounds are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import opendp.prelude as dp

from opendp_optimal_bayes._checks import Floats, interval
from opendp_optimal_bayes._opendp import description

MOST_ANSWERS = 4096
PARTS = 512


@dataclass(frozen=True)
class Law:
    """Noise with weights proportional to exp(-rate |y - x|), clamped to lo..hi.

    :param lo: smallest observation
    :param hi: largest observation
    :param integer: whether answers and observations are integers
    :param rate: privacy loss for each unit of distance
    """

    lo: Fraction
    hi: Fraction
    integer: bool
    rate: float

    @cached_property
    def answers(self) -> Floats:
        """The answers that are told apart: every integer, or the middles of equal parts."""
        lo, hi = float(self.lo), float(self.hi)
        if self.integer:
            count = int(self.hi - self.lo) + 1
            if count > MOST_ANSWERS:
                raise ValueError(f"lo..hi holds {count} answers; at most {MOST_ANSWERS}")
            return np.asarray(np.arange(count) + lo, np.float64)
        return np.asarray(lo + (hi - lo) * (np.arange(PARTS) + 0.5) / PARTS, np.float64)

    @cached_property
    def observations(self) -> Floats:
        """What stands for each observation: every integer, or lo, the middles of parts, hi."""
        if self.integer:
            return self.answers
        return np.concatenate([[float(self.lo)], self.answers, [float(self.hi)]])

    @cached_property
    def matrix(self) -> Floats:
        """The chance of each observation for each answer."""
        if self.integer:
            return _folded(len(self.answers), self.rate)
        edges = np.linspace(float(self.lo), float(self.hi), PARTS + 1)
        below = _laplace_cdf(self.rate * (edges[None, :] - self.answers[:, None]))
        return np.column_stack([below[:, 0], np.diff(below, axis=1), 1.0 - below[:, -1]])

    def place(self, y: Any) -> int:
        """The position of an observation.

        :param y: a release, within the bounds or clamped to them
        """
        if self.integer:
            return min(max(int(y) - int(self.lo), 0), len(self.answers) - 1)
        lo, hi = float(self.lo), float(self.hi)
        if not lo < y:
            return 0
        if not y < hi:
            return PARTS + 1
        return 1 + min(int((y - lo) / (hi - lo) * PARTS), PARTS - 1)


def law_of(measurement: dp.Measurement, bounds: tuple[Any, Any] | None = None) -> Law:
    """Find the law of a measurement.

    :param measurement: bounded noise of this plugin, or OpenDP's Laplace or geometric noise on a
        single number; also behind transformations
    :param bounds: to what the releases of OpenDP's noise are clamped
    """
    inner = measurement
    while True:
        known = getattr(inner, "law", None)
        if isinstance(known, Law):
            return known
        name, given = description(inner)
        if name == "make_chain_mt":
            inner = given["measurement1"]
            continue
        break
    if name in ("make_laplace", "make_geometric") and given.get("scale", 0) > 0:
        if bounds is None:
            raise ValueError("bounds must be given for noise that is not bounded itself")
        low, high = interval(*bounds)
        carrier = str(getattr(given["input_domain"], "carrier_type", ""))
        if carrier[:1] in "iuf" and not given.get("bounds"):
            return Law(low, high, carrier[0] != "f", 1.0 / given["scale"])
    raise ValueError(
        "measurement must be bounded noise of opendp_optimal_bayes, or OpenDP's Laplace or "
        "geometric noise on a single number"
    )


def _folded(size: int, rate: float) -> Floats:
    at = np.arange(size, dtype=np.float64)
    a = np.exp(-rate)
    rows = np.tanh(rate / 2) * np.exp(-rate * np.abs(at[:, None] - at))
    rows[:, 0] = np.exp(-rate * at) / (1 + a)
    rows[:, -1] = np.exp(-rate * at[::-1]) / (1 + a)
    return np.asarray(rows)


def _laplace_cdf(x: Floats) -> Floats:
    half = 0.5 * np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, half, 1.0 - half))
