"""Every number that leaves the data goes through an OpenDP measurement made here."""

from __future__ import annotations

import math
import warnings
from typing import Any

import opendp.prelude as dp

from opendp_optimal import GapWarning, make_optimal_bounded_noise, make_optimal_noise
from opendp_optimal.extend import laplace_scale_up, require_features
from opendp_optimal_learn.budget import Plan
from opendp_optimal_learn.truncated import make_truncated_laplace

_MARGIN = 1 + 1e-6
"""Sensitivities are taken a millionth larger, for the arithmetic that computes a statistic."""
_MOST_STEPS = 1 << 30
"""Sensitivities that a range may have: floats then round by far less than the margin."""
_BOUNDED_GAP = 0.05
_STEPS = (1, 2, 3, 4, 6, 8)
"""Lengths of a range, in sensitivities, for which there are tables of data-dependent noise.

Longer ranges get optimal noise and are clipped: there is less to gain.
"""


def part_of_range(ratio: float) -> int:
    """The largest tabulated length of a range that is not above a ratio; 0 for none.

    A range shorter than the sensitivity counts as exactly as long; one that is longer than all
    tables has next to nothing to gain from noise that depends on the answer.

    :param ratio: length of the range in sensitivities

    >>> part_of_range(0.5), part_of_range(5.0), part_of_range(500.0)
    (1, 4, 0)
    """
    if ratio > 1.25 * _STEPS[-1]:
        return 0
    return max(s for s in _STEPS if s <= max(ratio, 1.0))


class StatisticReleases:
    """Noisy counts and numbers, all with the same budget each, for statistics of this package.

    :param plan: what each release gets
    """

    def __init__(self, plan: Plan) -> None:
        """Nothing is solved or made before it is needed."""
        self.plan = plan
        self.made = 0
        self.whole: dp.Measurement | None = None
        self.real: dp.Measurement | None = None
        self._bounded: dict[int, dp.Measurement] = {}

    def count(self, value: int, most: int | None = None, *, clamped: bool = True) -> float:
        """Release a count of people, which one of them changes by 1 at most.

        :param value: the count
        :param most: an upper bound on it that is public, where there is one
        :param clamped: whether it is moved into its bounds, after the noise
        """
        self.made += 1
        value = max(0, min(int(value), _MOST_STEPS if most is None else most))
        if self.plan.noise == "optimal-bounded" and most is not None:
            length = part_of_range(most)
            if length and most >= 1:
                return self._within(value / most, length) * most
        if self.plan.noise in ("optimal", "optimal-bounded"):
            if self.whole is None:
                space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
                self.whole = make_optimal_noise(*space, d_in=1, d_out=self._target())
            noisy = float(self.whole(int(value)))
        else:
            noisy = self._add(float(value))
        if not clamped:
            return noisy
        return max(0.0, noisy if most is None else min(noisy, float(most)))

    @property
    def counting(self) -> dp.Measurement | None:
        """The measurement behind counts; None before one was released."""
        return self.real if self.whole is None else self.whole

    def number(self, value: float, *, sensitivity: float, low: float, high: float) -> float:
        """Release a number within [low, high], which one person changes by the sensitivity at most.

        :param value: the number
        :param sensitivity: the most that one person can change it by
        :param low: public lower bound
        :param high: public upper bound
        """
        width = high - low
        if not (low < high and math.isfinite(width)):
            raise ValueError(f"low ({low!r}) must be below high ({high!r}), both of them finite")
        if not (sensitivity > 0 and 0 < width / sensitivity < _MOST_STEPS):
            raise ValueError(
                f"sensitivity ({sensitivity!r}) must be positive, and at least "
                f"{1 / _MOST_STEPS:.2g} of the range from {low!r} to {high!r}"
            )
        self.made += 1
        inside = min(value, high) if value > low else low  # low for what is no number
        share = (inside - low) / width
        ratio = width / (sensitivity * _MARGIN)
        if self.plan.noise == "optimal-bounded" and (length := part_of_range(ratio)):
            return low + width * self._within(share, length)
        noisy = self._add(share * ratio) / ratio
        return low + width * min(max(noisy, 0.0), 1.0)

    def _target(self) -> Any:
        return (self.plan.epsilon, self.plan.delta) if self.plan.delta else self.plan.epsilon

    def _within(self, share: float, length: int) -> float:
        """Release a place in [0, 1] where a step of at most 1 / length is to be hidden."""
        if length not in self._bounded:
            space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GapWarning)
                self._bounded[length] = make_optimal_bounded_noise(
                    *space, 1.0, self._target(), range=(0.0, float(length)), gap=_BOUNDED_GAP
                )
        # A step of exactly 1 would be one float too many after rounding.
        inner = length * (2 - _MARGIN)
        return min(max(float(self._bounded[length](share * inner)) / inner, 0.0), 1.0)

    def _add(self, value: float) -> float:
        if self.real is None:
            self.real = self._measurement()
        return float(self.real(value))

    def _measurement(self) -> dp.Measurement:
        space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
        if self.plan.noise == "laplace":
            return dp.m.make_laplace(*space, scale=laplace_scale_up(self.plan.epsilon))
        if self.plan.sigma is not None:
            return dp.m.make_gaussian(*space, scale=self.plan.sigma)
        if self.plan.noise == "truncated-laplace":
            return make_truncated_laplace(*space, 1.0, (self.plan.epsilon, self.plan.delta))
        return make_optimal_noise(*space, d_in=1.0, d_out=self._target())


class Releases(StatisticReleases):
    """Noisy counts and numbers, all with the same budget each.

    That one person changes a count by 1 at most, and a number by its sensitivity at most, is taken
    on trust, so OpenDP's feature "honest-but-curious" is needed.

    :param plan: what each release gets

    >>> import opendp.prelude as dp
    >>> from opendp_optimal_learn.budget import plan
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> noisy = Releases(plan("optimal", 1.0, 1e-6, 2))
    >>> 0 <= noisy.number(0.5, sensitivity=0.1, low=0.0, high=1.0) <= 1
    True
    >>> noisy.made
    1
    """

    def __init__(self, plan: Plan) -> None:
        """Ask for the features; nothing is solved or made before it is needed."""
        require_features("contrib", "honest-but-curious")
        super().__init__(plan)
