"""The evidence: every attack and fault, how often it was tried, what became of it.

    python -m tests.attacks.evidence              everything, an hour or two
    python -m tests.attacks.evidence fuzz kills   these stages
    python -m tests.attacks.evidence --quick      a hundredth of it; writes nothing

Two processes work at a time (the tests of an environment run in processes of their own). A part
that is done leaves its rows in ``build/trust``, with a digest of every file of the project that its
process imported: those are what its rows are about. It is not run again until one of them changes
(``--fresh``: run it all the same), so a run that was interrupted goes on where it was. A run of all
stages writes the page, for the version that is installed (``--page``: write it now). What was never
run here keeps the rows that the page of the same version has, as those of earlier code.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
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


Stage = Callable[[float, str], Iterator[Row]]


def planted(scale: float, part: str) -> Iterator[Row]:
    """Planted bugs and honest mechanisms under the audit."""
    from tests.attacks import planted as bugs
    from tests.attacks.test_audit import run

    tries = max(1, round(10 * scale))
    for bug in bugs.planted():
        caught = sum(run(bug).violated for _ in range(tries))
        yield Row("audit", f"planted: {bug.name}", tries, f"{caught} caught", caught == tries)
    for honest in bugs.honest():
        accused = sum(run(honest).violated for _ in range(tries))
        yield Row("audit", f"honest: {honest.name}", tries, f"{accused} accused", accused == 0)


def audits(scale: float, part: str) -> Iterator[Row]:
    """Every measurement under the audit."""
    from opendp_optimal.testing import audit
    from tests.attacks.mechanisms import cases

    for case in cases():
        draws = max(1000, round(5_000 * scale))
        found = audit(case.release, case.x, case.x_prime, case.epsilon, case.delta, draws=draws)
        result = f"delta at least {found.lower:.2g}, claimed {case.delta:.2g}"
        yield Row("audit", f"measurement: {case.name}", 2 * draws, result, not found.violated)


def floats(scale: float, part: str) -> Iterator[Row]:
    """Attacks on floats, on textbook implementations and on ours."""
    from tests.attacks import test_floats as attacks
    from tests.attacks.mechanisms import naive

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


def timing(scale: float, part: str) -> Iterator[Row]:
    """The ratios of median times between values, and between little and much noise."""
    from tests.attacks import test_timing as clock
    from tests.attacks.mechanisms import cases

    for case in cases():
        rounds, releases = max(20, round(60 * scale)), max(200, round(2000 * scale))
        value, noise = clock.by_value(case, rounds), clock.by_noise(case, releases)
        words = f"values {value:.2f}, noise {noise:.2f}; bound {clock.BOUND:g}"
        tries = rounds * len(clock.values(case)) + releases
        yield Row("timing", case.name, tries, words, max(value, noise) <= clock.BOUND)


def flips(scale: float, part: str) -> Iterator[Row]:
    """Every byte of table files flipped in turn."""
    from opendp_optimal import CertificateError, TableFormatError
    from opendp_optimal.table.files.bounded import KIND as BOUNDED
    from opendp_optimal.table.files.noise import KIND as NOISE
    from opendp_optimal.table.files.pair import KIND as PAIR
    from opendp_optimal.table.files.radial import KIND as RADIAL
    from tests.attacks.fuzz_core import bounded_tables, noise_tables
    from tests.attacks.fuzz_joint import pair_tables, radial_tables

    kinds = [
        (NOISE, noise_tables()),
        (BOUNDED, bounded_tables()),
        (RADIAL, radial_tables()),
        (PAIR, pair_tables()),
    ]
    for kind, tables in kinds:
        tries = caught = 0
        for sealed in tables[: max(1, round(len(tables) * scale))]:
            changed = bytearray(sealed.data)
            for place in range(len(changed)):
                for bit in (0x01, 0x41, 0xFF):
                    changed[place] ^= bit
                    tries += 1
                    try:
                        kind.decode(bytes(changed))
                    except (TableFormatError, CertificateError):
                        caught += 1
                    changed[place] ^= bit
        yield Row(
            "tables", f"bytes flipped: {kind.name}", tries, f"{caught} caught", caught == tries
        )


def kills(scale: float, part: str) -> Iterator[Row]:
    """Kills without warning while tables are written."""
    from opendp_optimal import solve
    from tests.attacks import writers

    tables = [solve(e, 0.01, gap=0.05, cache=False) for e in (0.5, 1.0, 2.0)]
    for name, found in (
        ("kill -9 while writing", writers.kill_writers(tables, max(5, round(200 * scale)))),
        ("kill -9 in warm", writers.kill_warm(max(1, round(20 * scale)))),
    ):
        result = (
            f"{found.lost} lost, {found.wrong} wrong, {found.unfinished} unfinished files, unused"
        )
        yield Row("cache", name, found.kills, result, found.lost == found.wrong == 0)


def ledgers(scale: float, part: str) -> Iterator[Row]:
    """Kills without warning while eight processes spend from one ledger."""
    from tests.attacks import spenders

    kills = max(10, round(200 * scale))
    with spenders.address_of(part) as address:
        found = spenders.kill_spenders(address, kills)
    result = f"{found.released} releases, {found.overspent} overspent, the log is whole"
    yield Row("ledger", f"kill -9 of 8 processes, {part}", kills, result, found.overspent == 0)


def fuzz(scale: float, part: str) -> Iterator[Row]:
    """Hostile inputs for a parser."""
    from tests.attacks import fuzz as fuzzing

    try:
        found = fuzzing.run(part, round(1_000_000 * scale), seed=1)
    except fuzzing.FuzzError as error:
        yield Row("fuzzing", part, 0, f"failed: {error}", False)
        return
    result = f"0 crashes, 0 wrong acceptances ({found.accepted} accepted)"
    yield Row("fuzzing", part, found.inputs, result, True)


def independent(scale: float, part: str) -> Iterator[Row]:
    """The proof in plain fractions and dp-accounting, on the tables that come with the package."""
    from tests.attacks.bundled import accounting_agrees, bundled, fractions_agree

    tables = bundled(None if scale >= 1 else 12)
    for name, check in (
        ("plain fractions agree on a bundled table", fractions_agree),
        ("dp-accounting agrees on a bundled table", accounting_agrees),
    ):
        agreed = sum(check(table) for table in tables)
        yield Row("tables", name, len(tables), f"{agreed} agree", agreed == len(tables))


def requests(scale: float, part: str) -> Iterator[Row]:
    """Random requests over the whole documented range; a part is a kind and a first number."""
    from tests.attacks import requests as asked

    kind, first = part.split()
    numbers = range(int(first), int(first) + round(asked.CHUNK * scale))
    found = list(asked.outcomes(kind, numbers))
    failed = [outcome for outcome in found if outcome.failure]
    for outcome in failed:
        print(f"    {kind} {outcome.asked.number}: {outcome.failure}", flush=True)
    what = f"{kind}: random requests {numbers.start}-{numbers.stop - 1}"
    yield Row("requests", what, len(found), asked.summary(found), not failed)


def warehouse(scale: float, part: str) -> Iterator[Row]:
    """Random plans on hostile rows: the same integers on DuckDB, PostgreSQL and Polars."""
    import_module("opendp_optimal_warehouse.connection")  # what the row is about
    plans = max(2, round(200 * scale))
    test = "plugins/warehouse/tests/test_conformance.py::test_random_plans"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "WAREHOUSE_PLANS": str(plans)}, check=False
    )
    result = "the same integers on three engines" if done.returncode == 0 else "FAILED"
    yield Row("warehouse", "random plans on hostile rows", plans, result, done.returncode == 0)


FEWEST_KILLED = {"certify": 95, "sample": 90}
"""In per cent. What survives is printed; most changes of that kind only cost time or memory."""


def mutation(scale: float, part: str) -> Iterator[Row]:
    """Bugs put into the source, one at a time, under the tests: a random sample of them."""
    from tests.attacks import mutate

    found = mutate.run(part, max(3, round(mutate.SAMPLE * scale)))
    score = 100 * found.killed / found.tried
    result = f"{found.killed} killed ({score:.1f} %), {len(found.survivors)} survive"
    if found.tried < found.there:
        result += f"; a random sample of {found.there}"
    names = ", ".join(Path(path).stem for path in mutate.modules(part))
    yield Row("mutation", f"{part}/ ({names})", found.tried, result, score >= FEWEST_KILLED[part])


def bounds(scale: float, part: str) -> Iterator[Row]:
    """The tests with run-time dependencies at one end of their bounds, or with the lock."""
    from tests.attacks import bounds as ends

    whole = known("bounds", "locked")
    if part == "newest" and whole:
        python, _ = ends.build(part)
        freeze = [str(python), "-m", "pip", "freeze", "--exclude-editable"]
        found = subprocess.run(freeze, check=True, capture_output=True, text=True).stdout
        lock = (ROOT / "requirements-dev.lock").read_text()
        if set(found.splitlines()) <= set(lock.splitlines()):
            # The whole suite was run with just these versions.
            result = f"all as in the lock: {ends.versions(python)}"
            yield Row("supply", ends.WHAT[part], whole[0].tries, result, True)
            return
    yield ends.row(part)


STAGES: dict[str, Stage] = {
    "planted": planted,
    "audits": audits,
    "floats": floats,
    "timing": timing,
    "flips": flips,
    "kills": kills,
    "ledgers": ledgers,
    "independent": independent,
    "requests": requests,
    "warehouse": warehouse,
    "fuzz": fuzz,
    "mutation": mutation,
    "bounds": bounds,
}
SLOWEST = ("requests", "fuzz", "mutation", "bounds")
"""Begun first, in this order, so that both processes have something to do until the end."""


def parts(stage: str) -> list[str]:
    """What a stage consists of, for two processes to share."""
    if stage == "fuzz":
        from tests.attacks.fuzz import TARGETS

        return list(TARGETS)
    if stage == "ledgers":
        return ["SQLite", "PostgreSQL"]
    if stage == "requests":
        from tests.attacks.requests import CHUNK, COUNTS

        return [f"{kind} {n}" for kind, count in COUNTS.items() for n in range(0, count, CHUNK)]
    if stage == "mutation":
        from tests.attacks.mutate import TESTS

        return list(TESTS)
    return {"bounds": ["lowest", "locked", "newest"]}.get(stage, [""])


def every_file() -> list[Path]:
    """What the tests of a whole environment are about."""
    folders = ("opendp_optimal", "plugins", "tests", "docs")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    manifests = [ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]
    return [*found, *manifests, ROOT / "requirements-dev.lock"]


def imported() -> list[Path]:
    """The files of the project that this process has imported."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    found = {Path(name).resolve() for name in files if name}
    return [path for path in found if path.is_relative_to(ROOT) and ".venv" not in path.parts]


