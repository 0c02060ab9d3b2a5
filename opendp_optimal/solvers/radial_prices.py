"""Prices that prove a bound below the squared error of noise for vectors, by marching outwards.

Of a price, a function T is wanted for which D of :mod:`~opendp_optimal.certify.radial_bound` is as
large as it can be everywhere. Given T up to a radius, D there says which chance the event must
have, and so T there. Points of [0, 1] are followed outwards, each to its image under T, until the
event has no chance any more; if that never comes, too much was asked for. The largest D that can
be had is found by bisection, the best price by a search. Floats, and no proof.

Beside a staircase one event is too little: the noise of its first step, near 0, is to be compared
with that of the second, not with that at a distance of 1 and more. A further event does so, of
neighbours three quarters apart: it has half of what D needs at 0, and less and less up to the end
of the first step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betainc, betaincinv

from opendp_optimal.arrays import Booleans, Floats

_KNOTS, _CORNERED = 300, 900
"""About so many knots in all: without and with a further event, which has corners."""
_LEAST, _MOST = 4, 96
"""Points that are followed."""
_GENERATIONS = 1500
_SURE = 2e-4
"""D is to be larger by this part than needed, for what a proof loses between knots."""
_NEAR, _FAR = 0.5, 3.0
"""By how much more near 0, and by how much more far out."""
_SHIFTS = (0.0, 0.7, -0.7, 1.5)
"""Of the logarithm of the best price: where it fails, one near it may do."""
_MARGIN = 3e-5
"""By this part less than the largest D is asked for."""
_LENGTH, _SHARE, _CHEAPER, _COUNT = 0.75, 0.5, 0.4, 17
"""Of a further event: how far apart neighbours are, its part of what D needs at 0, its price as a
part of that of the first, and its knots that have images."""
_LEAST_CHANCE = 0.1
"""The event's least chance, as a part of that at 0, until it is over for all points."""


class Event(NamedTuple):
    """An event r' > T(r), T linear between knots.

    :param price: of the event
    :param width: T takes a knot to the one so many places further
    :param radii: the knots
    :param length: how far apart neighbours are
    """

    price: float
    width: int
    radii: Floats
    length: float = 1.0

    def worth(self, size: int, epsilon: float, r: Floats) -> Floats:
        """What it adds to D."""
        r = np.maximum(r, 1e-6)
        knots, width = self.radii, self.width
        image = np.interp(r, knots[:-width], knots[width:], right=math.inf)
        source = np.interp(r, knots[width:], knots[:-width], left=-math.inf)
        told = _below(size, self._place(r, image))
        return self.price * (told - math.exp(epsilon) * _below(size, -self._place(r, source)))

    def _place(self, r: Floats, target: Floats) -> Floats:
        found = (r * r + self.length**2 - target * np.abs(target)) / (2 * r * self.length)
        return np.clip(found, -1.0, 1.0)


def radial_prices(
    size: int, epsilon: float, delta: float, upper: float, first: float | None = None
) -> list[Event] | None:
    """Events whose prices prove a bound; None if nothing was found.

    :param size: of the vectors, at least 2
    :param epsilon: privacy loss
    :param delta: probability of a larger loss
    :param upper: the squared error of the best noise that is known
    :param first: where its first step ends, if it is a staircase
    """
    tail = max(delta, 1e-9 * min(1.0, epsilon))
    rough = np.linspace(0.0, 1.0, 4)

    def march(log_price: float) -> _March:
        price = math.exp(log_price)
        further = None if first is None else _further(size, upper + price * tail, price, first)
        return _March(size, epsilon, price, upper, tail, rough, further)

    def lost(log_price: float) -> float:
        return math.exp(log_price) * tail - float(march(log_price).largest(1e-5).min())

    start = math.log(upper / tail)
    best = minimize_scalar(
        lost, bounds=(start - 12.0, start), method="bounded", options={"xatol": 0.03}
    )
    for shift in _SHIFTS:
        found = _fine(march(float(best.x) + shift))
        if found is not None:
            return found
    return None


def _further(size: int, wanted: float, price: float, first: float) -> Event:
    """The event that serves the first step of a staircase."""
    length, price = _LENGTH, _CHEAPER * price
    r = min(first, 0.95 * length) * np.linspace(0.0, 1.0, _COUNT)
    chance = _SHARE * (1 - r / r[-1]) * (wanted - r * r) / price
    place = _place(size, np.clip(chance, 0.0, 0.5))
    image = np.sqrt(r * r + length * (length - 2 * r * place))
    return Event(price, _COUNT, np.concatenate([r, image]), length)


