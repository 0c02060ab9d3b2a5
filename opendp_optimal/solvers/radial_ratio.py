"""Prices for a bound below the squared error of noise for many coordinates, from its likelihoods.

Noise of the density exp(-c r - k r^2) is all but the best for vectors, and tells neighbours apart
by the event that proves it: c r' + k r'^2 > c r + k r^2 + epsilon. With t = T(r) - r and
m = (r + T(r)) / 2, that is t = epsilon / (c + 2 k m). The function D of
:mod:`~opendp_optimal.certify.radial_bound` is constant with it, but for a few parts in a thousand,
where such noise is likely to be, and grows towards 0. Far out D would fall: there t is to grow,
so that the event ends.

A curve multiplies t, and is found with the price by linear programmes: D is linear in small
changes of both, and the least D less what delta costs is to be as large as it can be. A change is
kept if it is for the better, and the next may be larger; otherwise it has to be smaller. Floats,
and no proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicHermiteSpline, CubicSpline
from scipy.optimize import linprog

from opendp_optimal.arrays import Booleans, Floats
from opendp_optimal.solvers.radial_smooth import Course, beyond, top_density

_KNOTS, _INNER = 60, 8
"""Knots of R, and those of them that are far in."""
_SPARSE = 0.1
"""How dense knots are far from where noise is likely, beside where it is."""
_WIDE = 8.0
"""The curve begins so many widths of the noise before its root mean square."""
_TURN, _RISE = 3.0, 2.5
"""At so many widths beyond, t begins to grow, by that power of r more than before."""
_SPENT = 0.1
"""Where the event ends, its chance costs this part of what D is larger by."""
_ROUNDS = 60
_FIRST, _LEAST = 0.5, 1e-4
"""The largest change of the logarithm of the event's chance: at first, and when to stop."""
_DEARER = 0.1
"""The largest change of the price, as a part of it."""
_CLOSE = 1e-5
_BOUND = 5.0
"""What D is larger by than its least value where it need not be looked at."""


def ratio_prices(
    size: int,
    epsilon: float,
    delta: float,
    upper: float,
    c: float,
    k: float,
    *,
    turns: int = 16,
) -> Course | None:
    """A price, and R at knots; None if the event cannot end.

    :param size: of the vectors
    :param epsilon: privacy loss
    :param delta: probability of a larger loss, above 0
    :param upper: the squared error of the best noise that is known
    :param c: of noise exp(-c r - k r^2) that is all but the best
    :param k: of the same
    :param turns: how many values the curve has
    """
    event = _Event(size, epsilon, delta, upper, c, k, turns)
    if not (event.first_price > 0 and event.end > 1):
        return None
    curve, price, most = np.zeros(turns), event.first_price, _FIRST
    best = event.proven(curve, price)
    for _ in range(_ROUNDS):
        changed = event.better(curve, price, most)
        if changed is None:
            break
        hoped = changed[2]
        found = event.proven(*changed[:2])
        if found > best:
            gain, best = found - best, found
            curve, price = changed[:2]
            if gain > (hoped - found + gain) / 2:
                most *= 1.5
            if gain < _CLOSE and hoped - found < _CLOSE:
                break
        else:
            most *= 0.3
        if most < _LEAST:
            break
    return event.course(curve, price)


