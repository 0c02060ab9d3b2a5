"""A spike: part of real noise in the middle of the cell around 0, narrower than any lattice.

At a large epsilon the highest step of good noise is much narrower than the cells that the rest of
it needs. So a table may spread a weight evenly over the middle ``1 / parts`` of the cell around 0.
There the density is higher than the weights say, by ``weight * parts``. Of what it has too much the
neighbour covers e^epsilon times the weights within a sensitivity, the lowest of them at worst; that
the neighbour has a spike too is left out, which claims less privacy, never more.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from opendp_optimal.arrays import Integers
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import BITS, exp_bounds

MOST_PARTS = 1 << 40


@dataclass(frozen=True)
class Spike:
    """A weight that is spread evenly over the middle ``1 / parts`` of the cell around 0.

    :param weight: of the spike
    :param parts: an odd number, from 3 on
    """

    weight: int
    parts: int

    def check(self) -> None:
        """Raise unless this is a spike."""
        if type(self.weight) is not int or type(self.parts) is not int:
            raise CertificateError("a spike is not given by integers")
        if self.weight <= 0 or not 3 <= self.parts <= MOST_PARTS or self.parts % 2 == 0:
            raise CertificateError("a spike has no weight, or no odd number of parts")

    def width(self, steps: int) -> int:
        """How many of the grid points in a cell it takes: an odd number, not narrower than it is.

        :param steps: grid points in a cell
        """
        return -(-steps // self.parts) | 1

    def height(self, weights: Integers) -> int:
        """What a whole cell as high as the spike would have."""
        return int(weights[len(weights) // 2]) + self.weight * self.parts


def lowest(weights: Integers, reach: int) -> int:
    """The least weight of the points up to so many from the middle; 0 where they end before."""
    middle = len(weights) // 2
    return int(weights[middle - reach : middle + reach + 1].min()) if reach <= middle else 0


def spike_ratio(weights: Integers, spike: Spike, reach: int) -> Fraction:
    """The largest ratio of the spike to a density at most ``reach`` cells away."""
    least = lowest(weights, reach)
    if least <= 0:
        raise CertificateError("a spike is higher than noise that ends within a sensitivity")
    return Fraction(spike.height(weights), least)


def spike_units(weights: Integers, spike: Spike, reach: int, epsilon: float) -> Fraction:
    """An upper bound of what the spike adds to the shortfalls of the weights, over 2^62."""
    lower, _ = exp_bounds(min(epsilon, 64.0))
    cover = lowest(weights, reach) * lower >> BITS
    short = max(0, spike.height(weights) - cover)
    return Fraction(min(short, spike.weight * spike.parts), spike.parts)
