"""The certified release of keys that are secret themselves."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from opendp_optimal.arrays import Booleans, Integers, Valued
from opendp_optimal.certify.keys import below_threshold, prove_keys
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.errors import CertificateError
from opendp_optimal.known.keys import best_chances
from opendp_optimal.problem.keys import KeyProblem
from opendp_optimal.sample.words import Source, random_words, secure_bytes
from opendp_optimal.table.base import proving

LARGEST_COUNT = 1 << 62
"""Larger counts are taken for this one."""


@dataclass(frozen=True, eq=False)
class KeyTable(Valued):
    """Noise for counts, a threshold, and the keys below it that are released all the same.

    :param problem: what was asked
    :param weights: of the noise -radius..radius; they add up to 2^62
    :param threshold: a noisy count that reaches it is released
    :param rescue: what is released for a key that is rescued below the threshold
    :param nothing: how many in 2^62 keys with count 0, 1, ... are not released; 0 beyond
    """

    problem: KeyProblem
    weights: Integers
    threshold: int
    rescue: int
    nothing: Integers

    @property
    def epsilon(self) -> float:
        """Privacy parameter for one key."""
        return self.problem.epsilon

    @property
    def delta(self) -> float:
        """Privacy parameter for one key."""
        return self.problem.delta

    @property
    def radius(self) -> int:
        """The largest noise."""
        return len(self.weights) // 2

    def __repr__(self) -> str:
        """One line with the guarantee, the threshold, and where half of the keys are released."""
        return (
            f"KeyTable(epsilon={self.epsilon}, delta={self.delta}, move={self.problem.move}, "
            f"threshold={self.threshold}, half={self.half})"
        )

    @proving
    def verify(self) -> None:
        """Repeat the proof from the stored data alone; raises CertificateError if it fails."""
        if not isinstance(self.problem, KeyProblem) or type(self.rescue) is not int:
            raise CertificateError("a table has parts that are not its own")
        prove_keys(
            self.weights,
            self.nothing,
            threshold=self.threshold,
            move=self.problem.move,
            epsilon=self.problem.epsilon,
            delta=self.problem.delta,
        )

    def chance(self, count: int) -> float:
        """The chance that a key with this count is released.

        :param count: of the key
        """
        at = max(0, int(count))
        return 1.0 if at >= len(self.nothing) else float(1 - Fraction(int(self.nothing[at]), TOTAL))

    def best_chance(self, count: int) -> float:
        """No mechanism of this epsilon and delta for one key releases it more often.

        :param count: of the key
        """
        chances = best_chances(self.epsilon, self.delta)
        steps = -(-max(0, int(count)) // self.problem.move)
        return float(chances[min(steps, len(chances) - 1)])

    @property
    def half(self) -> int:
        """The least count that is released at least every second time."""
        return int(np.flatnonzero(np.append(self.nothing, 0) <= TOTAL // 2)[0])

    def error(self, count: int) -> float:
        """The expected absolute error at a count; what is not released counts as 0.

        :param count: of the key
        """
        if count <= 0:
            return 0.0
        noise = np.arange(-self.radius, self.radius + 1)
        above = noise >= self.threshold - count
        kept = float((np.abs(noise) * (self.weights / TOTAL))[above].sum())
        below = int(below_threshold(self.weights, self.threshold - count, 1)[0])
        held = int(self.nothing[count]) if count < len(self.nothing) else 0
        return kept + (abs(self.rescue - count) * (below - held) + count * held) / TOTAL

    @cached_property
    def _cumulative(self) -> Integers:
        return np.cumsum(self.weights, dtype=np.int64)

    def draw(self, counts: Integers, source: Source = secure_bytes) -> tuple[Booleans, Integers]:
        """Which of some keys are released, and with what; one word of randomness for each.

        :param counts: of the keys; those below 1 are never released
        :param source: of random bytes
        """
        counts = np.clip(np.asarray(counts), 0, LARGEST_COUNT).astype(np.int64)
        words = (random_words(len(counts), source) >> np.uint64(2)).astype(np.int64)
        noisy = counts + np.searchsorted(self._cumulative, words, side="right") - self.radius
        held = np.append(self.nothing, 0)[np.minimum(counts, len(self.nothing))]
        # The lowest words release nothing, those after them rescue, the rest is noise above.
        values = np.where(noisy >= self.threshold, noisy, self.rescue)
        released: Booleans = (words >= held) & (counts > 0)
        return released, values
