"""Random requests over the whole documented range: whatever is asked, the answer is proved.

    python -m tests.attacks.requests                       2,000 of ``solve``, 500 bounded ones
    python -m tests.attacks.requests --kind bounded        one kind only
    python -m tests.attacks.requests --number 17           one request again, and how it went
    python -m tests.attacks.requests --small               those of the ordinary tests

A request is drawn from its number alone. What it may be refused for is known before it is made:
any other error is a failure, and so is an answer that fails one of the checks of
``tests.attacks.request_checks``.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.attacks.request_checks import check
from tests.attacks.request_losses import RESERVED, AnyLoss, Recipe, any_loss, log_uniform

COUNTS = {"solve": 2000, "bounded": 500}
SMALL = {"solve": 85, "bounded": 15}
"""How many of each kind, in depth and in the ordinary tests."""
CHUNK = 250
"""How many are one part of the evidence."""
SECONDS = 300
"""Processor time of a request, at most."""
MEMORY = 6 << 30
"""Bytes of memory of a request, at most."""
QUICK = 12_000
"""Terms of the programme of a small request, at most."""
LONGEST, LONGEST_SAMPLED = 750_000, 150_000
"""Values on each side of 0 beyond which integer noise may be refused; with a function as loss."""
EPSILONS = (1e-4, 32.0, 31.9, 1.0, 1, 20.0, 12.0)
DELTAS = (1e-14, 1e-12, 0.5, 0.75, 0.9, 0.99, 1 - 2.0**-53)


@dataclass(frozen=True)
class Request:
    """What is asked, and the arguments that it may be refused for, by name."""

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


def work(asked: dict[str, Any]) -> float:
    """About how many terms the programme of a request for noise has."""
    epsilon, delta = float(asked["epsilon"]), max(float(asked["delta"]), 1e-12)
    delta = min(delta, asked.get("impossible", 1.0))
    radius = math.log1p(math.expm1(epsilon) / delta) / epsilon
    if str(asked["loss"]).startswith("pinball:"):
        level = float(asked["loss"][8:])
        radius += abs(math.log(level / (1 - level))) / epsilon
    cells = asked.get("integer_sensitivity") or asked.get("cells") or 4
    slow = 30 if asked.get("method") in ("highs", "cutting-planes") else 1
    slow *= 300 if "impossible" in asked else 1
    return slow * cells * cells * (radius + 1) * (1 if asked["loss"] in ("l1", "l2") else 4)


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


def noise_request(number: int, small: bool = False) -> Request:
    """A request to ``solve``; a small one is drawn again until it takes a moment only."""
    for attempt in itertools.count():
        asked = drawn_noise(random.Random(f"solve/{number}/{attempt}"), number, small)
        if not small or work(asked.arguments) < QUICK:
            return asked
    raise AssertionError("not reached")


def drawn_noise(rng: random.Random, number: int, small: bool) -> Request:
    """The arguments of ``solve``."""
    epsilon, delta = target(rng)
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "loss": any_loss(rng)}
    refusable = pure_refusal(delta, asked["loss"]) | name_refusal(asked["loss"])
    if rng.random() < 0.4:
        most = 4 if small else 4096
        n = rng.choice((1, 2, most)) if rng.random() < 0.4 else round(log_uniform(rng, 1, most))
        asked["integer_sensitivity"] = n
    elif rng.random() < 0.2:
        asked["cells"] = round(log_uniform(rng, 1, 8 if small else 200))
    asked["gap"] = log_uniform(rng, 0.02 if small else 1e-3, 1.0)
    if not small and rng.random() < 0.03:
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


def bounded_request(number: int, small: bool = False) -> Request:
    """A request to ``solve_bounded``; a small one is drawn again until it takes a moment only."""
    for attempt in itertools.count():
        asked = drawn_bounded(random.Random(f"bounded/{number}/{attempt}"), number, small)
        if not small or light(asked.arguments):
            return asked
    raise AssertionError("not reached")


def light(asked: dict[str, Any]) -> bool:
    """Whether a request for a range is answered in a moment: no noise in it is long or narrow."""
    name = str(asked["loss"])
    uneven = name.startswith("pinball:") and abs(float(name[8:]) - 0.5) > 0.49
    moderate = 0.02 <= asked["epsilon"] <= 8 and (asked["delta"] == 0 or asked["delta"] > 1e-9)
    return moderate and not uneven and "cap" not in asked


def drawn_bounded(rng: random.Random, number: int, small: bool) -> Request:
    """The arguments of ``solve_bounded``; a small request says how many bins there are."""
    epsilon, delta = target(rng)
    integer = rng.random() < 0.35
    most = 24 if small else 60
    width = scale_of(rng, integer)
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    refusable: set[str] = set()
    if integer:
        steps = rng.randint(1, most)
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
        if kind < (0.6 if small else 0.3):
            bins = rng.randint(1, most)
            asked["bins"] = bins
            asked["sensitivity"] = (asked["range"][1] - low) * (rng.randint(1, bins) / bins)
            refusable |= {"bins"}  # floats of the range may not be a whole number of bins apart
        elif kind < (1.0 if small else 0.5):
            inner = sorted(rng.random() for _ in range(rng.randint(0, 7 if small else 19)))
            ends = [low, *(low + width * t for t in inner), asked["range"][1]]
            asked["bins"] = sorted(set(ends))
            parts = len(asked["bins"]) - 1
    # Functions are looked at near 1 and far out, whatever the range is.
    everyday = 1e-3 <= unit <= 1e4
    asked["loss"] = any_loss(rng, unit, wavy=False, functions=everyday)
    refusable |= name_refusal(asked["loss"])
    if asked["loss"] == "l2" and not 1e-150 < width < 1e150:
        refusable |= {"range", "sensitivity", "loss"}  # its losses are no floats
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
    asked["gap"] = log_uniform(rng, 0.1 if small else 1e-2, 1.0)
    if rng.random() < 0.2:
        asked["method"] = rng.choice(("interior", "highs"))
    asked["cache"] = rng.random() < 0.3
    return Request("bounded", number, asked, frozenset(refusable))


def request(kind: str, number: int, small: bool = False) -> Request:
    """The request of a number."""
    return (noise_request if kind == "solve" else bounded_request)(number, small)


@dataclass(frozen=True)
class Outcome:
    """How a request went: "answered", "refused", or what is wrong, and its processor time."""

    asked: Request
    word: str
    seconds: float
    failure: str = ""


def run(asked: Request) -> Outcome:
    """Make a request, check the answer."""
    started = time.process_time()
    word, failure = "answered", ""
    try:
        word = check(asked.kind, asked.arguments, asked.refusable)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    return Outcome(asked, word, time.process_time() - started, failure)


def limited(kind: str, number: int, small: bool) -> Outcome:
    """The same within limits of time and memory, for a process that does nothing else."""

    def late(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} s of processor time")

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return run(request(kind, number, small))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def outcomes(
    kind: str, numbers: range, *, small: bool = False, workers: int = 1
) -> Iterator[Outcome]:
    """Requests in processes of their own, in the order of their numbers."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=fresh, max_tasks_per_child=50) as pool:
        running = [pool.submit(limited, kind, number, small) for number in numbers]
        for number, future in zip(numbers, running, strict=True):
            try:
                yield future.result()
            except Exception as error:  # the process died
                asked = request(kind, number, small)
                yield Outcome(asked, "", 0.0, f"{type(error).__name__}: {error}")


