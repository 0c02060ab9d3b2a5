"""Hostile inputs for every parser, many a second, from a seed: the same inputs again every time.

A target makes an input from random choices and gives it to its parser. The parser may refuse it
with its own error; any other error is a crash. What it accepts is checked by the target: an
accepted table must be private by the proof in plain fractions, an accepted message must survive
being written and read again. ``FuzzError`` says what went wrong, with the input.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.attacks import fuzz_core, fuzz_joint, fuzz_plugins
from tests.attacks.hostile import FuzzError

TARGETS: dict[str, Callable[[random.Random], bool]] = {
    **fuzz_core.PARSERS,
    **fuzz_joint.PARSERS,
    **fuzz_plugins.PARSERS,
}
CHUNK = 256


@dataclass(frozen=True)
class Fuzzed:
    """What a run did."""

    target: str
    inputs: int
    accepted: int
    seconds: float


def run(name: str, inputs: int, seed: int, seconds: float = float("inf")) -> Fuzzed:
    """Give a parser so many inputs (or as many as the time allows); raises on the first failure."""
    target = TARGETS[name]
    started = time.perf_counter()
    accepted = done = 0
    rng = random.Random()
    for number in range(inputs):
        if number % CHUNK == 0:
            rng.seed(f"{name}/{seed}/{number // CHUNK}")  # a failure is found again from here
        try:
            accepted += target(rng)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of a library is a crash like any other
            raise FuzzError(f"{name}: input {number} of seed {seed}: {error!r}") from error
        done += 1
        if number % CHUNK == 0 and time.perf_counter() - started > seconds:
            break
    return Fuzzed(name, done, accepted, time.perf_counter() - started)
