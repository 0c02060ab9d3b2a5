"""The evidence: every attack and fault, how often it was tried, what became of it.

    python -m tests.trust.evidence            everything, about half an hour; writes the page
    python -m tests.trust.evidence --quick    a hundredth of it, in a minute; prints only
    python -m tests.trust.evidence fuzz kills   these stages; the page keeps the others' results

Each stage leaves its rows in ``build/trust``; the page is made of all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "trust"
PAGE = ROOT / "docs" / "reference" / "trust-evidence.md"


@dataclass(frozen=True)
class Row:
    """One line of the evidence."""

    group: str
    what: str
    tries: int
    result: str
    good: bool


Stage = Callable[[float], Iterator[Row]]


def planted(scale: float) -> Iterator[Row]:
    """Planted bugs and honest mechanisms under the audit."""
    from tests.trust import planted as bugs
    from tests.trust.test_audit import run

    tries = max(1, round(10 * scale))
    for bug in bugs.planted():
        caught = sum(run(bug).violated for _ in range(tries))
        yield Row("audit", f"planted: {bug.name}", tries, f"{caught} caught", caught == tries)
    for honest in bugs.honest():
        accused = sum(run(honest).violated for _ in range(tries))
        yield Row("audit", f"honest: {honest.name}", tries, f"{accused} accused", accused == 0)


def audits(scale: float) -> Iterator[Row]:
    """Every measurement under the audit."""
    from opendp_optimal.testing import audit
    from tests.trust.mechanisms import cases

    for case in cases():
        draws = max(1000, round(10_000 * scale))
        found = audit(case.release, case.x, case.x_prime, case.epsilon, case.delta, draws=draws)
        result = f"delta at least {found.lower:.2g}, claimed {case.delta:.2g}"
        yield Row("audit", f"measurement: {case.name}", 2 * draws, result, not found.violated)


def floats(scale: float) -> Iterator[Row]:
    """Attacks on floats, on textbook implementations and on ours."""
    from tests.trust import test_floats as attacks
    from tests.trust.mechanisms import naive

    tries = max(1, round(5 * scale))
    for kind, pair in attacks.PAIRS.items():
        won = sum(attacks.attack(naive(kind), *pair, 1.0, 1e-6).violated for _ in range(tries))
        yield Row("floats", f"textbook: {kind}", tries, f"{won} broken", won == tries)
    for case in attacks.attempts():
        broken = 0
        pairs = attacks.pairs(case)
        for _ in range(tries):
            for pair in pairs:
                found = attacks.attack(case.release, *pair, case.epsilon, case.delta)
                broken += found.violated
        name = f"ours: {case.name}"
        yield Row("floats", name, tries * len(pairs), f"{broken} broken", broken == 0)
    for case in attacks.attempts():
        wrong = sum(
            not np.isfinite(np.asarray(case.release(value), float)).all()
            for _ in range(20 * tries)
            for value in case.extremes
        )
        count = 20 * tries * len(case.extremes)
        yield Row("floats", f"ends of the domain: {case.name}", count, f"{wrong} wrong", not wrong)


def timing(scale: float) -> Iterator[Row]:
    """The ratios of median times between values, and between little and much noise."""
    from tests.trust import test_timing as clock
    from tests.trust.mechanisms import cases

    for case in cases():
        rounds, releases = max(20, round(100 * scale)), max(200, round(4000 * scale))
        value, noise = clock.by_value(case, rounds), clock.by_noise(case, releases)
        words = f"values {value:.2f}, noise {noise:.2f}; bound {clock.BOUND:g}"
        tries = rounds * len(clock.values(case)) + releases
        yield Row("timing", case.name, tries, words, max(value, noise) <= clock.BOUND)


def flips(scale: float) -> Iterator[Row]:
    """Every byte of table files flipped in turn."""
    from opendp_optimal import CertificateError, TableFormatError
    from opendp_optimal.table import bounded_files, format
    from tests.trust.fuzz_core import bounded_tables, noise_tables

    kinds = [("noise", noise_tables(), format), ("bounded", bounded_tables(), bounded_files)]
    for name, tables, module in kinds:
        tries = caught = 0
        for sealed in tables[: max(1, round(len(tables) * scale))]:
            changed = bytearray(sealed.data)
            for place in range(len(changed)):
                for bit in (0x01, 0x41, 0xFF):
                    changed[place] ^= bit
                    tries += 1
                    try:
                        module.decode(bytes(changed))
                    except (TableFormatError, CertificateError):
                        caught += 1
                    changed[place] ^= bit
        yield Row("tables", f"bytes flipped: {name}", tries, f"{caught} caught", caught == tries)


def kills(scale: float) -> Iterator[Row]:
    """Kills without warning while tables are written."""
    from opendp_optimal import solve
    from tests.trust import writers

    tables = [solve(e, 0.01, gap=0.05, cache=False) for e in (0.5, 1.0, 2.0)]
    for name, found in (
        ("kill -9 while writing", writers.kill_writers(tables, max(5, round(200 * scale)))),
        ("kill -9 in warm", writers.kill_warm(max(1, round(20 * scale)))),
    ):
        result = (
            f"{found.lost} lost, {found.wrong} wrong, {found.unfinished} unfinished files, unused"
        )
        yield Row("cache", name, found.kills, result, found.lost == found.wrong == 0)


LIMIT = float("inf")
"""Seconds for each parser and each package of mutants; what was reached is what is printed."""


def fuzz(scale: float, names: list[str] | None = None) -> Iterator[Row]:
    """Hostile inputs for every parser."""
    from tests.trust import fuzz as fuzzing

    for name in names or fuzzing.TARGETS:
        try:
            found = fuzzing.run(name, round(1_000_000 * scale), seed=1, seconds=LIMIT)
        except fuzzing.FuzzError as error:
            yield Row("fuzzing", name, 0, f"failed: {error}", False)
            continue
        result = f"0 crashes, 0 wrong acceptances ({found.accepted} accepted)"
        yield Row("fuzzing", name, found.inputs, result, True)


def independent(scale: float) -> Iterator[Row]:
    """The proof in plain fractions and dp-accounting, on the tables that come with the package."""
    from tests.trust.bundled import accounting_agrees, bundled, fractions_agree

    tables = bundled(None if scale >= 1 else 12)
    for name, check in (
        ("plain fractions agree on a bundled table", fractions_agree),
        ("dp-accounting agrees on a bundled table", accounting_agrees),
    ):
        agreed = sum(check(table) for table in tables)
        yield Row("tables", name, len(tables), f"{agreed} agree", agreed == len(tables))


def mutation(scale: float, packages: list[str] | None = None) -> Iterator[Row]:
    """Bugs put into the source, one at a time, under the tests."""
    from tests.trust import mutate

    for package in packages or mutate.MODULES:
        found = mutate.run_package(package, share=scale, seconds=LIMIT)
        if not found.tried:
            continue
        score = 100 * found.killed / found.tried
        result = f"{found.killed} killed ({score:.1f} %); there are {found.there}"
        good = score >= (95 if package == "certify" else 80)
        where = f"{package}/ ({', '.join(mutate.MODULES[package])})"
        yield Row("mutation", where, found.tried, result, good)


STAGES: dict[str, Stage] = {
    "planted": planted,
    "audits": audits,
    "floats": floats,
    "timing": timing,
    "flips": flips,
    "kills": kills,
    "independent": independent,
    "fuzz": fuzz,
    "mutation": mutation,
}


def save(name: str, rows: list[Row], seconds: float) -> None:
    """Leave the rows of a stage for the page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    content = {"rows": [asdict(row) for row in rows], "seconds": round(seconds)}
    (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def saved() -> list[Row]:
    """The rows of all stages, in order."""
    rows = []
    for name in [*STAGES, "bounds"]:
        for place in sorted(FOLDER.glob(f"{name}*.json")):
            rows += [Row(**row) for row in json.loads(place.read_text())["rows"]]
    return rows


def page(rows: list[Row]) -> str:
    """The reference page."""
    lines = [
        "# Evidence",
        "",
        "Written by `make trust`. What was tried, how often, and what became of it; how each is",
        "done is in `tests/trust`, what it means in [security](../explanation/security.md).",
        "",
        "| kind | attack or fault | tries | result | |",
        "|---|---|---:|---|---|",
    ]
    lines += [
        f"| {r.group} | {r.what} | {r.tries:,} | {r.result} | {'good' if r.good else '**NO**'} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Run stages, print their rows, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("stages", nargs="*", metavar="stage", help=", ".join(STAGES))
    parser.add_argument("--quick", action="store_true", help="a hundredth of the tries; no page")
    parser.add_argument("--fuzz", action="append", help="only this parser (repeat)")
    parser.add_argument("--mutate", action="append", help="only this package (repeat)")
    parser.add_argument("--seconds", type=float, help="limit for a parser or package")
    options = parser.parse_args(argv)
    global LIMIT
    LIMIT = options.seconds or LIMIT
    scale = 0.01 if options.quick else 1.0
    good = True
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OPENDP_OPTIMAL_CACHE"] = folder
        for name in options.stages or list(STAGES):
            started = time.perf_counter()
            rows = []
            stage = STAGES[name](scale)
            if options.fuzz:
                stage = fuzz(scale, options.fuzz)
            if options.mutate:
                stage = mutation(scale, options.mutate)
            for row in stage:
                rows.append(row)
                good = good and row.good
                mark = "ok" if row.good else "NO"
                print(
                    f"{mark}  {row.group:9} {row.what:45} {row.tries:>9,}  {row.result}", flush=True
                )
            chosen = options.fuzz or options.mutate
            suffix = "-" + "-".join(chosen).replace(" ", "_") if chosen else ""
            if not options.quick:
                save(name + suffix, rows, time.perf_counter() - started)
    if not options.quick:
        PAGE.write_text(page(saved()))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