def digests(files: Iterable[Path]) -> dict[str, str]:
    """A fingerprint of each file that is there, by its place in the project."""
    return {
        path.relative_to(ROOT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(files)
        if path.is_file()
    }


def place_of(stage: str, part: str) -> Path:
    """Where the rows of a part are kept."""
    return FOLDER / (re.sub(r"\W+", "-", f"{stage} {part}".strip()) + ".json")


@dataclass(frozen=True)
class Measured:
    """The rows of a part when it was last run, and whether its code is the same still."""

    rows: tuple[Row, ...]
    current: bool


def title() -> str:
    """What the page is about."""
    return f"Written by `make trust` for version {version('opendp-optimal')}."


def name_of(stage: str, part: str) -> str:
    """How a part is called on the page."""
    return f"{stage}: {part}" if part else stage


def standing(stage: str, part: str) -> tuple[Row, ...]:
    """The good rows of a part on the page, if that is of this version."""
    text = PAGE.read_text() if PAGE.is_file() else ""
    found = []
    for line in text.splitlines() if title() in text else []:
        words = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if words[0] == name_of(stage, part) and words[-1].startswith("good"):
            _, group, what, tries, result, _ = words
            found.append(Row(group, what, int(tries.replace(",", "")), result, good=True))
    return tuple(found)


def measured(stage: str, part: str) -> Measured:
    """What is kept of a part, here or on the page; one bad row if there is nothing."""
    place = place_of(stage, part)
    if not place.is_file():
        nothing = Row(stage, part or "all", 0, "not measured yet", good=False)
        return Measured(standing(stage, part) or (nothing,), False)
    kept = json.loads(place.read_text())
    rows = tuple(Row(**row) for row in kept["rows"])
    about = kept["about"]
    return Measured(rows, bool(about) and digests(ROOT / name for name in about) == about)


def known(stage: str, part: str) -> list[Row] | None:
    """The rows of a part that need not be run again: all good, of this code."""
    found = measured(stage, part)
    good = found.current and all(row.good for row in found.rows)
    return list(found.rows) if good else None


def run_part(stage: str, part: str, scale: float, fresh: bool) -> list[Row]:
    """Run in a process of its own, with a cache of its own; prints rows as they come."""
    kept = None if fresh or scale < 1 else known(stage, part)
    if kept is not None:
        return kept
    rows = []
    before = digests(every_file())
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OPENDP_OPTIMAL_CACHE"] = folder
        for row in STAGES[stage](scale, part):
            rows.append(row)
            mark = "ok" if row.good else "NO"
            print(f"{mark}  {row.group:9} {row.what:45} {row.tries:>9,}  {row.result}", flush=True)
    if scale >= 1:
        FOLDER.mkdir(parents=True, exist_ok=True)
        names = before if stage == "bounds" else digests(imported())
        about = {name: before[name] for name in names if name in before}
        content = {"about": about, "rows": [asdict(row) for row in rows]}
        place_of(stage, part).write_text(json.dumps(content, indent=1) + "\n")
    return rows


def page(found: dict[tuple[str, str], Measured]) -> str:
    """The reference page, from what was measured of each part."""
    lines = [
        "# Evidence",
        "",
        title(),
        "What was tried, how often, and what became of it; how each is done is in `tests/attacks`,",
        "what it means in [security](../explanation/security.md). A row is about the modules that",
        "its check imports; `python -m tests.attacks.evidence STAGE --part PART` runs one again.",
        "",
        "| stage: part | kind | attack or fault | tries | result | |",
        "|---|---|---|---:|---|---|",
    ]
    for unit, kept in found.items():
        for row in kept.rows:
            mark = "**NO**" if not row.good else "good" if kept.current else "good, of earlier code"
            words = (name_of(*unit), row.group, row.what, f"{row.tries:,}", row.result, mark)
            lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Run stages, print their rows, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("stages", nargs="*", metavar="stage", help=", ".join(STAGES))
    parser.add_argument("--quick", action="store_true", help="a hundredth of the tries")
    parser.add_argument("--fresh", action="store_true", help="run again what is known")
    parser.add_argument("--page", action="store_true", help="run nothing, only write the page")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--part", help="only this part of a stage")
    options = parser.parse_args(argv)
    everything = [(s, p) for s in STAGES for p in parts(s)]
    wanted = options.stages or list(STAGES)
    units = [(s, p) for s, p in everything if s in wanted and options.part in (None, p)]
    first = sorted(units, key=lambda unit: [*SLOWEST, unit[0]].index(unit[0]))
    spawn = multiprocessing.get_context("spawn")
    rows: list[Row] = []
    if not options.page:
        scale = 0.01 if options.quick else 1.0
        with ProcessPoolExecutor(options.workers, mp_context=spawn, max_tasks_per_child=1) as pool:
            running = {unit: pool.submit(run_part, *unit, scale, options.fresh) for unit in first}
            rows = [row for unit in units for row in running[unit].result()]
    if options.page or (len(units) == len(everything) and not options.quick):
        PAGE.write_text(page({unit: measured(*unit) for unit in everything}))
    return 0 if all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
