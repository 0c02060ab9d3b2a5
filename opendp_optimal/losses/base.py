"""Loss functions: what an error costs, exact bounds of it on a lattice, and names for losses."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np

from opendp_optimal.arrays import Floats, Valued
from opendp_optimal.errors import CertificateError
from opendp_optimal.losses import NAMED, sampled
from opendp_optimal.losses.pairs import PairLoss
from opendp_optimal.losses.pieces import Piece, halves, pieces

Integers = Sequence[int]

_STORED = "custom:"
"""How the fingerprint of a user's loss begins."""
_SPLITS = {"convex": 4, "monotone": 32}
_SLACK = 1 + Fraction(1, 1 << 40)
_REMEMBERED = 8


@dataclass(frozen=True, eq=False)
class LatticeCost(Valued):
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
class _Rescaled:
    """A loss of noise that is multiplied first: a function that can be pickled."""

    loss: Loss
    unit: float

    def __call__(self, x: float) -> float:
        return self.loss(x * self.unit)


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

    ``symmetric`` says whether c(x) = c(-x), so that the optimum is symmetric: all samples agree.
    """

    function: Callable[[float], float] | None
    name: str = "custom"
    lipschitz: float | None = None
    shape: str = field(default="", kw_only=True)
    symmetric: bool = field(init=False, compare=False, repr=False)

    by_samples = True
    """Whether it is known by samples of it, which then go into tables."""
    at_hand = True
    """Whether it can be evaluated."""
    endless = False
    """Whether its mean over noise without end is known exactly."""
    power = 0
    """How it grows when all errors are scaled: 1 or 2; 0 for a function of unknown growth."""
    even = 1.0
    """What a unit of error to that power costs, on average over both signs."""
    like = "l1"
    """The loss with a known best noise, "l1" or "l2", that it resembles."""
    pairs: ClassVar[PairLoss | None] = None
    """What it costs to be off by noise on a sum and on a count, where that is known exactly."""
    _least_side = 1e-3
    _linear = False
    """Whether it is known to be linear on each side of 0."""

    def __post_init__(self) -> None:
        """Check the name and the function at the door."""
        if self.lipschitz is not None and not (0 < self.lipschitz < math.inf):
            raise ValueError(f"lipschitz ({self.lipschitz}) must be positive and finite")
        if not isinstance(self.name, str):
            raise ValueError(f"name ({self.name!r}) must be a string")
        if not callable(self.function):
            raise ValueError(
                f"function ({self.function!r}) must be a function of the noise; built-in losses "
                "are asked for by name, like loss='l1'"
            )
        if is_reserved(self.name):
            raise ValueError(
                f"name ({self.name!r}) is that of a built-in loss: give the function another one"
            )
        samples = self._samples
        object.__setattr__(self, "shape", sampled.examine(self, samples, self.lipschitz))
        object.__setattr__(self, "symmetric", bool(np.array_equal(samples, samples[::-1])))

    @cached_property
    def _samples(self) -> Floats:
        """Values at a fixed set of points, by which a function is recognised."""
        return sampled.probe(self)

    @cached_property
    def fingerprint(self) -> str:
        """A short text that identifies the loss: its name, and a digest of samples if custom."""
        values = ",".join(float(v).hex() for v in self._samples)
        digest = hashlib.sha256(f"{self.shape}|{self.lipschitz}|{values}".encode()).hexdigest()
        return f"{_STORED}{self.name}:{digest[:32]}"

    @property
    def spelling(self) -> str:
        """What stands for it in the text of a call."""
        return "loss"

    @property
    def lean(self) -> float:
        """The logarithm of what an error to one side costs, relative to one to the other."""
        one, other = sorted((self(1.0), self(-1.0)))
        return math.log(max(1.0, other / max(one, self._least_side)))

    def __call__(self, x: float) -> float:
        """The loss of noise ``x``.

        >>> loss_of("pinball:0.9")(2.0)
        1.8
        """
        assert self.function is not None
        found: Any = self.function(x)
        with contextlib.suppress(TypeError, ValueError):
            if not getattr(found, "ndim", 0):
                return float(found)
        raise ValueError(f"loss must be a number, but loss({x}) is {found!r}")

    def values(self, errors: Floats) -> Floats:
        """The losses of an array of errors, in floats."""
        flat = [self(x) for x in np.ravel(errors).tolist()]
        return np.array(flat, dtype=np.float64).reshape(np.shape(errors))

    def value(self, z: Fraction) -> Fraction:
        """The loss of an exact error; a user's function is asked at the nearest float."""
        return Fraction(self(float(z)))

    def exact(self, z: Fraction) -> Fraction:
        """The loss of an error z, not below it where a user's function was rounded."""
        return self.value(z) * _SLACK

    def pieces(self, z: Fraction, h: Fraction) -> list[Piece]:
        """Linear pieces that are nowhere below s -> c(z - s h) on [0, 1]."""
        splits = 2 if self._linear else _SPLITS[self.shape]
        return pieces(self.exact, z, h, splits, level=self.shape == "monotone")

    def halves(self, z: Fraction, h: Fraction) -> tuple[Fraction, Fraction]:
        """Upper bounds of the integrals of (1 - s) c(z - s h) and of s c(z - s h)."""
        return halves(self.pieces(z, h))

    def mirrored(self) -> Loss:
        """The loss c(-x)."""
        return Loss(_Rescaled(self, -1), f"{self.name}:mirrored", self.lipschitz)

    def scaled(self, unit: float) -> Loss:
        """The loss of noise in units of the sensitivity, for noise that is then scaled by it.

        A loss that grows with a power of the error stays as it is: its means are scaled instead.
        """
        if unit == 1:
            return self
        slope = None if self.lipschitz is None else self.lipschitz * unit
        return Loss(_Rescaled(self, unit), f"{self.name}:{unit:g}", slope)

    def on_integers(self, radius: int) -> LatticeCost:
        """Exact costs for noise on the integers -radius..radius."""
        return LatticeCost(*sampled.integer_cost(self._on_grid(1, radius)))

    def on_lattice(self, cells: int, radius: int) -> LatticeCost:
        """Exact costs for noise on the lattice of step 1/cells, spread uniformly over cells."""
        splits = sampled.splits(self.shape, radius)
        values = self._on_grid(cells * splits, (radius + 1) * splits)
        return LatticeCost(*sampled.lattice_cost(values, self.shape, self.lipschitz, cells, splits))

    @cached_property
    def _grids(self) -> dict[int, Floats]:
        return {}

    def _on_grid(self, step: int, reach: int) -> Floats:
        """Values at the multiples of 1/step from -reach to reach, none of them asked for twice."""
        known = self._grids.get(step)
        if known is None or len(known) // 2 < reach:
            known = sampled.on_grid(self, step, reach, known)
            self._grids[step] = known
            while len(self._grids) > _REMEMBERED:
                self._grids.pop(next(iter(self._grids)), None)
        middle = len(known) // 2
        return known[middle - reach : middle + reach + 1]

    def __getstate__(self) -> dict[str, object]:
        """What was remembered is left behind in copies and pickles."""
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}

    def chords(self, step: Fraction, radius: int) -> list[Fraction]:
        """Values at the multiples of a step whose chords are nowhere above the loss."""
        width, splits = float(step), sampled.splits(self.shape, radius)
        values = sampled.on_grid(lambda x: self(x * width), splits, (radius + 1) * splits)
        _, lower, _, denominator = sampled.lattice_cost(values, self.shape, None, 1, splits)
        return [Fraction(v, denominator) for v in lower]

    def tail_mean(
        self, mass: Fraction, first: Fraction, second: Fraction, cells: int, spread: bool
    ) -> Fraction:
        """The mean over one tail of noise without end, exactly.

        :param mass: of the tail
        :param first: mean of the distance from 0, counted in cells
        :param second: mean of its square
        :param cells: of the lattice, for each unit of the loss
        :param spread: whether noise is spread uniformly over cells
        """
        raise ValueError(f"loss ({self.name}) must be l1 or l2 for noise without end")

    def staircase_step(self, epsilon: float) -> float:
        """Where, in each unit, the density of a good staircase drops by ``exp(-epsilon)``."""
        return loss_of("l1").staircase_step(epsilon)

    def uniform_atom(self, delta: float) -> float:
        """The point mass at 0 of good (0, delta)-private noise that is uniform elsewhere."""
        return loss_of("l1").uniform_atom(delta)


