"""Noise in closed form on the grid of a space: real Gaussian, discrete Gaussian, real Laplace.

Real noise is a real variable, rounded to the grid that the data was rounded to before: rounding is
post-processing, so the price is that of the real variable at the distance between values on the
grid. The discrete Gaussian lives on the integers and has a price of its own. Prices come from
:mod:`~opendp_optimal.certify.gaussian`, rounded up.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from opendp_optimal.budget.events import Event, Gaussian, Profile
from opendp_optimal.certify.gaussian import (
    discrete_gaussian_delta_up,
    gaussian_delta_up,
    laplace_delta_up,
    laplace_rho_up,
)
from opendp_optimal.exact.halving import largest, least
from opendp_optimal.exact.numbers import float_down, float_up, root_up
from opendp_optimal.known import DiscreteGaussian, Laplace, Law, Tabulated, gaussian_sigma
from opendp_optimal.known import Gaussian as GaussianLaw
from opendp_optimal.measure import dp
from opendp_optimal.measure.facts import Facts, record_text
from opendp_optimal.measure.guarantee import designed_distance, group
from opendp_optimal.measure.release import Grid, make_numeric, releaser, slack_of
from opendp_optimal.measure.space import Space
from opendp_optimal.sample.integers import (
    discrete_gaussian_integers,
    gaussian_integers,
    laplace_floors,
    smallest_rate,
)

FINENESS = 16
"""Binary digits between the noise scale and the grid."""
WIDEST_DISCRETE = 32.0
"""From this scale on, integers get a rounded real Gaussian: a part of 1e-4 more variance."""
LONGEST = {"gaussian": 30, "laplace": 28}
"""The noise scale is at most this power of two grid steps: half of what can be drawn, or less."""
SCALES = 2.0**-500, 2.0**500
"""Noise is at least and at most so wide: grid steps, and what is released, are normal floats."""
_CLOSE = 1e-9
_MOST_LISTED = 1 << 20

_DRAWS: dict[str, Callable[..., Any]] = {
    "gaussian": gaussian_integers,
    "discrete gaussian": discrete_gaussian_integers,
    "laplace": laplace_floors,
}


@dataclass(frozen=True)
class ClosedNoise:
    """Noise of a known law for a space, with its price at every distance.

    :param kind: "gaussian", "discrete gaussian" or "laplace"
    :param space: the checked domain and metric
    :param d_in: the distance it was designed for
    :param bits: the binary logarithm of grid steps in 1
    :param rate: chances fall with ``exp(-rate * z**2)``, or ``exp(-rate * abs(z))``, z in steps
    """

    kind: str
    space: Space
    d_in: Any
    bits: int
    rate: float

    @property
    def grid(self) -> Grid:
        """The grid that values are rounded to."""
        return Grid(self.bits, slack_of(self.space, self.bits), 1, 1)

    def moved(self, d_in: Any) -> Fraction:
        """Return how far apart values can be on the grid, in steps, in the noise's own norm."""
        return _moved(self.space, self.bits, _length(self.space, d_in))

    def rho(self, d_in: Any) -> float:
        """Return the zCDP price at a distance."""
        moved = self.moved(d_in)
        if self.kind == "laplace":
            return laplace_rho_up(Fraction(self.rate) * moved)
        return float_up(Fraction(self.rate) * moved**2)

    def delta(self, d_in: Any, epsilon: float) -> float:
        """Return the least delta at a distance and an epsilon, rounded up."""
        moved, rate = self.moved(d_in), Fraction(self.rate)
        if self.kind == "laplace":
            return laplace_delta_up(rate * moved, epsilon)
        if self.kind == "gaussian":
            return gaussian_delta_up(2 * rate * moved**2, epsilon)
        return discrete_gaussian_delta_up(self.rate, int(moved), epsilon)

    def epsilon(self, d_in: Any, delta: float) -> float:
        """Return the least epsilon at a distance and a delta, rounded up."""
        return _epsilon(self, _length(self.space, d_in), delta)

    def draw(self, size: int | None = None, steps: int = 1) -> Any:
        """Draw noise in grid steps, as a table does."""
        drawn = _DRAWS[self.kind](self.rate, 1 if size is None else size)
        return int(drawn[0]) if size is None else drawn

    @cached_property
    def law(self) -> Law:
        """The distribution of the noise on one number."""
        step = 2.0**-self.bits
        if self.kind == "discrete gaussian":
            return DiscreteGaussian(math.sqrt(0.5 / self.rate))
        if self.kind == "gaussian":
            return GaussianLaw(math.sqrt(0.5 / self.rate) * step)
        law = Laplace(self.rate / step)
        reach = math.ceil(45 * law.spread) + 2
        if not self.space.integer or reach > _MOST_LISTED:
            return law
        chances = np.diff(law.cdf(np.arange(-reach, reach + 2) - 0.5))
        return Tabulated(chances, 1.0, law.spread, 0.0, integer=True)

    def event(self, d_in: Any) -> Event:
        """Return what a release at a distance is."""
        distance = self.d_in if d_in is None else d_in
        rho = self.rho(distance)
        if self.kind == "gaussian":
            return Gaussian(rho)

        def curve(epsilon: float) -> float:
            return self.delta(distance, epsilon)

        at = float_up(Fraction(self.rate) * self.moved(distance))
        if self.kind != "laplace":  # there is no end to its losses
            at = rho + 2 * math.sqrt(rho * math.log(1e10))
        return Profile(at, curve(at), self, self.space.distance(distance), curve)


