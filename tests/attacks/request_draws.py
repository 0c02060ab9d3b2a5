"""Random requests over the whole documented range, each drawn from its number alone.

What a request may be refused for is known before it is made.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tests.attacks.request_losses import RESERVED, AnyLoss, Recipe, any_loss, log_uniform

COUNTS = {"solve": 2000, "bounded": 500}
SAMPLE = {"solve": 24, "bounded": 5}
"""How many of each kind, in depth; and of those in the ordinary tests."""
LONGEST, LONGEST_SAMPLED = 750_000, 150_000
"""Values on each side of 0 beyond which integer noise may be refused; with a function as loss."""
EPSILONS = (1e-4, 32.0, 31.9, 1.0, 1, 20.0, 12.0)
DELTAS = (1e-14, 1e-12, 0.5, 0.75, 0.9, 0.99, 1 - 2.0**-53)


@dataclass(frozen=True)
class Request:
    """What is asked, and how the texts begin that it may be refused with: patterns."""

    kind: str
    number: int
    arguments: dict[str, Any]
    refusable: frozenset[str] = field(default_factory=frozenset)

    def __str__(self) -> str:
        """As a call."""
        name = "solve" if self.kind == "solve" else "solve_bounded"
        return f"{name}({', '.join(f'{k}={v!r}' for k, v in self.arguments.items())})"


def target(rng: random.Random) -> tuple[float, float]:
    """epsilon and delta: every order of magnitude, and the corners; plain or numpy floats."""
    epsilon = rng.choice(EPSILONS) if rng.random() < 0.15 else log_uniform(rng, 1e-4, 32.0)
    delta = rng.choice(DELTAS) if rng.random() < 0.15 else log_uniform(rng, 1e-14, 0.999)
    if rng.random() < 0.15:
        delta = 0.0
    if rng.random() < 0.05:
        return np.float64(epsilon), np.float64(delta)
    return epsilon, delta


def pure_refusal(delta: float, loss: AnyLoss) -> set[str]:
    """Noise without end has the losses l1 and l2 only."""
    return {"loss"} if delta == 0 and loss not in ("l1", "l2") else set()


def name_refusal(loss: AnyLoss) -> set[str]:
    """Names of losses that come with the package are theirs; a function may be called anything."""
    return {"name"} if isinstance(loss, Recipe) and loss.name in RESERVED else set()


def size_refusal(asked: dict[str, Any]) -> set[str]:
    """Integer noise may be too long for a table, and any noise too fine for its weights."""
    n, epsilon = asked.get("integer_sensitivity", 0), float(asked["epsilon"])
    tail = min(float(asked["delta"]), asked.get("impossible", 1.0))
    if tail == 0:
        return set()
    length = n * math.log1p(math.expm1(epsilon) / tail) / epsilon
    long = length > 0.99 * (LONGEST if isinstance(asked["loss"], str) else LONGEST_SAMPLED)
    if long or max(1, n) * (6 + 1 / epsilon) > tail * 2.0**62:
        return {"impossible" if "impossible" in asked else "integer_sensitivity"}
    return set()


def noise_request(number: int) -> Request:
    """A request to ``solve``."""
    rng = random.Random(f"solve/{number}/0")
    epsilon, delta = target(rng)
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "loss": any_loss(rng)}
    refusable = pure_refusal(delta, asked["loss"]) | name_refusal(asked["loss"])
    if rng.random() < 0.4:
        n = rng.choice((1, 2, 4096)) if rng.random() < 0.4 else round(log_uniform(rng, 1, 4096))
        asked["integer_sensitivity"] = n
    elif rng.random() < 0.2:
        asked["cells"] = round(log_uniform(rng, 1, 200))
    asked["gap"] = log_uniform(rng, 1e-3, 1.0)
    if rng.random() < 0.03:
        asked["gap"] = rng.choice((1e-9, 1e-5, 1e6))
    for name in ("symmetric", "monotone"):
        if rng.random() < 0.15:
            asked[name] = True
    if rng.random() < 0.3:
        asked["method"] = rng.choice(("interior", "highs", "cutting-planes", "partition-cuts"))
    unit = asked.get("integer_sensitivity") or 1
    if rng.random() < 0.1:
        # From less than any private noise needs to more than the optimum takes.
        radius = math.log1p(math.expm1(float(epsilon)) / max(float(delta), 1e-14)) / epsilon
        asked["support"] = unit * radius * log_uniform(rng, 0.2, 4.0)
        refusable |= {"support"}
    if rng.random() < 0.1 and delta > 0:
        asked["impossible"] = delta * log_uniform(rng, 1e-3, 1.0)
    if delta == 0 and (asked.get("monotone") or "support" in asked):
        refusable |= {"delta"}
    refusable |= size_refusal(asked)
    asked["cache"] = rng.random() < 0.3
    return Request("solve", number, asked, frozenset(refusable))


def scale_of(rng: random.Random, integer: bool) -> float:
    """The length of a range: mostly everyday, sometimes at the ends of the floats."""
    if integer:
        return 1.0
    kind = rng.random()
    if kind < 0.15:
        return log_uniform(rng, 1e-227, 1e-6)
    if kind < 0.3:
        return log_uniform(rng, 1e6, 1e272)
    return log_uniform(rng, 1e-3, 1e4)


def float_refusal(asked: dict[str, Any]) -> set[str]:
    """Floats may not hold the losses of a very long or a very short range."""
    low, high = map(Fraction, asked["range"])
    power = 2 if asked["loss"] == "l2" else 1
    reach = min(Fraction(asked["sensitivity"]), high - low)
    text = rf"must be {{}}: floats do not hold its {asked['loss']} loss$"
    if (high - low) ** power >= Fraction(2) ** 1025:
        return {rf"range \(.*\) {text.format('shorter')}"}
    if reach**power < Fraction(2) ** -960:
        return {rf"sensitivity \(.*\) {text.format('larger')}"}
    return set()


def bounded_request(number: int) -> Request:
    """A request to ``solve_bounded``."""
    rng = random.Random(f"bounded/{number}/0")
    epsilon, delta = target(rng)
    integer = rng.random() < 0.35
    width = scale_of(rng, integer)
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    refusable: set[str] = set()
    if integer:
        steps = rng.randint(1, 60)
        low = rng.choice((0, 0, -7, 10**6, 2**40, -(2**52)))
        asked |= {"integer": True, "range": (low, low + steps)}
        asked["sensitivity"] = rng.randint(1, steps + 2)
        unit, parts = 1.0, steps + 1
    else:
        low = width * rng.choice((0.0, 0.0, -0.5, -1.0, 3.0, 1e3))
        asked["range"] = (low, low + width)
        ratio = rng.choice((1.0, 0.5, 0.1, 2.0, log_uniform(rng, 0.05, 3.0)))
        asked["sensitivity"] = width * ratio
        unit, parts = width, rng.randint(1, 6)
        kind = rng.random()
        if kind < 0.3:
            bins = rng.randint(1, 60)
            asked["bins"] = bins
            asked["sensitivity"] = (asked["range"][1] - low) * (rng.randint(1, bins) / bins)
            refusable |= {"bins"}  # floats of the range may not be a whole number of bins apart
        elif kind < 0.5:
            inner = sorted(rng.random() for _ in range(rng.randint(0, 19)))
            ends = [low, *(low + width * t for t in inner), asked["range"][1]]
            asked["bins"] = sorted(set(ends))
            parts = len(asked["bins"]) - 1
    # Functions are looked at near 1 and far out, whatever the range is.
    everyday = 1e-3 <= unit <= 1e4
    asked["loss"] = any_loss(rng, unit, wavy=False, functions=everyday)
    refusable |= name_refusal(asked["loss"])
    refusable |= float_refusal(asked)
    if rng.random() < 0.3:
        raw = [rng.choice((0.0, 1.0, rng.random(), log_uniform(rng, 1e-9, 1.0))) for _ in
               range(parts)]  # fmt: skip
        raw[rng.randrange(parts)] += 1e-3
        total = math.fsum(raw)
        asked["prior"] = [w / total for w in raw]
    if rng.random() < 0.15 and asked["loss"] in ("l1", "l2"):
        size = asked["range"][1] - low
        size = size if asked["loss"] == "l1" else size * size
        asked["cap"] = log_uniform(rng, 1e-3, 2.0) * size
        refusable |= {"cap"}
        if not 0 < asked["cap"] < math.inf:
            del asked["cap"]
    asked["gap"] = log_uniform(rng, 1e-2, 1.0)
    if rng.random() < 0.2:
        asked["method"] = rng.choice(("interior", "highs"))
    asked["cache"] = rng.random() < 0.3
    return Request("bounded", number, asked, frozenset(refusable))


def request(kind: str, number: int) -> Request:
    """The request of a number.

    :param kind: "solve" or "bounded"
    :param number: what it is drawn from
    """
    return noise_request(number) if kind == "solve" else bounded_request(number)


def sample(kind: str) -> list[int]:
    """The numbers of the ordinary tests: each of a kind is as likely to be among them."""
    return sorted(random.Random(f"sample/{kind}").sample(range(COUNTS[kind]), SAMPLE[kind]))