class NamedLoss(Loss):
    """A loss that is known by its name rather than by a function."""

    by_samples = False

    def __init__(self, name: str, *, symmetric: bool, shape: str = "convex") -> None:
        """Nothing is to be examined."""
        known = {"function": None, "name": name, "lipschitz": None, "shape": shape}
        for key, value in (known | {"symmetric": symmetric}).items():
            object.__setattr__(self, key, value)

    @cached_property
    def fingerprint(self) -> str:
        """The name."""
        return self.name

    @property
    def spelling(self) -> str:
        """The name, quoted."""
        return repr(self.name)

    def exact(self, z: Fraction) -> Fraction:
        """The loss of an error z."""
        return self.value(z)

    def mirrored(self) -> Loss:
        """The loss c(-x)."""
        return self if self.symmetric else super().mirrored()

    def scaled(self, unit: float) -> Loss:
        """The loss itself: it grows with a power of the error."""
        return self

    def chords(self, step: Fraction, radius: int) -> list[Fraction]:
        """Values at the multiples of a step whose chords are nowhere above the loss."""
        listed = self.on_lattice(1, radius)
        unit = step**self.power / listed.denominator
        return [unit * v for v in listed.lower]


class StoredLoss(NamedLoss):
    """A user's loss from a file: its fingerprint and costs are known, its function is not at hand.

    :param name: the fingerprint
    """

    by_samples = True
    at_hand = False

    def __init__(self, name: str) -> None:
        """Keep the fingerprint."""
        if not name.startswith(_STORED):
            raise ValueError(f"loss ({name!r}) must be the fingerprint of a user's loss")
        super().__init__(name, symmetric=False, shape="")

    def __call__(self, x: float) -> float:
        """Nobody knows."""
        raise self._unknown()

    def on_lattice(self, cells: int, radius: int) -> LatticeCost:
        """Nobody knows."""
        raise self._unknown()

    def _unknown(self) -> ValueError:
        return ValueError(
            f"loss ({self.name!r}) is known by its stored costs alone: give its function"
        )