@dataclass(frozen=True)
class _Event:
    """The event along y = r / reach, the price in squares of reach, the root mean square."""

    size: int
    epsilon: float
    delta: float
    upper: float
    c: float
    k: float
    count: int

    @cached_property
    def reach(self) -> float:
        """The root mean square of the noise."""
        return math.sqrt(self.upper)

    @cached_property
    def width(self) -> float:
        """About how far r is from its root mean square, as a part of it."""
        return 1 / math.sqrt(2 * self.size)

    @cached_property
    def first_price(self) -> float:
        """Of which D neither rises nor falls at the root mean square."""
        y = np.array([1 - self.width, 1 + self.width])
        r, more = y * self.reach, self.epsilon
        rate = self.c + 2 * self.k * r
        out = 2 * more / (rate + np.sqrt(rate**2 + 4 * self.k * more))
        into = 2 * more / (rate + np.sqrt(np.maximum(0.0, rate**2 - 4 * self.k * more)))
        low, high = self._told(r, out) - math.exp(more) * self._untold(r, into)
        return float((y[0] ** 2 - y[1] ** 2) / (high - low))

    @cached_property
    def end(self) -> float:
        """The least y at which the event may end, or 0."""
        y = np.exp(np.arange(0.0, 3.0, 0.005))
        wanted = 1 + self.first_price * self.delta + 0.1
        cost = self.first_price * math.exp(2 * self.epsilon) * beyond(self.size, self._steps(y)[0])
        ended = cost <= _SPENT * (y * y - wanted)
        return float(y[np.argmax(ended)]) if ended.any() else 0.0

    @cached_property
    def places(self) -> Floats:
        """The knots of R but 0, densest about 1."""
        low = max(0.05, 1 - _WIDE * self.width)
        y = np.linspace(low, self.end, 4000)
        dense = np.cumsum(1 / (1 + ((y - 1) / (4 * self.width)) ** 2) + _SPARSE)
        dense = (dense - dense[0]) / (dense[-1] - dense[0])
        core = np.interp(np.linspace(0.0, 1.0, _KNOTS - _INNER), dense, y)
        return np.concatenate([np.geomspace(low / 5, low, _INNER)[:-1], core])

    @property
    def first(self) -> float:
        """Where the curve begins."""
        return max(0.1, 1 - _WIDE * self.width)

    @cached_property
    def turns(self) -> Floats:
        """The knots of the curve."""
        return np.linspace(self.first, self.end, self.count + 1)[1:]

    @cached_property
    def bends(self) -> tuple[Floats, Floats]:
        """The curve at the knots of R, and its slopes there, by its values at its own knots."""
        none = np.zeros(self.count)
        spline = CubicSpline(
            np.append(self.first, self.turns),
            np.eye(self.count + 1)[:, 1:],
            bc_type=((1, none), (2, none)),
        )
        inside = (self.places > self.first)[:, None]
        return spline(self.places) * inside, spline(self.places, 1) * inside

    def _steps(self, y: Floats) -> tuple[Floats, Floats]:
        """t without the curve, and its slope."""
        rate = self.c + 2 * self.k * y * self.reach
        x = (y - 1) / self.width - _TURN
        t = self.epsilon / rate * np.exp(_RISE * self.width * np.logaddexp(0.0, x))
        grows = _RISE / (1 + np.exp(-np.clip(x, -500.0, 500.0)))
        slope = t * (grows - 2 * self.k * self.reach / rate)
        return np.minimum(t, 0.97), np.where(t < 0.97, slope, 0.0)

    def course(self, curve: Floats, price: float) -> Course:
        """R at the knots."""
        values, slopes = self.bends
        t, rise = self._steps(self.places)
        factor = np.exp(values @ curve)
        rise = (rise + t * (slopes @ curve)) * factor / self.reach
        t = t * factor
        radii = np.append(0.0, self.places * self.reach)
        t, rise = np.append(t[0], t), np.append(0.0, rise)
        h, bend = np.diff(radii), -rise / t**2
        s = h * (1 / t[1:] + 1 / t[:-1]) / 2 + h * h * (bend[:-1] - bend[1:]) / 12
        return Course(float(price * self.upper), np.append(0.0, np.cumsum(s)), radii, t)

    def proven(self, curve: Floats, price: float) -> float:
        """The bound, as a part of the squared error; hopeless if R does not rise."""
        course = self.course(curve, price)
        if not (np.diff(course.places) > 0).all() or not 0 < course.slopes.max() < 1:
            return -math.inf
        return float(_Along(self, course, price).value.min() - price * self.delta)

    def better(
        self, curve: Floats, price: float, most: float
    ) -> tuple[Floats, float, float] | None:
        """A curve and a price with a larger bound, and the bound if D were linear."""
        course = self.course(curve, price)
        along = _Along(self, course, price)
        t = self._steps(self.turns)[0]
        steep = np.maximum(t * self._density(t) / np.maximum(beyond(self.size, t), 1e-300), 1.0)
        change = (along.changes() @ (course.slopes[1:, None] * self.bends[0])) / steep
        value = along.value
        near = value < value.min() + _BOUND
        rows = np.column_stack([-change, -price * along.bracket, np.ones(len(value))])[near]
        dearer = min(_DEARER, most)
        found = linprog(
            np.concatenate([np.zeros(self.count), [price * self.delta, -1.0]]),
            A_ub=rows,
            b_ub=value[near],
            bounds=[(-most, most)] * self.count + [(-dearer, dearer), (None, _BOUND)],
            method="highs",
        )
        if found.status != 0:
            return None
        moved = found.x
        hoped = -float(found.fun) - price * self.delta
        return curve + moved[: self.count] / steep, price * (1 + float(moved[self.count])), hoped

    def _density(self, t: Floats) -> Floats:
        half = (self.size - 1) / 2
        return np.asarray(top_density(self.size) * np.clip(1 - t * t, 0.0, 1.0) ** (half - 1))

    def _told(self, r: Floats, out: Floats) -> Floats:
        return beyond(self.size, np.clip(out - (1 - out * out) / (2 * r), -1.0, 1.0))

    def _untold(self, r: Floats, into: Floats) -> Floats:
        return beyond(self.size, np.clip(into + (1 - into * into) / (2 * r), -1.0, 1.0))


