"""One draw at a time, in exact arithmetic, with as many random digits as the decision needs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from opendp_optimal.exact.exponentials import exp_bounds
from opendp_optimal.sample.strips import BEYOND_SHIFT, FIRST_BEYOND, SLOTS, Shape, envelope, slots
from opendp_optimal.sample.words import Source

_MORE = 64


@dataclass
class Digits:
    """A uniform real number in [0, 1) of which the first ``bits`` binary digits are known."""

    value: int
    bits: int
    source: Source

    def extend(self) -> None:
        """Draw more digits."""
        self.value = self.value << _MORE | int.from_bytes(self.source(_MORE // 8), "little")
        self.bits += _MORE

    @property
    def low(self) -> Fraction:
        """The smallest number with these digits."""
        return Fraction(self.value, 1 << self.bits)

    @property
    def high(self) -> Fraction:
        """What every number with these digits is below."""
        return Fraction(self.value + 1, 1 << self.bits)


def below(chance: Digits, x_low: Fraction, x_high: Fraction, factor: Fraction) -> bool | None:
    """Say whether ``chance < factor * exp(-x)`` for every x in the interval; None if unclear."""
    bits = chance.bits + 64
    upper = Fraction(exp_bounds(x_low, bits)[1], 1 << bits) * factor
    if chance.low >= upper:
        return False
    lower = Fraction(exp_bounds(x_high, bits)[0], 1 << bits) * factor
    return True if chance.high <= lower else None


def settled(v: Digits, x: Fraction, factor: Fraction = Fraction(1)) -> bool:
    """Whether ``v < factor * exp(-x)``, by as many digits as that needs."""
    while (found := below(v, x, x, factor)) is None:
        v.extend()
    return found


def settle(
    shape: Shape, rate: Fraction, unit: int, strip: int, weight: Fraction, u: Digits, v: Digits
) -> int | None:
    """Decide about the place ``unit * (strip + u)``: its integer if it is kept, else None.

    Gaussian places are real numbers, kept by their own density and rounded to the nearest integer;
    Laplace places are integers.
    """
    factor = envelope(shape).factor / weight
    while True:
        low, high = unit * (strip + u.low), unit * (strip + u.high)
        if shape == "gaussian":
            near, far = sorted((abs(low), abs(high)))
            kept = below(v, rate * near * near, rate * far * far, factor)
            first, last = low + Fraction(1, 2), high + Fraction(1, 2)
        else:
            first, last = low, high
            kept = None
            if first // 1 == -(-last // 1) - 1:
                x = rate * abs(first // 1)
                kept = below(v, x, x, factor)
        if kept is False:
            return None
        # ``last`` itself is not among the numbers with these digits.
        if kept and first // 1 == -(-last // 1) - 1:
            return int(first // 1)
        u.extend()
        v.extend()


def settle_beyond(shape: Shape, rate: Fraction, unit: int, v: Digits, source: Source) -> int | None:
    """Decide about a place in the tail: its integer if it is kept, else None."""
    env, table, turns = envelope(shape), slots(shape), 1
    while True:
        slot = int.from_bytes(source(2), "little") % SLOTS
        if slot < FIRST_BEYOND:
            break
        turns += 1
    strip = int(table[slot])
    inner = strip if strip >= 0 else -strip - 1
    weight = Fraction(env.weights[inner], 1 << (BEYOND_SHIFT * turns))
    strip += env.strips * turns if strip >= 0 else -env.strips * turns
    return settle(shape, rate, unit, strip, weight, Digits(0, 0, source), v)
