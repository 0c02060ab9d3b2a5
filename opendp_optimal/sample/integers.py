"""Exact noise in integers, for any number of scales at once.

Gaussian noise is a real Gaussian variable, rounded to the nearest integer: on integer data that is
post-processing of the Gaussian mechanism, so everything that is true of that mechanism is true of
this one. Laplace noise has probabilities exactly proportional to ``exp(-rate * |z|)``, ``|z|`` the
Euclidean length of an integer vector.

Both come out of rejection from :mod:`~opendp_optimal.sample.strips` with random words of the
system's cryptographic generator. Floats decide only what they can decide with their error proved;
the few draws that are closer than that are settled in exact arithmetic with more random digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.arrays import Booleans, Floats, Indices, Integers
from opendp_optimal.exact.exponentials import exp_many
from opendp_optimal.sample.digits import Digits, below, settle, settle_beyond, settled
from opendp_optimal.sample.strips import (
    FIRST_BEYOND,
    TAIL_BITS,
    Shape,
    envelope,
    keep_factors,
    packed,
)
from opendp_optimal.sample.words import Source, random_words, secure_bytes

Rates = float | Floats

CHUNK = 1 << 16
PLACE_BITS = 36
FINE_BITS = 40
"""Binary digits of a place, where strips are short enough for the product to fit one word."""
LARGEST_UNIT = (1 << (64 - PLACE_BITS)) - 1
"""A strip may hold this many integers: the product with a place fits one word."""
TOLERANCE = 2.0**-18
"""Far more than floats can be wrong by; what lies closer is settled exactly."""
LARGEST_RATE = {False: 0.5, True: 1.0}
"""Rates of noise as wide as the grid step (True: Laplace); beyond, drawing becomes slow."""
LARGEST_DIMENSION = 16
"""Rejection from independent coordinates keeps one in 50 vectors of this length."""

_STRETCHES = (1.0 + 2.0**-8, 1.0 + 2.0**-5, 1.25, 2.0, 4.0, 16.0)


def gaussian_integers(rate: Rates, count: int, *, source: Source = secure_bytes) -> Integers:
    """Draw Gaussian variables of variance ``1 / (2 * rate)``, rounded to integers.

    :param rate: one for all, or one for each draw; a float is taken as the exact number it is
    :param count: number of draws
    :param source: gives so many random bytes; only a cryptographic one makes a release private

    >>> z = gaussian_integers(0.5 / 100.0**2, 10_000)
    >>> 95 < float(z.std()) < 105
    True
    """
    return _draw("gaussian", rate, count, source)


def laplace_integers(rate: Rates, count: int, *, source: Source = secure_bytes) -> Integers:
    """Draw integers with probabilities proportional to ``exp(-rate * abs(z))``.

    :param rate: one for all, or one for each draw; a float is taken as the exact number it is
    :param count: number of draws
    :param source: gives so many random bytes; only a cryptographic one makes a release private

    >>> z = laplace_integers(0.01, 10_000)
    >>> 90 < float(abs(z).mean()) < 110
    True
    """
    return _draw("laplace", rate, count, source)


def geometric(rate: float, count: int, source: Source = secure_bytes) -> Integers:
    """Draw 0, 1, ... with probabilities proportional to ``exp(-rate * k)``.

    :param rate: a float is taken as the exact number it is
    :param count: number of draws
    :param source: gives so many random bytes; only a cryptographic one makes a release private
    """
    z = laplace_integers(rate, count, source=source)
    return np.where(z >= 0, z, -1 - z)  # the two sides, folded


def laplace_floors(rate: float, count: int, *, source: Source = secure_bytes) -> Integers:
    """Draw Laplace variables of scale ``1 / rate``, rounded down to integers.

    The whole part of an exponential variable is geometric, with chances proportional to
    ``exp(-rate * k)``; so are the two sides of the two-sided law, the one without 0 moved by 1.

    :param rate: a float is taken as the exact number it is
    :param count: number of draws
    :param source: gives so many random bytes; only a cryptographic one makes a release private

    >>> z = laplace_floors(0.01, 10_000)
    >>> 90 < float(abs(z).mean()) < 110
    True
    """
    size = geometric(rate, count, source)
    up = (random_words(count, source) & np.uint64(1)) == 0
    return np.where(up, size, -1 - size)


def discrete_gaussian_integers(
    rate: float, count: int, *, source: Source = secure_bytes
) -> Integers:
    """Draw integers with probabilities proportional to ``exp(-rate * z**2)``.

    Proposed by Laplace noise, kept with the chance that corrects for it (Canonne, Kamath, Steinke
    2020).

    :param rate: a float is taken as the exact number it is
    :param count: number of draws
    :param source: gives so many random bytes; only a cryptographic one makes a release private

    >>> z = discrete_gaussian_integers(0.5 / 10.0**2, 10_000)
    >>> 9 < float(z.std()) < 11
    True
    """
    exact = Fraction(rate)
    slow = 1.0 / (math.floor(math.sqrt(0.5 / rate)) + 1)
    # rate z^2 - slow |z| + top is a square, so never negative.
    top = Fraction(slow) ** 2 / (4 * exact)

    def propose(places: Indices) -> tuple[Integers, Booleans]:
        z = laplace_integers(slow, len(places), source=source)
        size = np.abs(z).astype(np.float64)
        excess = rate * (size - slow / (2.0 * rate)) ** 2

        def settle_one(i: int, v: Digits) -> bool:
            length = abs(int(z[i]))
            return settled(v, exact * length * length - Fraction(slow) * length + top)

        return z, decided(exp_many(excess), settle_one, source)

    return _until_kept(np.empty(count, np.int64), propose)


def decided(chance: Floats, settle_one: Callable[[int, Digits], bool], source: Source) -> Booleans:
    """Which of some proposals are kept, each with its chance: one word of randomness for each.

    :param chance: in floats, which decide where they are not close
    :param settle_one: decides exactly, from the number of a proposal and the digits drawn for it
    :param source: of random bytes
    """
    drawn = random_words(len(chance), source)
    uniform = (drawn >> np.uint64(11)) * 2.0**-53
    kept = uniform < chance
    for i in np.flatnonzero(np.abs(uniform - chance) < TOLERANCE).tolist():
        kept[i] = settle_one(i, Digits(int(drawn[i]), 64, source))
    return np.asarray(kept)


def _until_kept(out: Integers, propose: Callable[[Indices], tuple[Integers, Booleans]]) -> Integers:
    """Fill an array with proposals: for so many of its places, again where they are not kept."""
    for start in range(0, len(out), CHUNK):
        pending = np.arange(start, min(start + CHUNK, len(out)))
        while len(pending):
            z, kept = propose(pending)
            out[pending[kept]] = z[kept]
            pending = pending[~kept]
    return out


def laplace_vectors(
    rate: Rates, count: int, dimension: int = 2, *, source: Source = secure_bytes
) -> Integers:
    """Draw integer vectors with probabilities proportional to ``exp(-rate * length)``.

    Coordinates are proposed independently, with Laplace noise of a rate that is at most
    ``rate / sqrt(dimension)``, and the vector is kept with the probability that corrects for it.

    :param rate: one for all, or one for each draw; a float is taken as the exact number it is
    :param count: number of vectors
    :param dimension: their length, at most 16
    :param source: gives so many random bytes; only a cryptographic one makes a release private

    >>> laplace_vectors(0.01, 5).shape
    (5, 2)
    """
    if not 1 <= dimension <= LARGEST_DIMENSION:
        raise ValueError(f"dimension ({dimension}) must be in [1, {LARGEST_DIMENSION}]")
    if dimension == 1:
        return laplace_integers(rate, count, source=source)[:, None]
    rates = np.broadcast_to(np.asarray(rate, np.float64), (count,))
    return _until_kept(
        np.empty((count, dimension), np.int64),
        lambda places: _propose_vectors(rates[places], dimension, source),
    )


def _propose_vectors(rates: Floats, dimension: int, source: Source) -> tuple[Integers, Booleans]:
    count = len(rates)
    slow = rates * (math.sqrt(1.0 / dimension) * (1.0 - 2.0**-48))
    z = _draw("laplace", np.repeat(slow, dimension), count * dimension, source)
    z = z.reshape(count, dimension)
    lengths = np.sqrt((z.astype(np.float64) ** 2).sum(axis=1))
    excess = np.maximum(rates * lengths - slow * np.abs(z).sum(axis=1), 0.0)

    def settle_one(i: int, v: Digits) -> bool:
        return _keep_vector(z[i].tolist(), Fraction(rates[i]), Fraction(slow[i]), v)

    return z, decided(exp_many(excess), settle_one, source)


def _keep_vector(z: list[int], rate: Fraction, slow: Fraction, v: Digits) -> bool:
    square, total = sum(x * x for x in z), sum(abs(x) for x in z)
    while True:
        root = math.isqrt(square << 2 * v.bits)
        low, high = Fraction(root, 1 << v.bits), Fraction(root + 1, 1 << v.bits)
        if root * root == square << 2 * v.bits:
            high = low
        least = max(Fraction(0), rate * low - slow * total)
        decided = below(v, least, max(Fraction(0), rate * high - slow * total), Fraction(1))
        if decided is not None:
            return decided
        v.extend()


def smallest_rate(*, pure: bool) -> float:
    """Return a rate that noise can be drawn with, close to the smallest.

    :param pure: for Laplace noise in place of Gaussian noise

    >>> len(gaussian_integers(smallest_rate(pure=False), 3))
    3
    """
    scale = (LARGEST_UNIT - 2) / envelope("laplace" if pure else "gaussian").width
    return (1.0 if pure else 0.5 / scale) / scale * (1.0 + 1e-9)


def _units(shape: Shape, rates: Floats) -> tuple[NDArray[np.uint64], float]:
    """Return the strips' lengths in integers, and by how much the widest is too wide."""
    if rates.size and not (np.isfinite(rates).all() and rates.min() > 0.0):
        raise ValueError("rate must be finite and positive")
    width = envelope(shape).width
    scales = np.asarray(np.sqrt(0.5 / rates)) if shape == "gaussian" else 1.0 / rates
    ideal = np.asarray(width * scales)
    if ideal.size and ideal.max() >= LARGEST_UNIT - 1:
        raise ValueError(
            f"rate ({rates.min():.3g}) must be larger: the noise would not fit; use a coarser grid"
        )
    # The factor makes sure that rounding errors never make a strip too narrow.
    units = np.asarray(np.floor(ideal * (1.0 + 2.0**-40)) + 1.0)
    stretch = float((units / ideal).max()) if ideal.size else 1.0
    return units.astype(np.uint64), stretch