def is_reserved(name: str) -> bool:
    """Whether a name belongs to the built-in losses."""
    return name in ("l1", "l2", "pinball") or name.startswith("pinball:")


def loss_of(loss: str | Loss | Callable[[float], float]) -> Loss:
    """Turn a name, a function or a :class:`Loss` into a :class:`Loss`.

    >>> loss_of("l1").name, loss_of(lambda x: abs(x) ** 1.5).shape
    ('l1', 'convex')
    """
    if isinstance(loss, Loss):
        return loss
    if callable(loss):
        name = str(getattr(loss, "__name__", "custom")).strip("<>")
        return Loss(loss, "custom" if is_reserved(name) else name)
    if isinstance(loss, str):
        family, colon, level = loss.partition(":")
        made = NAMED.get(loss)
        if colon and family + colon in NAMED:
            made = NAMED[family + colon](level)
        elif callable(made) and not isinstance(made, Loss):
            made = _made(made)
        if isinstance(made, Loss):
            return made
    raise ValueError(
        f"loss ({loss!r}) must be 'l1', 'l2', 'pinball:LEVEL', a registered name, "
        "a function or a Loss"
    )


@cache
def _made(make: Callable[[], Loss]) -> Loss:
    return make()


def from_fingerprint(fingerprint: str) -> Loss:
    """The loss that a file names; a user's function is not at hand."""
    if fingerprint.startswith(_STORED):
        return StoredLoss(fingerprint)
    found = loss_of(fingerprint)
    if found.by_samples:
        raise ValueError(f"loss ({fingerprint!r}) must be the fingerprint of a loss")
    return found
