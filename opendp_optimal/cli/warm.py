"""``opendp-optimal warm``: solve a grid of targets ahead of time."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from opendp_optimal.cli import terminal
from opendp_optimal.table import store as tables
from opendp_optimal.table.base import Table


@dataclass(frozen=True)
class Job:
    """One table to have in the cache."""

    epsilon: float
    delta: float
    loss: str
    integer_sensitivity: int | None = None
    gap: float = 1e-3
    size: int | None = None
    norm: str = "l2"
    mean: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its gap, or why it failed."""

    job: Job
    status: str
    gap: float | None
    seconds: float
    reason: str = ""


@click.command()
@click.option("--epsilon", "epsilons", required=True, help="Epsilons, separated by commas.")
@click.option("--delta", "deltas", required=True, help="Deltas, separated by commas.")
@click.option("--loss", "losses", multiple=True, default=["l1"], help="Repeat for more losses.")
@click.option(
    "--integer",
    "sensitivities",
    type=click.IntRange(min=1),
    multiple=True,
    help="Also for integer queries of this sensitivity; repeat for more.",
)
@click.option("--no-real", is_flag=True, help="Leave out the tables for real queries.")
@click.option("--size", "sizes", type=click.IntRange(1), multiple=True, help="Vectors, so long.")
@click.option(
    "--norm",
    "norms",
    type=terminal.NORMS,
    multiple=True,
    default=["l2"],
    help="Of vectors; repeat for more.",
)
@click.option("--mean", is_flag=True, help="Also for a mean and its count.")
@terminal.gap_option
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Processes.")
@terminal.json_option
def warm(
    epsilons: str,
    deltas: str,
    losses: tuple[str, ...],
    sensitivities: tuple[int, ...],
    no_real: bool,
    sizes: tuple[int, ...],
    norms: tuple[str, ...],
    mean: bool,
    gap: float,
    jobs: int,
    as_json: bool,
) -> int:
    """Solve a grid of targets and keep the tables in the cache.

    Can be interrupted and started again: what is there is not solved twice. Exits with 3 if a gap
    was not reached, with 1 if a target failed or a table could not be written.
    """
    wanted: list[dict[str, Any]] = [
        *([] if no_real else [{}]),
        *({"integer_sensitivity": moved} for moved in sensitivities),
        *({"size": size, "norm": norm} for size in sizes for norm in norms),
        *([{"mean": True}] if mean else []),
    ]
    if not wanted:
        raise click.UsageError("--no-real needs at least one --integer, --size or --mean.")
    grid = [
        Job(epsilon, delta, loss, gap=gap, **kind)
        for epsilon, delta, loss, kind in itertools.product(
            terminal.listed(epsilons, "epsilon"), terminal.listed(deltas, "delta"), losses, wanted
        )
    ]
    try:
        tables.check_writable()
    except OSError as error:
        raise click.ClickException(
            f"the cache ({tables.cache_directory()}) cannot be written: {error.strerror}"
        ) from None
    outcomes = run(grid, jobs)
    counts = {
        status: sum(o.status == status for o in outcomes)
        for status in ("solved", "there", "gap not reached", "failed")
    }
    if as_json:
        terminal.print_json({"counts": counts, "tables": [asdict(outcome) for outcome in outcomes]})
    else:
        click.echo(", ".join(f"{count} {status}" for status, count in counts.items()))
    for outcome in outcomes:
        if outcome.status == "failed":
            terminal.note(f"failed: {outcome.job}: {outcome.reason}")
    if counts["failed"]:
        return terminal.FAILED
    return terminal.GAP_NOT_REACHED if counts["gap not reached"] else 0


def run(grid: Sequence[Job], jobs: int) -> list[Outcome]:
    """Do all jobs in several processes, with a bar on stderr, or a line each."""
    outcomes: list[Outcome] = []
    # Ctrl-C reaches the whole group of processes; the parent decides. Workers are stopped at once
    # then: a table appears in the cache in one step or not at all.
    deaf = (signal.SIGINT, signal.SIG_IGN)
    spawn = multiprocessing.get_context("spawn")
    with (
        spawn.Pool(min(jobs, len(grid)), signal.signal, deaf) as pool,
        terminal.progress_bar("tables", len(grid)) as advance,
    ):
        for outcome in pool.imap_unordered(attempt, grid):
            outcomes.append(outcome)
            advance()
            if not sys.stderr.isatty():
                terminal.note(_line(len(outcomes), len(grid), outcome))
    return sorted(outcomes, key=lambda o: grid.index(o.job))


def _table(job: Job, steps: list[str]) -> Table:
    """The table of a job; steps are noted if it had to be solved."""
    import opendp_optimal

    asked: dict[str, Any] = {"epsilon": job.epsilon, "delta": job.delta, "loss": job.loss}
    if job.mean:
        return opendp_optimal.solve_pair(**asked, gap=job.gap, progress=steps.append)
    asked["integer_sensitivity"] = job.integer_sensitivity
    if job.size is None:
        return opendp_optimal.solve(**asked, gap=job.gap, progress=steps.append)
    asked |= {"size": job.size, "norm": job.norm}
    with contextlib.suppress(LookupError):
        stored = opendp_optimal.solve_radial(**asked, compute=False)
        if stored.prices is not None or not stored.problem.has_bound:
            return stored
    steps.append("solving")
    return opendp_optimal.solve_radial(**asked)


def attempt(job: Job) -> Outcome:
    """Make sure that one table is in the cache."""
    import opendp_optimal

    # So that losses and tables of plugins are known in this process too.
    opendp_optimal.load_plugins()
    started = time.perf_counter()
    steps: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = _table(job, steps)
    except Exception as error:
        seconds = time.perf_counter() - started
        return Outcome(job, "failed", None, seconds, f"{type(error).__name__}: {error}")
    seconds = time.perf_counter() - started
    if steps and not tables.is_kept(table.problem):
        reason = f"the table could not be written to {tables.cache_directory()}"
        return Outcome(job, "failed", table.gap, seconds, reason)
    missed = job.size is None and table.gap > job.gap
    status = "gap not reached" if missed else "solved" if steps else "there"
    return Outcome(job, status, table.gap, seconds)


def _line(number: int, total: int, outcome: Outcome) -> str:
    job = outcome.job
    kind = "real" if job.integer_sensitivity is None else f"int {job.integer_sensitivity}"
    kind = "mean" if job.mean else kind if job.size is None else f"{job.size} in {job.norm}"
    return (
        f"{number}/{total} {kind} {job.loss} epsilon {job.epsilon:g} delta "
        f"{job.delta:g}: {outcome.status} ({outcome.seconds:.2f} s)"
    )