def _draw(shape: Shape, rate: Rates, count: int, source: Source) -> Integers:
    rates = np.asarray(rate, np.float64)
    if rates.ndim and rates.shape != (count,):
        raise ValueError(f"rate (shape {rates.shape}) must be one number or one for each draw")
    units, stretch = _units(shape, rates)
    stretch = next((s for s in _STRETCHES if stretch * (1.0 + 2.0**-40) <= s), math.inf)
    out = np.empty(count, np.int64)
    for start in range(0, count, CHUNK):
        part = out[start : start + CHUNK]
        which = slice(start, start + CHUNK) if rates.ndim else ...
        # One scale for all stays a single number: arithmetic with it is faster.
        here, unit = rates[which], units[which]
        open_places = _propose(shape, part, unit, here, stretch, source)
        while len(open_places):
            if rates.ndim:
                here, unit = rates[which][open_places], units[which][open_places]
            again = np.empty(len(open_places), np.int64)
            left = _propose(shape, again, unit, here, stretch, source)
            part[open_places] = again
            open_places = open_places[left]
    return out


def _propose(
    shape: Shape,
    z: Integers,
    units: NDArray[np.uint64],
    rates: Floats,
    stretch: float,
    source: Source,
) -> Indices:
    """Write proposals into ``z``; return the indices of those not kept.

    Of one word, 16 bits choose the strip, 8 are the first digits of the decision, and the others
    are the place.
    """
    bits = FINE_BITS if int(units.max()) >> (64 - FINE_BITS) == 0 else PLACE_BITS
    word = random_words(len(z), source).astype("<u8", copy=False)
    slot = word.view("<u2")[::4].astype(np.intp)
    digit = word.view(np.uint8)[2::8]
    found = packed(shape, stretch).take(slot)
    strip = found.view(np.int8)[::2]
    place = word >> np.uint64(64 - bits)
    place *= units
    if shape == "gaussian":
        place += np.uint64(1 << (bits - 1))  # rounds to the nearest integer
    np.multiply(strip, units.astype(np.int64), out=z, dtype=np.int64)
    z += (place >> np.uint64(bits)).view(np.int64)
    # Further digits of the place could still carry into the integer.
    place &= np.uint64((1 << bits) - 1)
    settled = place <= np.uint64(1 << bits) - units
    settled &= digit < found.view(np.uint8)[1::2]
    unclear = np.flatnonzero(~settled)
    kept = _look_closer(shape, bits, unclear, z, strip, slot, word, units, rates, source)
    return unclear[~kept]