def summary(found: list[Outcome]) -> str:
    """One line about many requests."""
    answered = sum(o.word == "answered" and not o.failure for o in found)
    failed = sum(bool(o.failure) for o in found)
    slowest = max(found, key=lambda o: o.seconds)
    total = sum(o.seconds for o in found)
    return (
        f"{answered} answered, {len(found) - answered - failed} refused as documented, "
        f"{failed} failed; {total / len(found):.2f} s each, the slowest (number "
        f"{slowest.asked.number}) {slowest.seconds:.0f} s"
    )


def report(found: list[Outcome], slowest: int = 8) -> None:
    """Failures, then the slowest, then the summary."""
    for outcome in found:
        if outcome.failure:
            print(f"FAILED {outcome.asked.number}: {outcome.asked}\n    {outcome.failure}")
    for outcome in sorted(found, key=lambda o: -o.seconds)[:slowest]:
        print(f"{outcome.seconds:8.2f} s  {outcome.asked.number}: {outcome.asked}")
    print(f"{found[0].asked.kind}: {len(found)} requests, {summary(found)}", flush=True)


def main(argv: list[str] | None = None) -> int:
    """Run requests, show how far they are, report."""
    from rich.console import Console
    from rich.progress import track

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kind", choices=list(COUNTS), help="both, if not given")
    parser.add_argument("--number", type=int, help="this request alone, in this process")
    parser.add_argument("--first", type=int, default=0, help="the number to begin with")
    parser.add_argument("--count", type=int, help="how many of each kind")
    parser.add_argument("--small", action="store_true", help="those of the ordinary tests")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    options = parser.parse_args(argv)
    bad = False
    for kind in [options.kind] if options.kind else COUNTS:
        if options.number is not None:
            asked = request(kind, options.number, options.small)
            print(asked, flush=True)
            check(asked.kind, asked.arguments, asked.refusable, say=print)
            continue
        count = options.count or (SMALL if options.small else COUNTS)[kind]
        numbers = range(options.first, options.first + count)
        going = outcomes(kind, numbers, small=options.small, workers=options.workers)
        console = Console(stderr=True)
        found = list(track(going, description=kind, total=count, console=console))
        report(found)
        bad |= any(outcome.failure for outcome in found)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
