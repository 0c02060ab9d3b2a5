"""Random words from the one secure source, and exact integers from them.

No buffer is kept, so forked processes and threads can never draw the same words. A failure of the
source is an error: there is nothing to fall back on.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.arrays import Integers

try:  # The same kind of generator as OpenDP's own, ten times as fast as the kernel's for many.
    from ssl import RAND_bytes as many_bytes
except ImportError:  # pragma: no cover
    many_bytes = os.urandom

Words = NDArray[np.uint64]
Source = Callable[[int], bytes]

FEW = 256
"""Up to so many bytes the kernel is faster."""


def secure_bytes(count: int) -> bytes:
    """So many random bytes: from the kernel, or for many from OpenSSL's generator.

    :param count: how many
    """
    return os.urandom(count) if count <= FEW else many_bytes(count)


def _all_bytes(count: int, source: Source) -> bytes:
    data = source(count)
    if len(data) != count:
        raise OSError(f"the random source gave {len(data)} bytes, {count} were asked")
    return data


def one_word(source: Source = secure_bytes) -> int:
    """One uniform 64-bit word."""
    return int.from_bytes(_all_bytes(8, source), "little")


def random_words(count: int, source: Source = secure_bytes) -> Words:
    """Independent uniform 64-bit words."""
    return np.frombuffer(_all_bytes(8 * count, source), dtype=np.uint64)


def one_below(bound: int, source: Source = secure_bytes) -> int:
    """One integer, uniform on 0..bound-1: what ``uniform_below`` draws, without an array.

    :param bound: at most 2^62; the chance of a second draw is at most bound / 2^64
    """
    if not 1 <= bound <= 1 << 62:
        raise ValueError(f"bound ({bound}) must be in [1, 2^62]")
    even = (1 << 64) - (1 << 64) % bound
    while (drawn := one_word(source)) >= even:
        pass
    return drawn % bound


def uniform_below(bound: int, count: int, source: Source = secure_bytes) -> Integers:
    """Independent integers, uniform on 0..bound-1, by rejection of the uneven rest.

    :param bound: at most 2^62; the chance of a second draw is at most bound / 2^64
    """
    if not 1 <= bound <= 1 << 62:
        raise ValueError(f"bound ({bound}) must be in [1, 2^62]")
    even = np.uint64((1 << 64) - (1 << 64) % bound - 1)
    drawn = random_words(count, source)
    uneven = np.flatnonzero(drawn > even)
    while len(uneven):
        drawn = drawn.copy()
        drawn[uneven] = random_words(len(uneven), source)
        uneven = uneven[drawn[uneven] > even]
    return (drawn % np.uint64(bound)).astype(np.int64)


def uniform_below_each(bounds: Words, source: Source = secure_bytes) -> Integers:
    """Independent integers, each uniform on 0..bound-1 for its own bound.

    :param bounds: 64-bit words in [1, 2^62]; the answer has their shape
    """
    flat = bounds.reshape(-1)
    drawn = random_words(len(flat), source)
    uneven = (np.uint64(0) - flat) % flat  # 2^64 modulo the bound
    again = np.flatnonzero(drawn > ~uneven)
    while len(again):
        drawn = drawn.copy()
        drawn[again] = random_words(len(again), source)
        again = again[drawn[again] > ~uneven[again]]
    return (drawn % flat).astype(np.int64).reshape(bounds.shape)
