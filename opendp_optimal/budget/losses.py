"""Distributions of the privacy loss on a grid: composed, and never better than what they stand for.

A pair of output distributions (P, Q) matters only through its profile, the delta at every epsilon.
Here a pair is given by the mass of P at each loss, a multiple of ``step``, and at infinity. A mass
that is rounded up, or moved to a larger loss, raises the profile at every epsilon, and composition
keeps the order of profiles (the profile of two pairs is a mean of profiles of the first, weighed
by the second). So all of the arithmetic is done with positive floats and rounded up: sums and
products of positive numbers have small relative errors, which ``_UP`` covers; differences are
avoided, or checked afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.exact.halving import least

LONGEST = 1 << 18
"""So many grid points are kept; with more, the grid is made coarser."""
LARGEST = 1 << 24
"""So many products are made in one composition, by the same means."""
TAIL = 1e-20
"""What may be moved to an infinite loss by cutting tails off, in all."""
_UP = 1 + 1e-10
"""Above the relative error of any sum here: of at most 2 LONGEST positive terms of 53 bits."""
_LOST = 1e-290
"""More than the products that are too small for a float and count as 0."""


@dataclass(frozen=True, eq=False)
class Losses:
    """Masses at the losses ``step * (first + i)``, and at infinity.

    :param step: a power of two, so that losses are exact floats
    :param first: the place of the smallest loss
    :param masses: not negative, with what is in ``endless`` at least 1 in all
    :param endless: mass of an infinite loss
    """

    step: float
    first: int
    masses: Floats
    endless: float

    @property
    def total(self) -> float:
        """All of the mass, rounded up."""
        return (float(self.masses.sum()) + self.endless) * _UP

    def delta_at(self, epsilon: float) -> float:
        """The profile at an epsilon, rounded up."""
        if epsilon == math.inf:
            return min(1.0, self.endless)
        start = max(0, math.floor(min(epsilon / self.step, 1e300)) - self.first + 1)
        masses = self.masses[start:]
        with np.errstate(over="ignore"):  # a loss beyond all floats is infinite
            losses = self.step * (self.first + start + np.arange(len(masses), dtype=np.float64))
        spent = -np.expm1(epsilon - losses) * masses
        return min(1.0, (float(spent.sum()) + self.endless) * _UP)

    def epsilon_at(self, delta: float) -> float:
        """The least epsilon, from 0 on, at which the profile is at most delta, rounded up."""
        if self.delta_at(0.0) <= delta:
            return 0.0
        end = self.step * (self.first + len(self.masses) - 1)
        return least(lambda epsilon: self.delta_at(epsilon) <= delta, 0.0, end, close=1e-12)

    def repeated(self, count: int) -> Losses:
        """The losses of so many such releases together."""
        out: Losses | None = None
        power = self
        while True:
            if count & 1:
                out = power if out is None else out.together(power)
            count >>= 1
            if not count:
                assert out is not None
                return out
            # What is cut off here counts again in each of the remaining powers.
            power = power.together(power, TAIL / (8 * count))

    def together(self, other: Losses, tail: float = TAIL / 64, largest: int = LARGEST) -> Losses:
        """The losses of two releases together.

        :param other: those of the second
        :param tail: mass that may be cut off at each end
        :param largest: the most products to make
        """
        step = min(self.step, other.step)
        while (
            max(self._size(step), other._size(step)) > LONGEST
            or self._size(step) * other._size(step) > largest
        ):
            step *= 2
        one, two = self._on_grid(step), other._on_grid(step)
        masses = np.convolve(one.masses, two.masses) * _UP
        endless = one.endless * two.total + two.endless * one.total
        return Losses(one.step, one.first + two.first, masses, endless * _UP + _LOST).shortened(
            tail
        )

    def shortened(self, tail: float) -> Losses:
        """At most LONGEST grid points: small tails are moved up, then the grid is made coarser."""
        rising, falling = np.cumsum(self.masses) * _UP, np.cumsum(self.masses[::-1]) * _UP
        left = int(np.searchsorted(rising, tail, side="right"))
        right = len(self.masses) - int(np.searchsorted(falling, tail, side="right"))
        out = self
        if left >= right:  # next to nothing is finite
            left, right = len(self.masses) - 1, len(self.masses)
        if left > 0 or right < len(self.masses):
            kept = self.masses[left:right].copy()
            kept[0] = (kept[0] + (rising[left - 1] if left else 0.0)) * _UP
            cut = falling[len(self.masses) - right - 1] if right < len(self.masses) else 0.0
            endless = float(self.endless + cut) * _UP
            out = replace(self, first=self.first + left, masses=kept, endless=endless)
        while len(out.masses) > LONGEST:
            out = out._coarser()
        return out

    def _size(self, step: float) -> float:
        """How many grid points there would be at another step, at most."""
        return len(self.masses) * (self.step / step) + 2

    def _on_grid(self, step: float) -> Losses:
        """The same losses on a finer grid, or chords on a coarser one."""
        out = self
        while out.step < step:
            out = out._coarser()
        if out.step == step:
            return out
        times = int(out.step / step)
        masses = np.zeros(times * (len(out.masses) - 1) + 1)
        masses[::times] = out.masses
        return Losses(step, out.first * times, masses, out.endless)

    def _coarser(self) -> Losses:
        """Twice the step: a mass in between goes to both neighbours, so that P and Q keep theirs.

        That makes the profile linear in exp(epsilon) from one point of the new grid to the next:
        a chord, which is nowhere below.
        """
        before, after = self.first % 2, (self.first + len(self.masses) - 1) % 2
        masses = np.pad(self.masses, (before, after))
        up = 1 / (1 + math.exp(-self.step))
        down = math.exp(-self.step) * up
        even, odd = masses[::2].copy(), masses[1::2]
        even[:-1] += odd * down
        even[1:] += odd * up
        return Losses(
            2 * self.step, (self.first - before) // 2, even * _UP + _LOST, self.endless * _UP
        )


def from_pair(epsilon: float, delta: float, dots: int) -> Losses:
    """The losses of a release of which (epsilon, delta) is all that is known.

    :param epsilon: of the release, possibly infinite
    :param delta: of the release
    :param dots: grid points up to epsilon, at least
    """
    if epsilon == math.inf:
        return Losses(1.0, 0, np.zeros(1), 1.0)
    if epsilon == 0:
        return Losses(1.0, 0, np.array([_above(1 - delta)]), delta)
    step = step_for(epsilon, dots)
    last = math.ceil(epsilon / step)
    masses = np.zeros(2 * last + 1)
    decay = math.exp(-last * step)
    masses[-1] = _above(1 - delta) / (1 + decay) * _UP
    masses[0] = decay * masses[-1] * _UP + _LOST
    return Losses(step, -last, masses, delta)


def step_for(epsilon: float, dots: int) -> float:
    """The largest power of two of which at least so many are in epsilon, or in a tiny number."""
    return float(2.0 ** math.floor(math.log2(max(epsilon, 2.0**-900) / dots)))


def from_profile(step: float, places: Sequence[int], deltas: Sequence[float]) -> Losses:
    """The losses whose profile has at least these deltas, and chords between them.

    Chords in exp(epsilon) are above a true profile, which is convex there. Masses are found from
    the top down, each as small as the delta before it allows. ``gained`` is what the finite losses
    above a place add to the profile there: a recursion without differences.

    :param step: of the grid
    :param places: of the deltas in steps, rising
    :param deltas: not below the profile
    """
    endless = deltas[-1]
    masses = np.zeros(places[-1] - places[0] + 1)
    above = gained = 0.0
    for i in range(len(places) - 1, 0, -1):
        width = step * (places[i] - places[i - 1])
        closer, decay = -math.expm1(-width), math.exp(-width)
        wanted = deltas[i - 1] * _UP
        mass = max(0.0, (wanted - endless - decay * gained) / closer - above)
        # The difference above may be off: more is always safe, and this ends when it is enough.
        while endless + (reached := closer * (above + mass) + decay * gained) < wanted:
            mass += max((wanted - endless - reached) / closer, (above + mass) * 1e-16, _LOST)
        masses[places[i] - places[0]] = mass
        above += mass
        gained = reached
    masses[0] = max(0.0, 1 - endless - above) + 1e-15
    return Losses(step, places[0], masses * _UP, endless)


def _above(value: float) -> float:
    """Not below a difference of two numbers from 0 to 1."""
    return min(1.0, value + 1e-16)
