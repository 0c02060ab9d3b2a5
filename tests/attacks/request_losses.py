"""Losses for random requests: the named ones, and functions that a user could write.

Functions are objects of classes here, so that tables that hold them can be pickled.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from opendp_optimal import Loss


@dataclass(frozen=True)
class Recipe:
    """A ``Loss`` still to be made: making it checks the function, which is part of a request."""

    function: Callable[[float], float]
    name: str = "custom"
    lipschitz: float | None = None

    def made(self) -> Loss:
        """The loss."""
        return Loss(self.function, self.name, self.lipschitz)


AnyLoss = str | Recipe | Callable[[float], float]


@dataclass(frozen=True)
class Power:
    """scale * (|x| / unit)^power, another scale on the left if given, above an offset."""

    scale: float
    power: float
    left: float | None = None
    offset: float = 0.0
    unit: float = 1.0

    def __call__(self, x: float) -> float:
        """The loss of an error."""
        scale = self.scale if x >= 0 or self.left is None else self.left
        return float(self.offset + scale * abs(x / self.unit) ** self.power)


@dataclass(frozen=True)
class DeadZone:
    """Errors up to a width cost nothing."""

    scale: float
    width: float

    def __call__(self, x: float) -> float:
        """The loss of an error."""
        return self.scale * max(0.0, abs(x) - self.width)


@dataclass(frozen=True)
class Huber:
    """Square near 0, linear beyond."""

    scale: float
    width: float

    def __call__(self, x: float) -> float:
        """The loss of an error."""
        a = abs(x)
        return self.scale * (a * a / 2 if a <= self.width else self.width * (a - self.width / 2))


@dataclass(frozen=True)
class Slow:
    """Grows with the logarithm."""

    scale: float
    unit: float = 1.0

    def __call__(self, x: float) -> float:
        """The loss of an error."""
        return self.scale * math.log1p(abs(x / self.unit))


@dataclass(frozen=True)
class Wavy:
    """Neither convex nor monotone; its slope is at most 4 scales."""

    scale: float

    def __call__(self, x: float) -> float:
        """The loss of an error."""
        return self.scale * (abs(x) + 1.0 + math.sin(3.0 * x))


class Called:
    """A function with a name of its own, which may be that of a loss of the package."""

    def __init__(self, name: str, function: Callable[[float], float]) -> None:
        """Name it as ``def`` would."""
        self.__name__, self.function = name, function

    def __call__(self, x: float) -> float:
        """The loss of an error."""
        return self.function(x)

    def __repr__(self) -> str:
        """As it is made."""
        return f"Called({self.__name__!r}, {self.function})"


def log_uniform(rng: random.Random, low: float, high: float) -> float:
    """Every order of magnitude alike."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


RESERVED = ("l1", "l2", "pinball:0.9")
LEVELS = (1e-320, 1e-12, 1e-6, 0.01, 0.5, 0.9, 1 - 1e-6, 1 - 2.0**-53)


def pinball(rng: random.Random) -> str:
    """A pinball loss: levels of every size, and the ends."""
    if rng.random() < 0.2:
        return f"pinball:{rng.choice(LEVELS)!r}"
    level = log_uniform(rng, 1e-9, 0.5)
    return f"pinball:{level if rng.random() < 0.5 else 1 - level!r}"


def function(rng: random.Random, unit: float, wavy: bool) -> Recipe | Callable[[float], float]:
    """A user's function of errors of about the size of the unit; costs from dust to money."""
    scale = rng.choice((1.0, 100.0, 5e6, log_uniform(rng, 1e-9, 1e15)))
    power = rng.choice((0.5, 1.0, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0))
    plain = Power(scale, power, unit=unit)
    kinds = ("power", "lopsided", "offset", "dead", "huber", "slow", "called", "named")
    kind = rng.choice((*kinds, "wavy") if wavy else kinds)
    if kind == "lopsided":
        return replace(plain, left=scale * log_uniform(rng, 1e-3, 1e3))
    if kind == "offset":
        return replace(plain, offset=scale * log_uniform(rng, 1e-3, 10.0))
    if kind == "dead":
        return DeadZone(scale, unit * rng.choice((0.1, 0.5, 2.0)))
    if kind == "huber":
        return Huber(scale, unit * rng.choice((0.1, 1.0, 3.0)))
    if kind == "slow":
        return Slow(scale, unit)
    if kind == "wavy":
        return Recipe(Wavy(scale), "waves", lipschitz=4 * scale)
    if kind == "called":
        return Called(rng.choice(RESERVED), plain)
    if kind == "named":
        return Recipe(plain, rng.choice(("costs", *RESERVED)))
    return plain


def any_loss(
    rng: random.Random, unit: float = 1.0, wavy: bool = True, functions: bool = True
) -> AnyLoss:
    """A loss of any kind."""
    kinds = ("l1", "l1", "l1", "l2", "l2", "pinball", "pinball")
    kind = rng.choice((*kinds, "function", "function", "function") if functions else kinds)
    if kind == "pinball":
        return pinball(rng)
    return function(rng, unit, wavy) if kind == "function" else kind
