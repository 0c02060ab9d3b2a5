"""What OpenDP's own Laplace and Gaussian noise costs: its whole curve instead of one number.

Which noise it is, is read from OpenDP's record of a measurement, and anybody can write there. So
what the record says is made again by OpenDP's own constructors, and must have the same spaces and
the same map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import opendp.combinators
import opendp.measurements
from opendp.core import measurement_map

from opendp_optimal.budget.accountant import total_curve
from opendp_optimal.budget.events import Approximate, Event, Gaussian, Profile
from opendp_optimal.budget.theorems import DiscreteGaussianDelta, concentrated_delta, laplace_delta
from opendp_optimal.measure import dp

FINEST = {"f64": -1074, "f32": -149}
"""The grid of noise on floats, unless another is asked for: the smallest power of two there is."""
_FINE = 2.0**-1000
"""Gaussian noise this much wider than its grid is continuous noise, rounded, but for _NEAR."""
_NEAR = 2.0**-900
_MODERATE = 100.0
"""Up to this rho the delta of Gaussian noise at an epsilon of 700 is below _NEAR."""
_LARGEST = 1e4
_WIDEST = 4096.0
"""Wider discrete Gaussian noise is priced by its rho alone."""
_FARTHEST = 4
"""Vectors of integers that move farther are priced by their rho alone: there are too many moves."""
_LAPLACE = ("make_laplace", "make_geometric")
NATIVE = (*_LAPLACE, "make_gaussian")
"""The constructors whose noise has a curve here."""


def native_event(name: str, given: dict[str, Any], price: float, d_in: Any) -> Event | None:
    """Return the event of OpenDP's own noise; None where its curve is not known.

    :param name: of the constructor
    :param given: its arguments
    :param price: what its own map states
    :param d_in: distance between neighbours
    """
    domain, scale = given.get("input_domain"), given.get("scale")
    element = getattr(domain, "element_domain", domain)
    if not isinstance(element, dp.AtomDomain) or not isinstance(scale, int | float):
        return None
    carrier = str(element.carrier_type)
    if not 0 < scale < math.inf or not 0 < price < math.inf or given.get("bounds") is not None:
        return None
    exponent = given.get("k")
    if exponent is None:
        exponent = FINEST.get(carrier, 0)
    measure = str(given.get("MO"))
    if name in _LAPLACE and measure == "MaxDivergence":
        return _laplace(price, 2 * math.ldexp(1.0, exponent) / scale)
    if name != "make_gaussian" or measure != "ZeroConcentratedDivergence":
        return None
    if carrier in FINEST:
        return _fine_gaussian(price, math.ldexp(1.0, exponent) / scale)
    if exponent != 0:
        return None
    if element is domain and isinstance(d_in, int):
        return _discrete_gaussian(price, float(scale), d_in)
    if element is not domain and isinstance(d_in, int | float) and 1 <= d_in <= _FARTHEST:
        size = getattr(domain, "size", None)
        return _gaussian_vector(price, float(scale), math.floor(Fraction(d_in) ** 2), size)
    return None


def _laplace(price: float, step: float) -> Approximate:
    # One step apart nothing more is known, or needed; nor where all is lost.
    if step >= 2 * price or price > _LARGEST:
        return Approximate(price)

    def curve(epsilon: float) -> float:
        return laplace_delta(price, epsilon, step)

    return Profile(price, 0.0, "laplace", step, curve)


def _fine_gaussian(price: float, grid: float) -> Gaussian | None:
    """Noise on a grid so fine that it is continuous noise, rounded.

    Each chance on a grid of step g, in standard deviations, differs from that of rounded noise by a
    24th of the second derivative of the density, times g^3: less than g^2 in all, for each number
    of a vector. So the delta at an epsilon differs by at most (1 + exp(epsilon)) g^2 a number, and
    beyond an epsilon of 700 it is at most what it is there.
    """
    return Gaussian(price, _NEAR) if grid <= _FINE and price <= _MODERATE else None


def _discrete_gaussian(price: float, scale: float, d_in: int) -> Profile | None:
    if not 0.25 <= scale <= _WIDEST or d_in > 16 * scale:
        return None
    exact = DiscreteGaussianDelta(scale, d_in)

    def curve(epsilon: float) -> float:
        return exact(epsilon) if epsilon <= 700 else concentrated_delta(price, epsilon)

    epsilon = price + 2 * math.sqrt(price * math.log(1e10))
    return Profile(epsilon, curve(epsilon), "discrete gaussian", (scale, d_in), curve)


@lru_cache(maxsize=64)
def _gaussian_vector(price: float, scale: float, square: int, size: int | None) -> Profile | None:
    """Discrete Gaussian noise on integers that move by a vector of at most a squared length.

    Each number has noise of its own, so a move costs what its parts cost one after the other, and
    the curve is the largest of all moves. One that goes on in another number, or farther in one,
    costs no less: an answer can be left out, and of log-concave noise the chance of each half-line
    grows with the move. So those alone count that cannot go on.
    """
    one = _discrete_gaussian(price, scale, math.isqrt(square))
    if one is None or square == 1 or size == 1:
        return one
    # A smaller move is never beyond what is known of a larger one.
    moves = [
        _discrete_gaussian((move / scale) ** 2 / 2 * (1 + 1e-12), scale, move)
        for move in range(1, math.isqrt(square) + 1)
    ]
    deltas = [
        total_curve(each for move in parts if (each := moves[move - 1]) is not None)
        for parts in farthest_moves(square, size or square)
    ]

    def curve(epsilon: float) -> float:
        worst = max(delta(epsilon) for delta in deltas)
        return min(worst, concentrated_delta(price, epsilon))

    return Profile(one.epsilon, curve(one.epsilon), "gaussian vector", (scale, square, size), curve)


def farthest_moves(square: int, size: int) -> list[tuple[int, ...]]:
    """Return the moves of so many integers within a squared length that cannot go farther.

    :param square: the largest sum of squares
    :param size: how many integers there are

    >>> farthest_moves(5, 5)
    [(2, 1), (1, 1, 1, 1, 1)]
    >>> farthest_moves(5, 2)
    [(2, 1)]
    """

    def moves(left: int, most: int, room: int) -> Iterator[tuple[int, ...]]:
        yield ()
        for part in range(min(most, math.isqrt(left)), 0, -1):
            if room:
                yield from ((part, *rest) for rest in moves(left - part * part, part, room - 1))

    def ends(parts: tuple[int, ...]) -> bool:
        left = square - sum(part * part for part in parts)
        longer = len(parts) < size and left >= 1
        return not longer and all(left < 2 * part + 1 for part in parts)

    return sorted((parts for parts in moves(square, square, size) if ends(parts)), reverse=True)


def remade(name: str, given: dict[str, Any]) -> dp.Measurement:
    """Make a measurement again from what OpenDP's record says of it.

    :param name: of its constructor, in ``opendp.measurements`` or ``opendp.combinators``
    :param given: its arguments
    """
    make = getattr(opendp.measurements, name, None) or getattr(opendp.combinators, name, None)
    if make is None:
        raise ValueError(f"releases: a measurement says that it was made by {name}")
    made: dp.Measurement = make(**given)
    return made


def same_price(one: dp.Measurement, two: dp.Measurement, d_in: Any) -> bool:
    """Whether two measurements state the same price at a distance."""
    stated, again = measurement_map(one, d_in), measurement_map(two, d_in)
    if hasattr(stated, "delta"):
        return all(
            stated.delta(epsilon) == again.delta(epsilon) for epsilon in (0.0, 0.5, 1.0, 2.0, 8.0)
        )
    return bool(_exact(stated) == _exact(again))


def _exact(loss: Any) -> Any:
    if isinstance(loss, tuple):
        return tuple(_exact(part) for part in loss)
    return Fraction(loss) if math.isfinite(loss) else loss
