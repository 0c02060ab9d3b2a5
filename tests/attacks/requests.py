"""Random requests over the whole documented range: whatever is asked, the answer is proved.

    python -m tests.attacks.requests                             all 2,500: 2,000 of ``solve``
    python -m tests.attacks.requests --kind solve --start 100 --stop 200      those of a range
    python -m tests.attacks.requests --resume                    go on where it was interrupted
    python -m tests.attacks.requests --kind solve --number 17    one request again, how it went
    python -m tests.attacks.requests --sample                    those of the ordinary tests

What a request may be refused for is known before it is made: any other error is a failure, and so
is an answer that fails one of the checks of ``tests.attacks.request_checks``. Each request leaves a
line in ``build/requests``: its number, how it went, its processor time, what failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from tests.attacks.request_checks import check
from tests.attacks.request_draws import COUNTS, Request, request, sample

FOLDER = Path(__file__).resolve().parents[2] / "build" / "requests"
CHUNK = 250
"""How many are one part of the evidence."""
SECONDS = 300
"""Processor time of a request, at most."""
MEMORY = 6 << 30
"""Bytes of memory of a request, at most."""
AT_ONCE = 50
"""Requests that a process answers, about."""


@dataclass(frozen=True)
class Outcome:
    """How a request went: "answered", "refused" or "failed", its processor time, what failed."""

    asked: Request
    word: str
    seconds: float
    failure: str = ""

    @property
    def line(self) -> str:
        """One line about it."""
        return f"{self.asked.number}\t{self.word}\t{self.seconds:.2f}\t{self.failure!r}"


def run(asked: Request) -> Outcome:
    """Make a request, check the answer."""
    started = time.process_time()
    word, failure = "failed", ""
    try:
        word = check(asked.kind, asked.arguments, asked.refusable)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    return Outcome(asked, word, time.process_time() - started, failure)


def limited(kind: str, number: int, seconds: float) -> Outcome:
    """The same within limits of time and memory, for a process that does nothing else."""

    def late(*_: object) -> None:
        raise TimeoutError(f"more than {seconds:g} s of processor time")

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return run(request(kind, number))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _pool(workers: int) -> ProcessPoolExecutor:
    fresh = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=fresh)


def outcomes(
    kind: str,
    numbers: Iterable[int],
    *,
    workers: int = 1,
    seconds: float = SECONDS,
) -> Iterator[Outcome]:
    """Requests in processes of their own, in the order of their numbers."""
    left = list(numbers)
    while left:
        with _pool(workers) as pool:
            few = left[: AT_ONCE * workers]
            running = [pool.submit(limited, kind, number, seconds) for number in few]
            try:
                for future in running:
                    yield future.result()
                    left.pop(0)
                continue
            except BrokenProcessPool:
                pass
        # A process died, perhaps that of another number: this one again, alone.
        number = left.pop(0)
        with _pool(1) as pool:
            try:
                yield pool.submit(limited, kind, number, seconds).result()
            except BrokenProcessPool:
                yield Outcome(request(kind, number), "failed", 0.0, "its process died")


def summary(found: list[Outcome]) -> str:
    """One line about many requests."""
    answered, refused, failed = (
        sum(o.word == word for o in found) for word in ("answered", "refused", "failed")
    )
    slowest = max(found, key=lambda o: o.seconds)
    total = sum(o.seconds for o in found)
    return (
        f"{answered} answered, {refused} refused as documented, {failed} failed; "
        f"{total / len(found):.2f} s each, the slowest (number {slowest.asked.number}) "
        f"{slowest.seconds:.0f} s"
    )


def report(found: list[Outcome], slowest: int = 8) -> None:
    """Failures, then the slowest, then the summary."""
    for outcome in found:
        if outcome.failure:
            print(f"FAILED {outcome.asked.number}: {outcome.asked}\n    {outcome.failure}")
    for outcome in sorted(found, key=lambda o: -o.seconds)[:slowest]:
        print(f"{outcome.seconds:8.2f} s  {outcome.asked.number}: {outcome.asked}")
    print(f"{found[0].asked.kind}: {len(found)} requests, {summary(found)}", flush=True)


def done(file: Path, kind: str) -> list[Outcome]:
    """What an interrupted run has left that did not fail."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else []:
        number, word, seconds, _ = line.split("\t", 3)
        if word != "failed":
            found.append(Outcome(request(kind, int(number)), word, float(seconds)))
    return found


def main(argv: list[str] | None = None) -> int:
    """Run requests, show how far they are, report."""
    from rich.console import Console
    from rich.progress import track

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kind", choices=list(COUNTS), help="both, if not given")
    parser.add_argument("--number", type=int, help="this request alone, in this process")
    parser.add_argument("--start", type=int, default=0, help="the number to begin with")
    parser.add_argument("--stop", type=int, help="the number to end before")
    parser.add_argument("--sample", action="store_true", help="those of the ordinary tests")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a request, at most")
    parser.add_argument("--resume", action="store_true", help="leave out what was done before")
    options = parser.parse_args(argv)
    bad = False
    for kind in [options.kind] if options.kind else COUNTS:
        if options.number is not None:
            asked = request(kind, options.number)
            print(asked, flush=True)
            check(asked.kind, asked.arguments, asked.refusable, say=print)
            continue
        stop = options.stop or COUNTS[kind]
        numbers = sample(kind) if options.sample else range(options.start, stop)
        part = "sample" if options.sample else f"{options.start}-{stop}"
        file = FOLDER / f"{kind}-{part}.txt"
        found = done(file, kind) if options.resume else []
        left = sorted(set(numbers) - {o.asked.number for o in found})
        file.parent.mkdir(parents=True, exist_ok=True)
        going = outcomes(kind, left, workers=options.workers, seconds=options.seconds)
        console = Console(stderr=True)
        with file.open("w") as lines:
            lines.writelines(f"{outcome.line}\n" for outcome in found)
            for outcome in track(going, description=kind, total=len(left), console=console):
                found.append(outcome)
                print(outcome.line, file=lines, flush=True)
        report(found)
        bad |= any(outcome.failure for outcome in found)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
