"""The pinball loss: ``level * x`` above 0, ``(level - 1) * x`` below."""

from __future__ import annotations

from fractions import Fraction

from opendp_optimal.losses.base import LatticeCost, NamedLoss


class Pinball(NamedLoss):
    """The pinball loss, whose least mean is at a quantile.

    :param level: of the quantile, in (0, 1)
    """

    level: Fraction
    power = 1
    _linear = True
    even = 0.5
    _least_side = 5e-324

    def __init__(self, level: float) -> None:
        """Check the level."""
        if not 0 < level < 1:
            raise ValueError(f"level ({level}) must be in (0, 1)")
        super().__init__(f"pinball:{float(level)!r}", symmetric=level == 0.5)
        object.__setattr__(self, "level", Fraction(float(level)))

    def __call__(self, x: float) -> float:
        """The loss of noise ``x``."""
        return float(self.level * x if x > 0 else (self.level - 1) * x)

    def value(self, z: Fraction) -> Fraction:
        """The loss of an exact error."""
        return self.level * z if z > 0 else (self.level - 1) * z

    def mirrored(self) -> Pinball:
        """The pinball loss of the other level."""
        return Pinball(1 - float(self.level))

    def on_integers(self, radius: int) -> LatticeCost:
        """Exact costs for noise on the integers -radius..radius."""
        exact = self._whole(radius)
        return LatticeCost(exact, exact, 0, self.level.denominator)

    def on_lattice(self, cells: int, radius: int) -> LatticeCost:
        """Exact costs for noise on the lattice of step 1/cells, spread uniformly over cells."""
        # Linear on each side of 0: chords are exact, and only the cell of 0 has another average.
        lower = [8 * v for v in self._whole(radius)]
        upper = list(lower)
        upper[radius] = self.level.denominator
        return LatticeCost(upper, lower, 0, 8 * cells * self.level.denominator)

    def _whole(self, radius: int) -> list[int]:
        """The loss at integer points, times the denominator of the level."""
        up, down = self.level.numerator, self.level.denominator - self.level.numerator
        return [up * i if i > 0 else -down * i for i in range(-radius, radius + 1)]


def pinball(level: str) -> Pinball:
    """The loss that is asked for as ``pinball:level``."""
    try:
        return Pinball(float(level))
    except ValueError:
        raise ValueError(f"loss ('pinball:{level}') must have a pinball level in (0, 1)") from None
