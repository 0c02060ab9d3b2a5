"""What a measurement does to an answer, as far as deciding after it needs to know.

A :class:`Law` is noise on answers within lo..hi, observed up to a margin beyond them.
:func:`law_of` finds it behind chains.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from opendp.mod import Measurement

from opendp_optimal.extend import Floats, interval, known
from opendp_optimal.extend import law_of as noise_of

MOST_ANSWERS = 4096
MOST_PARTS = 1024
LEAST_PARTS = 256
_PARTS_IN_SPREAD = 8
_FINEST = 1e9


@dataclass(frozen=True)
class Law:
    """Noise on answers in lo..hi, clamped to what can be told apart.

    :param lo: smallest answer
    :param hi: largest answer
    :param integer: whether answers and observations are integers
    :param noise: what is added
    """

    lo: Fraction
    hi: Fraction
    integer: bool
    noise: known.Law

    @cached_property
    def parts(self) -> int:
        """Into how many equal parts real answers are divided: finer than the noise varies."""
        if self.hi - self.lo > sys.float_info.max:
            raise ValueError(f"hi - lo must be at most {sys.float_info.max:.3g}")
        wanted = min(_FINEST, float(self.hi - self.lo) / self.noise.spread * _PARTS_IN_SPREAD)
        return min(MOST_PARTS, max(LEAST_PARTS, 2 * math.ceil(wanted / 2)))

    @property
    def fine(self) -> bool:
        """Whether the parts are as fine as they should be."""
        width = float(self.hi - self.lo)
        return self.integer or self.parts >= width / self.noise.spread * _PARTS_IN_SPREAD / 2

    @property
    def origin(self) -> Fraction:
        """Where answers and observations are counted from: the first integer, or 0."""
        return self.lo if self.integer else Fraction(0)

    @cached_property
    def steps(self) -> Floats:
        """The answers from the origin on: every integer, or the middles of equal parts."""
        if self.integer:
            count = int(self.hi - self.lo) + 1
            if count > MOST_ANSWERS:
                raise ValueError(f"lo..hi holds {count} answers; at most {MOST_ANSWERS}")
            return np.arange(count, dtype=np.float64)
        lo, hi = float(self.lo), float(self.hi)
        return np.asarray(lo + (hi - lo) * (np.arange(self.parts) + 0.5) / self.parts, np.float64)

    @property
    def answers(self) -> Floats:
        """The answers that are told apart; integers beyond 2^53 are the nearest floats."""
        return self.steps + float(self.origin)

    @cached_property
    def extra(self) -> int:
        """Observations beyond each end, integers or parts; those further out count as the last."""
        return math.ceil(min(MOST_PARTS, self.noise.margin / self._unit))

    @cached_property
    def seen(self) -> Floats:
        """What stands for each observation, from the origin: integers, or middles and two ends."""
        if self.integer:
            return np.arange(-self.extra, len(self.steps) + self.extra, dtype=np.float64)
        edges = self._edges
        return np.concatenate([edges[:1], (edges[:-1] + edges[1:]) / 2, edges[-1:]])

    @property
    def observations(self) -> Floats:
        """What stands for each observation; integers beyond 2^53 are the nearest floats."""
        return self.seen + float(self.origin)

    @cached_property
    def _unit(self) -> float:
        return 1.0 if self.integer else float(self.hi - self.lo) / self.parts

    @property
    def _edges(self) -> Floats:
        return np.asarray(
            float(self.lo) + self._unit * np.arange(-self.extra, self.parts + self.extra + 1)
        )

    @cached_property
    def matrix(self) -> Floats:
        """The chance of each observation for each answer."""
        if isinstance(self.noise, known.Geometric):
            return self.noise.folded(len(self.steps))
        cuts = self.seen[:-1] + 0.5 if self.integer else self._edges
        below = self.noise.cdf(cuts[None, :] - self.steps[:, None])
        return np.column_stack([below[:, 0], np.diff(below, axis=1), 1.0 - below[:, -1]])

    def place(self, y: Any) -> int:
        """The position of an observation.

        :param y: a release
        """
        last = len(self.seen) - 1
        if self.integer:
            return min(max(int(y) - int(self.lo) + self.extra, 0), last)
        start = float(self.lo) - self.extra * self._unit
        if not y > start:
            return 0
        if not y < start + (last - 1) * self._unit:
            return last
        return 1 + min(int((y - start) / self._unit), last - 2)


def law_of(measurement: Measurement, bounds: tuple[Any, Any] | None = None) -> Law:
    """Find the law of a measurement.

    :param measurement: bounded noise of this plugin, optimised noise, or OpenDP's Laplace,
        geometric or Gaussian noise, on a single number; also behind transformations
    :param bounds: (lo, hi) of the answers, for noise that is not bounded itself
    """
    inner = mechanism(measurement)
    law = getattr(inner, "law", None)
    if isinstance(law, Law):
        return law
    try:
        noise = noise_of(inner)
    except ValueError as error:
        told = str(error).replace("must be", "must be bounded noise of opendp_optimal_bayes,")
        raise ValueError(told) from None
    if bounds is None:
        raise ValueError("bounds must be given for noise that is not bounded itself")
    lo, hi = interval(*bounds)
    whole = carrier_of(inner)[0] != "f"
    if whole and (lo.denominator != 1 or hi.denominator != 1):
        raise ValueError(f"lo ({lo}) and hi ({hi}) must be integers after integer noise")
    return Law(lo, hi, whole, noise)


def carrier_of(measurement: Measurement) -> str:
    """OpenDP's name of the numbers that noise is added to, which are those that are released.

    :param measurement: one that has a law
    """
    return str(mechanism(measurement).input_domain.carrier_type)


def mechanism(measurement: Measurement) -> Measurement:
    """What is behind transformations."""
    made = getattr(measurement, "__opendp_dict__", {})
    chained = made.get("__function__") == "make_chain_mt"
    return mechanism(made["__kwargs__"]["measurement1"]) if chained else measurement