def _look_closer(
    shape: Shape,
    bits: int,
    which: Indices,
    z: Integers,
    strip: NDArray[np.int8],
    slot: Indices,
    word: NDArray[np.uint64],
    units: NDArray[np.uint64],
    rates: Floats,
    source: Source,
) -> Booleans:
    """Decide about some of the proposals with the density itself; may write into ``z``."""
    unit, rate = _pick(units, which), _pick(rates, which)
    strips, digits = strip[which].astype(np.int64), word.view(np.uint8)[2::8][which]
    places = word[which] >> np.uint64(64 - bits)
    more = random_words(len(which), source)
    beyond = slot[which] >= FIRST_BEYOND
    inner = np.where(strips >= 0, strips, -strips - 1)
    if shape == "gaussian":
        y = (strips + places * 2.0**-bits) * unit
        exponent = rate * y * y
    else:
        exponent = rate * np.abs(z[which])
    chance = 256.0 * keep_factors(shape)[inner] * exp_many(exponent) - digits
    uniform = (more >> np.uint64(11)) * 2.0**-53
    kept = uniform < chance
    half = 1 << (bits - 1) if shape == "gaussian" else 0
    carry = (places * unit + np.uint64(half)) & np.uint64((1 << bits) - 1)
    unsettled = (np.abs(uniform - chance) < TOLERANCE) | (carry > np.uint64(1 << bits) - unit)
    # Beyond: kept so rarely that the first digits decide, except once in 2**24.
    kept[beyond] = False
    unsettled[beyond] = more[beyond] >> np.uint64(64 - TAIL_BITS) == 0
    env = envelope(shape)
    for i in np.flatnonzero(unsettled).tolist():
        exact, length = Fraction(float(rate[i])), int(unit[i])
        settled: int | None
        if beyond[i]:
            v = Digits(int(more[i]), 64, source)
            settled = settle_beyond(shape, exact, length, v, source)
        else:
            u = Digits(int(places[i]), bits, source)
            v = Digits(int(digits[i]) << 64 | int(more[i]), 72, source)
            weight = Fraction(env.weights[int(inner[i])])
            settled = settle(shape, exact, length, int(strips[i]), weight, u, v)
        kept[i] = settled is not None
        if settled is not None:
            z[which[i]] = settled
    return kept


def _pick(values: NDArray[Any], which: Indices) -> NDArray[Any]:
    return values[which] if values.ndim else np.broadcast_to(values, (len(which),))