@lru_cache(maxsize=1024)
def _epsilon(noise: ClosedNoise, distance: Fraction, delta: float) -> float:
    if noise.kind == "laplace":
        most = float_up(Fraction(noise.rate) * noise.moved(distance))
        if delta == 0:
            return most
    high = 1.0
    while noise.delta(distance, high) > delta:
        high *= 2
        if high > 2**20:
            return math.inf
    return least(lambda e: noise.delta(distance, e) <= delta, 0.0, high, close=_CLOSE)


def _length(space: Space, d_in: Any) -> Fraction:
    """A distance; of vectors the Euclidean one need not be whole where each integer moves by 1."""
    whole = space.distance(d_in)
    return Fraction(d_in) if space.norm == "l2" and whole > 0 else whole


def _designed(space: Space, d_in: Any) -> Fraction:
    """The largest distance that noise for a distance hides at its price."""
    return max(designed_distance(space, d_in), _length(space, d_in))


def _moved(space: Space, bits: int, distance: Fraction) -> Fraction:
    slack = slack_of(space, bits)
    if distance == 0:
        return Fraction(0)
    steps = distance * Fraction(2) ** bits
    if not space.vector:
        return Fraction(math.floor(steps) + slack)
    # The Euclidean length of a change is at most its l1 length, and at most root(size) times its
    # largest coordinate; rounding moves every coordinate by up to a step.
    size = space.size
    if size is None and (slack or space.norm == "linf"):
        raise ValueError("input_domain must fix the length of its vectors")
    root = Fraction(0) if size is None else root_up(size)
    return (steps * root if space.norm == "linf" else steps) + slack * root


def _bits(space: Space, kind: str, scale: float, distance: float) -> int:
    """The grid: fine beside the noise and the distance, unless the noise would be too long."""
    if not SCALES[0] <= scale <= SCALES[1]:
        raise ValueError(f"d_in (noise of scale {scale:.3g}) must lead to one in 2^-500 .. 2^500")
    bits = FINENESS - math.floor(math.log2(min(scale, distance)))
    if space.integer:  # rounded only where the noise could not be drawn
        bits = 0 if kind == "gaussian" else max(bits, 0)
    return min(bits, LONGEST[kind] - math.ceil(math.log2(scale)))


def _gaussian(
    space: Space, d_in: Any, sigmas: float, fits: Callable[[Fraction], bool]
) -> ClosedNoise:
    """Gaussian noise of about so many standard deviations per distance, for which a price fits.

    :param fits: of the squared distance in standard deviations
    """
    distance = _designed(space, d_in)
    scale = sigmas * float(_moved(space, 0, distance) if space.integer else distance)
    if space.vector and not space.integer and space.norm == "linf" and space.size:
        scale *= math.sqrt(space.size)
    bits = _bits(space, "gaussian", scale, float(distance))
    moved = _moved(space, bits, distance)
    rate = float_down(1 / (2 * Fraction(sigmas) ** 2 * moved**2))
    while not fits(2 * Fraction(rate) * moved**2):
        rate *= 1 - 1e-12
    return ClosedNoise("gaussian", space, d_in, bits, rate)


