"""Loss functions: what a unit of noise costs, and exact bounds of it on a lattice."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from opendp_optimal.arrays import Frozen
from opendp_optimal.errors import CertificateError
from opendp_optimal.losses import sampled

Integers = Sequence[int]

_STORED = "custom:"
"""How the fingerprint of a user's loss begins."""


@dataclass(frozen=True)
class LatticeCost(Frozen):
    """Exact costs of the lattice points -radius..radius, as integers over one denominator.

    ``upper`` is not below the expected loss of a noise spread over the cell, ``lower`` is such
    that its linear interpolation is nowhere above the loss, ``atom`` is the loss at 0.
    Beyond the radius the loss never falls below its value at the ends.
    """

    upper: Integers
    lower: Integers
    atom: int
    denominator: int

    def check(self, points: int) -> None:
        """Raise unless these are whole costs of so many points."""
        if not isinstance(self.upper, tuple) or not isinstance(self.lower, tuple):
            raise CertificateError("costs are not lists of whole numbers")
        whole = {type(v) for v in (*self.upper, *self.lower, self.atom, self.denominator)}
        if whole != {int} or self.denominator < 1:
            raise CertificateError("costs are not whole numbers over a positive denominator")
        if len(self.upper) != points or len(self.lower) != points:
            raise CertificateError(f"costs do not belong to {points} points")


@dataclass(frozen=True)
class Loss:
    """A loss to minimise in expectation: ``Loss(function)``, or a name: "l1", "l2", "pinball:0.9".

    :param function: a continuous, unbounded function of the noise, in units of the sensitivity
        for real queries and in whole units for integer ones
    :param name: what to call it in tables and plots; the names of built-in losses are theirs alone
    :param lipschitz: a bound on the slope. Needed only for a function that is neither convex nor
        monotone on each side of 0; those two shapes are recognised from samples. The shape, or
        the slope, and that the loss does not fall again far beyond the noise, are assumptions of
        the lower bound (never of the privacy proof)
    """

    function: Callable[[float], float] | None
    name: str = "custom"
    lipschitz: float | None = None
    shape: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        """Check the name and the function at the door."""
        if self.lipschitz is not None and not (0 < self.lipschitz < math.inf):
            raise ValueError(f"lipschitz ({self.lipschitz}) must be positive and finite")
        if not isinstance(self.name, str):
            raise ValueError(f"name ({self.name!r}) must be a string")
        if self.function is None:
            object.__setattr__(self, "name", _known_name(self.name))
            return
        if is_reserved(self.name):
            raise ValueError(
                f"name ({self.name!r}) is that of a built-in loss: give the function another one"
            )
        object.__setattr__(self, "shape", sampled.examine(self.function, self.lipschitz))

    @property
    def custom(self) -> bool:
        """Whether this is a user's function rather than a built-in loss."""
        return self.function is not None

    @property
    def stored(self) -> bool:
        """Whether this is a user's loss from a file, of which only the fingerprint is known."""
        return self.function is None and self.name.startswith(_STORED)

    @property
    def symmetric(self) -> bool:
        """Whether c(x) = c(-x), so that the optimum is symmetric."""
        if self.function is not None:
            return sampled.is_symmetric(self.function)
        return self.name in ("l1", "l2") or self.name == "pinball:0.5"

    @property
    def fingerprint(self) -> str:
        """A short text that identifies the loss: its name, and a digest of samples if custom."""
        if self.function is None:
            return self.name
        values = ",".join(float(v).hex() for v in sampled.probe(self.function))
        digest = hashlib.sha256(f"{self.shape}|{self.lipschitz}|{values}".encode()).hexdigest()
        return f"{_STORED}{self.name}:{digest[:32]}"

    def __call__(self, x: float) -> float:
        """The loss of noise ``x``.

        >>> parse("pinball:0.9")(2.0)
        1.8
        """
        if self.function is not None:
            return float(self.function(x))
        if self.name == "l1":
            return abs(x)
        if self.name == "l2":
            return x * x
        level = _pinball_level(self.name)
        return float(level * x if x > 0 else (level - 1) * x)

    def mirrored(self) -> Loss:
        """The loss c(-x)."""
        if self.function is not None:
            function = self.function
            return Loss(lambda x: function(-x), f"{self.name}:mirrored", self.lipschitz)
        if self.name.startswith("pinball:"):
            return Loss(None, f"pinball:{1 - float(self.name[8:])!r}")
        return self

    def on_integers(self, radius: int) -> LatticeCost:
        """Exact costs for noise on the integers -radius..radius."""
        if self.function is not None:
            return LatticeCost(*sampled.integer_cost(self.function, radius))
        points = range(-radius, radius + 1)
        if self.name == "l1":
            exact, denominator = [abs(i) for i in points], 1
        elif self.name == "l2":
            exact, denominator = [i * i for i in points], 1
        else:
            level = _pinball_level(self.name)
            exact, denominator = _pinball(level, points), level.denominator
        return LatticeCost(exact, exact, exact[radius], denominator)

    def on_lattice(self, cells: int, radius: int) -> LatticeCost:
        """Exact costs for noise on the lattice of step 1/cells, spread uniformly over cells."""
        if self.function is not None:
            return LatticeCost(
                *sampled.lattice_cost(self.function, self.shape, self.lipschitz, cells, radius)
            )
        points = range(-radius, radius + 1)
        if self.name == "l2":
            # Cell average (ib)^2 + b^2/12; chords of x^2 lie at most b^2/4 above it.
            square = [12 * i * i for i in points]
            return LatticeCost(
                [v + 1 for v in square], [v - 3 for v in square], 0, 12 * cells * cells
            )
        # Linear on each side of 0: chords are exact, and only the cell of 0 has another average.
        if self.name == "l1":
            lower, centre, denominator = [4 * abs(i) for i in points], 1, 4 * cells
        else:
            level = _pinball_level(self.name)
            lower = [8 * v for v in _pinball(level, points)]
            centre, denominator = level.denominator, 8 * cells * level.denominator
        upper = list(lower)
        upper[radius] = centre
        return LatticeCost(upper, lower, 0, denominator)