class _Along:
    """D at many places of a course, and what changes of t do to it."""

    def __init__(self, event: _Event, course: Course, price: float) -> None:
        self.event, self.course, self.price = event, course, price
        self.spline = CubicHermiteSpline(course.places, course.radii, course.slopes)
        s = self._samples()
        self.r = self.spline(s)
        self.outward, self.inward = s <= course.places[-1] - 1, s >= 1
        self.out = self._apart(s, self.outward, 1.0)
        self.into = -self._apart(s, self.inward, -1.0)
        told = event._told(self.r, self.out) * self.outward
        untold = event._untold(self.r, self.into) * self.inward
        self.bracket = told - math.exp(event.epsilon) * untold
        self.value = self.r**2 / event.upper + price * self.bracket

    def _samples(self) -> Floats:
        """Places between all at which D has a corner."""
        places = self.course.places
        end = float(places[-1])
        corners = np.unique(np.concatenate([places, places[1:] - 1, places[:-1] + 1, [end - 1]]))
        corners = corners[(corners >= 0) & (corners <= end)]
        wide = np.diff(corners)
        # Where noise is long nothing happens within a step, and floats would see it.
        parts = np.array([0.0, 0.33, 0.67]) if end < 1e6 else np.array([0.0, 0.5])
        between = (corners[:-1, None] + parts * wide[:, None])[wide > min(1e-9 * end, 0.5)]
        first = np.append(np.geomspace(1e-3, 0.1, 8), np.linspace(0.1, 1.0, 20)) * places[1]
        after = (end - 1) * (1 + 1e-9)
        found = np.unique(np.concatenate([between.ravel(), first, [end, after]]))
        return np.asarray(found[found > 0])

    def _apart(self, s: Floats, moved: Booleans, sign: float) -> Floats:
        """R(s + sign) - R(s), where both are on one piece without loss of digits."""
        spline, by = self.spline, sign * moved.astype(np.float64)
        piece = np.clip(
            np.searchsorted(spline.x, s + by / 2, "right") - 1, 0, spline.c.shape[1] - 1
        )
        low, high = spline.x[piece], spline.x[piece + 1]
        within = (np.minimum(s, s + by) >= low) & (np.maximum(s, s + by) <= high)
        cube, square, line = spline.c[:3, piece]
        x = s - low
        first, second = line + x * (2 * square + 3 * x * cube), square + 3 * x * cube
        near = by * (first + by * (second + by * cube))
        return np.asarray(np.where(within, near, spline(s + by) - spline(s)))

    def changes(self) -> Floats:
        """By how much D grows with the slope of R at each knot but the first."""
        event, r = self.event, self.r
        out, into = self.out, self.into
        told = event._density(np.clip(out - (1 - out * out) / (2 * r), -1.0, 1.0)) * self.outward
        untold = event._density(np.clip(into + (1 - into * into) / (2 * r), -1.0, 1.0))
        untold = untold * self.inward * math.exp(event.epsilon)
        outer = -self.price * told * (1 + out / r)
        inner = self.price * untold * (1 - into / r)
        return np.asarray(self._shares(outer, r + out / 2) + self._shares(inner, r - into / 2))

    def _shares(self, values: Floats, at: Floats) -> Floats:
        """Values spread over the knots beside radii."""
        knots = self.course.radii[1:]
        i = np.clip(np.searchsorted(knots, at) - 1, 0, len(knots) - 2)
        part = np.clip((at - knots[i]) / (knots[i + 1] - knots[i]), 0.0, 1.0)
        spread, row = np.zeros((len(at), len(knots))), np.arange(len(at))
        spread[row, i], spread[row, i + 1] = values * (1 - part), values * part
        return spread