def gaussian_for_rho(space: Space, d_in: Any, rho: float) -> ClosedNoise:
    """Return Gaussian noise of a zCDP price at a distance; discrete on integers.

    >>> gaussian_for_rho(Space("i32", "absolute"), 1, 0.5).law
    DiscreteGaussian(scale=1.0)
    """
    distance = _designed(space, d_in)
    if space.integer:
        moved = _moved(space, 0, distance)
        rate = float_down(Fraction(rho) / moved**2)
        if rate > 0 and math.sqrt(0.5 / rate) <= WIDEST_DISCRETE:
            return ClosedNoise("discrete gaussian", space, d_in, 0, rate)
    sigmas = math.sqrt(0.5 / rho)
    return _gaussian(space, d_in, sigmas, lambda square: square / 2 <= Fraction(rho))


def gaussian_for_delta(space: Space, d_in: Any, epsilon: float, delta: float) -> ClosedNoise:
    """Return the narrowest Gaussian noise that is (epsilon, delta)-private; discrete on integers.

    >>> round(gaussian_for_delta(Space("f64", "absolute"), 1.0, 1.0, 1e-6).law.scale, 3)
    4.225
    """
    sigmas = gaussian_sigma(epsilon, delta)
    distance = _designed(space, d_in)
    if space.integer and not space.vector:
        moved = int(_moved(space, 0, distance))
        near = 0.5 / (sigmas * moved) ** 2
        if 1 / math.sqrt(2 * near) <= WIDEST_DISCRETE:

            def fits(rate: float) -> bool:
                return discrete_gaussian_delta_up(rate, moved, epsilon) <= delta

            low = near
            while not fits(low):
                low /= 2
            rate = largest(fits, low, 4 * near, close=_CLOSE)
            return ClosedNoise("discrete gaussian", space, d_in, 0, rate)
    return _gaussian(
        space, d_in, sigmas, lambda square: gaussian_delta_up(square, epsilon) <= delta
    )


def laplace_for_rho(space: Space, d_in: Any, rho: float) -> ClosedNoise:
    """Return real Laplace noise of a zCDP price at a distance, for one number.

    >>> laplace_for_rho(Space("f64", "absolute"), 1.0, 0.5).rho(1.0) <= 0.5
    True
    """
    high = min(2.0 * (rho + math.sqrt(2 * rho)), sys.float_info.max)
    epsilon = largest(lambda e: laplace_rho_up(Fraction(e)) <= rho, rho, high, close=1e-12)
    distance = _designed(space, d_in)
    bits = _bits(space, "laplace", float(distance) / epsilon, float(distance))
    rate = float_down(Fraction(epsilon) / _moved(space, bits, distance))
    return ClosedNoise("laplace", space, d_in, bits, rate)


def closed_measurement(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    noise: ClosedNoise,
    output_measure: dp.Measure,
    d_out: Any,
) -> dp.Measurement:
    """Make a measurement that adds noise in closed form.

    :param input_domain: of the data
    :param input_metric: of the data
    :param noise: designed for the space, and for ``d_out`` at its ``d_in``
    :param output_measure: zCDP, approximate zCDP, or approximate max divergence
    :param d_out: what a release costs at ``noise.d_in``
    """
    space = noise.space
    if noise.rate < smallest_rate(pure=noise.kind == "laplace"):
        raise ValueError(f"d_out ({d_out}) must be larger: its noise is too long to be drawn")
    first, last = _length(space, noise.d_in), _designed(space, noise.d_in)
    kind = str(output_measure.type)

    def price(d_in: Any) -> Any:
        distance = _length(space, d_in)
        if distance == 0:
            return (0.0, 0.0) if isinstance(d_out, tuple) else 0.0
        if kind == "ZeroConcentratedDivergence":
            return noise.rho(d_in)
        if first <= distance <= last:
            return d_out
        if kind == "Approximate<ZeroConcentratedDivergence>":
            return noise.rho(d_in), 0.0
        epsilon = noise.epsilon(d_in, d_out[1])
        if math.isfinite(epsilon):
            return epsilon, d_out[1]
        return group(d_out[0], d_out[1], math.ceil(distance / last))

    release = releaser(space, noise.draw, noise.grid)
    asked = noise.kind, noise.rate, noise.bits, noise.d_in, d_out
    facts = Facts(record_text("closed_measurement", *asked), lambda: noise.law, noise.event)
    made = make_numeric(input_domain, input_metric, output_measure, space, release, price, facts)
    made.noise = noise
    return made
