"""Prices for a bound below the squared error of long noise for vectors, by a differential equation.

Noise is long if neighbours, 1 apart, are near each other beside its root mean square. Then, with
t = T(r) - r as a function of (r + T(r)) / 2, u a coordinate of a point of the unit sphere,
A(t) = P(u > t) and G(t) the mean of u where u > t, times A, the function D of
:mod:`~opendp_optimal.certify.radial_bound` is, but for a part of the order of 1 / r^2,

    r^2 + price e^(epsilon/2) (cosh(epsilon/2) (dG/dr + (size - 1) G / r) - 2 sinh(epsilon/2) A).

G is followed inwards, at which errors grow smaller, from where the event ends: w = 1 - t^2 goes to
0 there in a straight line. If w comes to 0 again, too much D was asked for. Near 0 t may stay what
it is. What the equation leaves out is taken from the D that is asked for, and the same done again.
Floats, and no proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicHermiteSpline
from scipy.optimize import minimize_scalar
from scipy.special import betainc, gammaln

from opendp_optimal.arrays import Booleans, Floats

_ROUGH, _STEPS = 150, 500
"""In which the equation is followed: to find a price, and in the end."""
_STEEP = 4.0
"""The slope of w where the event ends, at most."""
_KNOTS = 80
_AGAIN = 2
_FAR, _SURE = 0.4, 5e-4
"""D is to be larger than needed far out and everywhere, for what is lost between knots."""


class Course(NamedTuple):
    """R of :mod:`~opendp_optimal.certify.radial_smooth`.

    :param price: of the event
    :param places: knots
    :param radii: R there
    :param slopes: of R there
    """

    price: float
    places: Floats
    radii: Floats
    slopes: Floats


def top_density(size: int) -> float:
    """The density at 0 of a coordinate of a point of the unit sphere."""
    half = (size - 1) / 2
    return math.exp(float(gammaln(half + 0.5) - gammaln(half))) / math.sqrt(math.pi)


def beyond(size: int, t: Floats) -> Floats:
    """The chance that a coordinate of a point of the unit sphere is above t."""
    chance = 0.5 * betainc((size - 1) / 2, 0.5, np.clip(1 - t * t, 0.0, 1.0))
    return np.asarray(np.where(t < 0, 1 - chance, chance))


def smooth_prices(size: int, epsilon: float, delta: float, upper: float) -> Course:
    """A price, and R at knots.

    :param size: of the vectors, at least 2
    :param epsilon: privacy loss
    :param delta: probability of a larger loss
    :param upper: the squared error of the best noise that is known
    """
    reach = math.sqrt(upper)
    blank = _Equation(size, epsilon, reach, 1.0, np.zeros(_ROUGH))
    tail = max(delta, 1e-9 * min(1.0, epsilon)) * reach / blank.odds

    def lost(log_price: float) -> float:
        equation = replace(blank, price=math.exp(log_price))
        return equation.price * tail - equation.largest(1e-4)

    best = minimize_scalar(lost, bounds=(-6.0, 14.0), method="bounded", options={"xatol": 0.03})
    equation = replace(blank, price=math.exp(float(best.x)), left_out=np.zeros(_STEPS))
    extra = equation.extra()
    equation = replace(equation, left_out=-extra)
    for _ in range(_AGAIN):
        course, left_out = equation.misses(equation.largest(1e-7) * (1 - 1e-6))
        equation = replace(equation, left_out=left_out - extra)
    return course


@dataclass(frozen=True)
class _Equation:
    """The equation for w = 1 - t^2 over y = r / reach, from far to near.

    :param size: of the vectors
    :param epsilon: privacy loss
    :param reach: the root mean square of the noise
    :param price: of the event, over reach^3
    :param left_out: what D is larger by than the equation says, over reach^2
    """

    size: int
    epsilon: float
    reach: float
    price: float
    left_out: Floats

    @property
    def odds(self) -> float:
        """What the price is multiplied by."""
        return math.exp(self.epsilon / 2) * math.cosh(self.epsilon / 2)

    @property
    def _rate(self) -> float:
        return 2 * math.tanh(self.epsilon / 2) * self.reach

    @property
    def _ends(self) -> tuple[float, float]:
        root = math.sqrt(self.size)
        return max(0.05, 1e-3 ** (1 / (self.size + 1)) * (1 - 1.2 / root)), 1.3 + 6.5 / root

    @property
    def _grid(self) -> Floats:
        (low, high), steps = self._ends, len(self.left_out)
        return np.asarray(high * (low / high) ** (np.arange(1, steps + 1) / steps))

    def extra(self) -> Floats:
        """What D is to be larger by than needed: far out R bends, and hardly any noise is there."""
        start, end = 1 + 2 / math.sqrt(self.size), self._ends[1]
        far = np.maximum(0.0, self._grid - start) / (end - start)
        return np.asarray(_FAR * (end**2 - 1.5) * far**2 + _SURE)

    def _last(self, y: Floats) -> tuple[Floats, Floats]:
        """What w is where the event ends, and its slope there."""
        low, high = self._ends
        bend, half = max(1.0, 2 / (self.size - 1)), (self.size - 1) / 2
        near = math.log(high / low) / len(self.left_out)
        room = (high**2 - 1.5) * high / (self.price * top_density(self.size) * bend)
        steep = min(_STEEP, math.exp((math.log(room) - (bend * half - 1) * math.log(near)) / half))
        left = 1 - y / high
        return steep * left**bend, -steep * bend * left ** (bend - 1) / high

    def _chances(self, w: Floats) -> tuple[Floats, Floats]:
        half = (self.size - 1) / 2
        return top_density(self.size) * w**half / (2 * half), 0.5 * betainc(half, 0.5, w)

    def follow(self, wanted: Floats) -> tuple[Booleans, Floats, Floats]:
        """Which D can be had; w on the grid, and its slopes there."""
        grid, most, half = self._grid, 1 - 0.01 / self.size, (self.size - 1) / 2
        ending = self._last(grid)[1]
        w = np.full(len(wanted), float(self._last(grid[:1])[0][0]))
        dead, held = np.zeros(len(wanted), bool), np.zeros(len(wanted), bool)
        found, slopes = np.empty((2, len(grid), len(wanted)))

        def slope(y: float, w: Floats, left_out: float, least: float) -> Floats:
            w = np.clip(w, 1e-12, most)
            g, a = self._chances(w)
            with np.errstate(all="ignore"):
                needed = (wanted - left_out - y * y) / self.price + self._rate * a
                as_wanted = w / half * (needed / g - 2 * half / y)
            # A larger slope gives a larger D.
            free = np.maximum(as_wanted, least)
            return np.where(held, 0.0, np.where(w < most, free, np.maximum(free, 0.0)))

        for i, y in enumerate(grid):
            first = self.left_out[i]
            # If t may stay what it is from here on, it does: D is large enough for all y below.
            g, a = self._chances(np.clip(w, 1e-12, most))
            room = wanted - first + self.price * self._rate * a
            worst = np.minimum(y, np.sqrt(np.maximum(room, 0.0) / 3))
            held |= ~dead & (worst * (room - worst**2) <= self.price * (self.size - 1) * g)
            one = slope(y, w, first, ending[i])
            found[i], slopes[i] = w, one
            if i + 1 == len(grid) or (held | dead).all():
                found[i:], slopes[i:] = w, np.where(held, 0.0, one)
                break
            h, last = grid[i + 1] - y, self.left_out[i + 1]
            mean, least = (first + last) / 2, (ending[i] + ending[i + 1]) / 2
            two = slope(y + h / 2, w + h / 2 * one, mean, least)
            three = slope(y + h / 2, w + h / 2 * two, mean, least)
            four = slope(y + h, w + h * three, last, ending[i + 1])
            w = w + h / 6 * (one + 2 * two + 2 * three + four)
            dead |= ~(w > 1e-10)
            w = np.where(dead, 1e-10, np.minimum(w, most))
        return held & ~dead, found, slopes

    def largest(self, close: float) -> float:
        """The largest D that can be had, over reach^2."""
        low, high = 0.0, 2.0
        while high - low > close:
            tried = np.linspace(low, high, 26)
            fits = np.append(self.follow(tried[1:-1])[0], False)
            k = int(np.argmin(fits))
            low, high = float(tried[k]), float(tried[k + 1])
        return low

    def course(self, wanted: float) -> tuple[Course, Floats, Floats]:
        """R at knots; and at each place of the grid s, and what D is by the equation."""
        _, found, slopes = self.follow(np.array([wanted]))
        grid, w, rise = self._grid, found[:, 0], slopes[:, 0]
        g, a = self._chances(w)
        half = (self.size - 1) / 2
        told = g * (half * rise / w + 2 * half / grid) - self._rate * a
        value = grid**2 + self.price * told
        # The end, ever finer, and 0.
        high = self._ends[1]
        least = (0.3 * self.odds / (self.price * self.reach)) ** (1 / half)
        last = [float(grid[0])]
        while float(self._last(np.array([last[-1]]))[0][0]) > least and len(last) < 30:
            last.append(high - (high - last[-1]) * 0.6)
        y = np.concatenate([[0.0], grid[::-1], last[1:]])
        w = np.concatenate([w[-1:], w[::-1], self._last(np.array(last[1:]))[0]])
        t = np.sqrt(1 - w)
        s = np.concatenate([[0.0], np.cumsum(np.diff(y) * (1 / t[1:] + 1 / t[:-1]) / 2)])
        bend = np.abs(np.gradient(np.gradient(t[1:], y[1:]), y[1:])) * w[1:] ** (half - 1)
        fine = np.sqrt(bend[1:]) * np.diff(y[1:])
        along = np.concatenate([[0.0, 0.0], np.cumsum(fine)])
        along = along / along[-1] + y / y[-1] + np.arange(len(y)) / len(y)
        knots = np.searchsorted(along, np.linspace(0.0, along[-1], _KNOTS), "right") - 1
        # Where t begins to move, and where the end begins.
        turns = len(grid) - np.array([np.argmin(rise != 0) if rise[-1] == 0 else len(grid), 0])
        ended = np.flatnonzero(rise[1:] > self._last(grid)[1][1:])
        turns[1] = len(grid) - (int(ended[0]) + 1 if len(ended) else 0)
        ends = np.arange(len(grid), len(y))
        knots = np.unique(np.concatenate([[0], knots, turns, ends]))
        knots = knots[(knots == 0) | (knots >= turns[0])]
        scale = self.reach
        course = Course(
            self.price * scale**3 / self.odds, s[knots] * scale, y[knots] * scale, t[knots]
        )
        return course, s[1 : len(grid) + 1][::-1] * scale, value

    def misses(self, wanted: float) -> tuple[Course, Floats]:
        """A course, and what its D is larger by than the equation says, on the grid."""
        course, s, value = self.course(wanted)
        spline = CubicHermiteSpline(course.places, course.radii, course.slopes)
        inside = (s >= 1) & (s + 1 <= course.places[-1])
        s = np.clip(s, 1.0, course.places[-1] - 1)
        r, out, into = spline(s), spline(s + 1), spline(s - 1)
        told = beyond(self.size, -(r * r + 1 - out * out) / (2 * r))
        untold = beyond(self.size, (r * r + 1 - into * into) / (2 * r))
        exact = r * r + course.price * (told - math.exp(self.epsilon) * untold)
        return course, np.where(inside, np.clip(exact / self.reach**2 - value, -0.1, 0.1), 0.0)
