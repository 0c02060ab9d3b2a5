"""``opendp-optimal bayes ...``: results on standard output, progress on standard error.

Exit codes: 0 done, 1 failed (also a theorem that does not hold), 2 bad arguments.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import click

DATA = "OPENDP_OPTIMAL_DATA"


class _Polite(click.Group):
    """Turns a bad argument into a usage error (exit code 2) and a missing extra into a message."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        except ImportError as error:
            raise click.ClickException(str(error)) from None


@click.group(name="bayes", cls=_Polite)
def bayes() -> None:
    """Bayesian consumers: optimal channels, refinement, bounded noise on real priors."""


_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@contextmanager
def _progress(text: str, total: int) -> Iterator[Any]:
    """A progress bar on standard error; nothing without a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(file=sys.stderr)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, total=total)
        yield lambda: bar.advance(task)


def _fraction(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(f"decay ({text!r}) must be a fraction such as 1/16") from None


@bayes.command(name="geometric")
@click.option("--n", type=int, required=True, help="Number of steps.")
@click.option("--decay", required=True, help="exp(-epsilon) from 0 to 1, exactly: 1/16 for 2 ln 4.")
@_json_option
def geometric_command(n: int, decay: str, as_json: bool) -> None:
    """Print the N-step geometric mechanism in exact fractions."""
    from opendp_optimal_bayes.constructions import step_geometric_channel

    rows = step_geometric_channel(n, decay=_fraction(decay)).rows
    if as_json:
        click.echo(json.dumps([[str(v) for v in row] for row in rows]))
        return
    width = max(len(str(v)) for row in rows for v in row)
    for row in rows:
        click.echo("  ".join(str(v).rjust(width) for v in row))


@bayes.command(name="refine")
@click.option("--n", type=int, default=4, show_default=True, help="Steps of the answers.")
@click.option("--t", type=int, default=16, show_default=True, help="Pixels of the observations.")
@click.option("--decay", default="1/65536", show_default=True, help="exp(-epsilon), exactly.")
@_json_option
def refine_command(n: int, t: int, decay: str, as_json: bool) -> int:
    """Show that truncated Laplace is the geometric mechanism, post-processed (Theorem 12).

    And that the converse is false: a loss that tells them apart. Exits with 1 otherwise.
    """
    from opendp_optimal_bayes.constructions import (
        pixelated_laplace_channel,
        step_geometric_channel,
    )
    from opendp_optimal_bayes.refinement import refines

    exact = _fraction(decay)
    geometric = step_geometric_channel(n, decay=exact)
    laplace = pixelated_laplace_channel(n, t, decay=exact)
    there, back = refines(geometric, laplace), refines(laplace, geometric)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "n": n,
                    "t": t,
                    "decay": str(exact),
                    "holds": bool(there),
                    "residual": str(there.residual),
                    "witness": [[str(v) for v in row] for row in there.witness.rows]
                    if there.witness
                    else None,
                    "converse": bool(back),
                    "separated_by": None
                    if back.loss_a is None or back.loss_b is None
                    else float(back.loss_a - back.loss_b),
                }
            )
        )
    else:
        kind = "exactly" if there.residual == 0 else f"to within {float(there.residual):.3g}"
        click.echo(
            f"geometric on {n} steps refined by Laplace in {t} pixels: {bool(there)}, {kind}"
        )
        if back.loss_a is not None and back.loss_b is not None:
            click.echo(f"converse: False, losses {float(back.loss_a):g} and {float(back.loss_b):g}")
        else:
            click.echo("converse: True")
    return 0 if there else 1


@bayes.command(name="trials")
@click.option("--count", type=int, default=20, show_default=True, help="Random consumers.")
@click.option("--largest", type=int, default=30, show_default=True, help="Largest N.")
@click.option("--seed", type=int, default=0, show_default=True)
@_json_option
def trials_command(count: int, largest: int, seed: int, as_json: bool) -> int:
    """Try the theorems on random priors and losses.

    The geometric mechanism with a remap against the certified optimum, a loss for which it is not
    optimal, and Theorem 14's bound with the part of it that is used. Exits with 1 if one fails.
    """
    from opendp_optimal_bayes.trials import illegal_trial, laplace_excesses, random_trials

    with _progress("random consumers", count) as advance:
        legal = []
        for trial in random_trials(count, largest=largest, seed=seed):
            legal.append(trial)
            advance()
    odd = illegal_trial()
    excesses = list(laplace_excesses(count, largest=largest, seed=seed))
    good = (
        all(t.geometric <= t.upper * (1 + 1e-9) and t.gap < 1e-5 for t in legal)
        and odd.geometric > odd.upper * 1.01
        and all(e.ratio <= 1 for e in excesses)
    )
    if as_json:
        click.echo(
            json.dumps(
                {
                    "holds": good,
                    "legal": [asdict(t) for t in legal],
                    "illegal": asdict(odd),
                    "theorem_14": [{**asdict(e), "ratio": e.ratio} for e in excesses],
                }
            )
        )
        return 0 if good else 1
    click.echo("  N  epsilon        lower    geometric        upper      gap")
    for t in legal:
        click.echo(
            f"{t.n:3d}  {t.epsilon:7g}  {t.lower:11.8f}  {t.geometric:11.8f}  {t.upper:11.8f}  "
            f"{t.gap:.1e}"
        )
    click.echo(
        f"a loss that is not legal (parity, N = {odd.n}): geometric {odd.geometric:.6f}, "
        f"best {odd.upper:.6f}"
    )
    click.echo("  N  epsilon    Laplace - geometric    Theorem 14    ratio")
    for e in excesses:
        click.echo(f"{e.n:3d}  {e.epsilon:7g}  {e.measured:21.3e}  {e.bound:12.4f}  {e.ratio:.2e}")
    return 0 if good else 1


@bayes.command(name="income")
@click.option("--data", envvar=DATA, help=f"Folder with the data; or set {DATA}.")
@click.option("--name", type=click.Choice(["cps", "oregon"]), default="cps", show_default=True)
@click.option("--epsilon", type=float, default=4.0, show_default=True, help="From 0 to --top.")
@click.option("--loss", type=click.Choice(["l1", "l2"]), default="l1", show_default=True)
@click.option("--steps", default="2,4,8,16,32,64", show_default=True, help="Numbers of steps N.")
@click.option("--top", type=float, default=200_000.0, show_default=True, help="Clip incomes here.")
@click.option("--plot", type=click.Path(dir_okay=False, writable=True), help="Save a figure.")
@_json_option
def income_command(
    data: str | None,
    name: str,
    epsilon: float,
    loss: str,
    steps: str,
    top: float,
    plot: str | None,
    as_json: bool,
) -> int:
    """Compare the optimum, geometric and truncated Laplace noise on income priors.

    The data folder is laid out like the project's: income/cps_households.csv.gz with the columns
    income and weight_x100, income/pums_oregon_hincp.csv with the column HINCP. Losses are of
    answers scaled to [0, 1].
    """
    from opendp_optimal_bayes.income import compare, read_incomes

    if data is None:
        raise click.UsageError(f"give --data DIR, or set {DATA} in the environment")
    incomes, weights = read_incomes(os.fspath(data), name)
    try:
        counts = [int(part) for part in steps.split(",")]
    except ValueError:
        raise click.BadParameter(f"steps ({steps!r}) must be integers with commas") from None
    with _progress("steps", len(counts)) as advance:
        rows = []
        for row in compare(incomes, weights, epsilon=epsilon, loss=loss, top=top, steps=counts):
            rows.append(row)
            advance()
    if as_json:
        found = [{**asdict(r), "excess": r.excess, "ratio": r.ratio} for r in rows]
        click.echo(json.dumps(found))
    else:
        click.echo("  N       lower   geometric       upper     Laplace      excess   / bound")
        for r in rows:
            low, high = (
                f"{v:10.7f}" if v is not None else " " * 9 + "-" for v in (r.lower, r.upper)
            )
            click.echo(
                f"{r.n:3d}  {low:>10}  {r.geometric:10.7f}  {high:>10}  {r.laplace:10.7f}  "
                f"{r.excess:10.2e}  {r.ratio:8.1e}"
            )
    if plot is not None:
        from opendp_optimal_bayes.plots import income_figure

        title = f"{name} incomes, epsilon {epsilon:g}, {loss} loss"
        try:
            income_figure(rows, title).savefig(plot, dpi=150)
        except ValueError as error:
            raise click.BadParameter(f"plot ({plot!r}): {error}") from None
        click.echo(f"saved {plot}", err=True)
    return 0