def is_reserved(name: str) -> bool:
    """Whether a name belongs to the built-in losses."""
    return name in ("l1", "l2", "pinball") or name.startswith("pinball:")


def _known_name(name: str) -> str:
    """The name of a loss without a function: a built-in one, or a fingerprint from a file."""
    if name in ("l1", "l2") or name.startswith(_STORED):
        return name
    if not name.startswith("pinball:"):
        raise ValueError(
            f"loss ({name!r}) must be 'l1', 'l2', 'pinball:LEVEL', a registered name, "
            "a function or a Loss"
        )
    try:
        level = float(name[len("pinball:") :])
    except ValueError:
        level = math.nan
    if not 0 < level < 1:
        raise ValueError(f"loss ({name!r}) must have a pinball level in (0, 1)")
    return f"pinball:{level!r}"


def _pinball_level(name: str) -> Fraction:
    if not name.startswith("pinball:"):
        raise ValueError(f"loss ({name!r}) is known by its stored costs alone: give its function")
    return Fraction(float(name[len("pinball:") :]))


def _pinball(level: Fraction, points: range) -> list[int]:
    """The loss at integer points, times the denominator of the level."""
    up, down = level.numerator, level.denominator - level.numerator
    return [up * i if i > 0 else -down * i for i in points]


def parse(loss: str | Loss | Callable[[float], float]) -> Loss:
    """Turn a name, a function or a :class:`Loss` into a :class:`Loss`.

    >>> parse("l1").name, parse(lambda x: abs(x) ** 1.5).shape
    ('l1', 'convex')
    """
    if isinstance(loss, Loss):
        return loss
    if callable(loss):
        name = str(getattr(loss, "__name__", "custom")).strip("<>")
        return Loss(loss, "custom" if is_reserved(name) else name)
    if not isinstance(loss, str) or loss.startswith(_STORED):
        raise ValueError(
            f"loss ({loss!r}) must be 'l1', 'l2', 'pinball:LEVEL', a registered name, "
            "a function or a Loss"
        )
    return Loss(None, loss)