def _fine(first: _March) -> list[Event] | None:
    """Events close enough for a proof; None if images are not in order."""
    images = first.images(first.largest(1e-9) * (1 - _MARGIN))
    if images is None:
        return None
    knots = _KNOTS if first.further is None else _CORNERED
    count = min(_MOST, max(_LEAST, round(knots / len(images))))
    points = np.linspace(0.0, 1.0, count + 1) ** 1.5
    end = float(images[-2][0])
    fine = replace(first, points=points, far=_FAR * first.epsilon * end * end / count, end=end)
    images = fine.images(fine.largest(1e-12) * (1 - _MARGIN))
    if images is None:
        return None
    radii = np.concatenate([images[0], *(image[1:] for image in images[1:])])
    event = Event(fine.price, count, radii)
    return [event] if fine.further is None else [event, fine.further]


@dataclass(frozen=True)
class _March:
    """Points of [0, 1] and all their images under T.

    :param size: of the vectors
    :param epsilon: privacy loss
    :param price: of the event
    :param upper: about the least squared error
    :param tail: delta, or a little
    :param points: from 0 to 1
    :param further: another event
    :param far: how much larger than needed D is to be at ``end``
    :param end: where the event has hardly a chance any more
    """

    size: int
    epsilon: float
    price: float
    upper: float
    tail: float
    points: Floats
    further: Event | None = None
    far: float = 0.0
    end: float = math.inf

    def largest(self, close: float) -> Floats:
        """The largest D that can be had at each point and its images, to a part of it."""
        most = self.upper + self.price * self.tail
        low, high = np.full(len(self.points), 0.3 * most), np.full(len(self.points), 1.3 * most)
        while float((high - low).max()) > close * most:
            middle = (low + high) / 2
            fits = self._follow(middle)[1]
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return low

    def images(self, wanted: Floats) -> list[Floats] | None:
        """The points and their images, for a D that can be had; None if they are not in order."""
        images, _ = self._follow(wanted)
        knots = np.concatenate([images[0], *(image[1:] for image in images[1:])])
        return images if np.all(knots[1:] > knots[:-1]) else None

    def _extra(self, r: Floats) -> Floats:
        """What D is to be larger by: near 0 and far out T bends, and hardly any noise is there."""
        if math.isinf(self.end):
            return 0 * r
        near = 0.25 * math.sqrt(self.upper)
        if self.size < 5:
            near = min(1.0, max(0.2, 0.6 * near))
        # The further event has a share of what is needed near 0.
        inner = (
            (_NEAR if self.further is None else 0.0)
            * max(1.0, self.size / 5, (self.size / 20) ** 2)
            * self.upper
            * np.maximum(0.0, 1 - r / near) ** 2
        )
        bent = self.end**2 / self.upper - 1
        outer = self.far * (np.maximum(0.0, r * r / self.upper - 1) / bent) ** 6
        return np.asarray(inner + outer + _SURE * self.upper)

    def _follow(self, wanted: Floats) -> tuple[list[Floats], Booleans]:
        """All images, until the event has no chance; and of which points that ever comes."""
        odds, r, back = math.exp(self.epsilon), self.points, np.zeros(len(self.points))
        images, least = [r], _LEAST_CHANCE * self.upper / self.price
        over, failed = np.zeros(len(r), bool), np.zeros(len(r), bool)
        for _ in range(_GENERATIONS):
            had = r * r
            if self.further is not None:
                had = had + self.further.worth(self.size, self.epsilon, r)
            chance = (wanted + self._extra(r) - had) / self.price + odds * back
            failed |= ~over & ~(chance <= 0.5)
            over |= ~failed & (chance <= 0)
            done = bool((over | failed).all())
            # A chance that goes out in some places only would leave corners.
            place = _place(self.size, np.clip(chance, least, 0.5))
            image = r + 1 if done else np.sqrt(r * r + 1 - 2 * r * place)
            image[0] = r[-1]
            images.append(image)
            if done:
                return images, over
            back = _below(self.size, -(image * image + 1 - r * r) / (2 * image))
            r = image
        return images, over


def _below(size: int, u: Floats) -> Floats:
    """The chance that a coordinate of a point of the unit sphere is below u <= 0."""
    inside = np.maximum(0.0, (1 - u) * (1 + u))
    return np.asarray(0.5 * betainc((size - 1) / 2, 0.5, inside))


def _place(size: int, chance: Floats) -> Floats:
    """Below which a coordinate is with a chance of at most 1/2."""
    return np.asarray(-np.sqrt(np.maximum(0.0, 1 - betaincinv((size - 1) / 2, 0.5, 2 * chance))))
