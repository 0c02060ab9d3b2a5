"""``opendp-optimal advise``: which mechanism to use, and what to call."""

from __future__ import annotations

import math
from typing import Any

import click

from opendp_optimal.advisor.advice import Advice
from opendp_optimal.cli import terminal
from opendp_optimal.cli.plots import COLOURS, draw_bars, new_figure, save_told


@click.command()
@click.argument("epsilon", type=float, required=False)
@click.argument("delta", type=float, required=False)
@click.option("--sensitivity", type=float, default=1.0, show_default=True, help="Of the query.")
@click.option("--integer", is_flag=True, help="The query answers integers.")
@click.option("--bounds", type=(float, float), help="Smallest and largest answer.")
@terminal.loss_option
@click.option("--prior", help="Chances of the answers within the bounds, separated by commas.")
@terminal.count_option("--releases", "How many such releases share the budget.")
@click.option(
    "--gap", default=1e-3, show_default=True, help="Largest acceptable gap of optimised tables."
)
@click.option("--rho", type=float, help="Under zCDP; then the only argument is DELTA.")
@click.option("--size", type=click.IntRange(1), help="Length of vectors.")
@terminal.norm_option("In which the sensitivity of vectors is measured.")
@terminal.count_option(
    "--queries", "How many such queries are asked together, with noise for all of them."
)
@terminal.plot_option
@terminal.json_option
def advise(
    epsilon: float | None,
    delta: float | None,
    prior: str | None,
    rho: float | None,
    plot: str | None,
    as_json: bool,
    **asked: Any,
) -> int:
    """Rank every mechanism that satisfies EPSILON and DELTA, or a rho, by its expected loss.

    Prints the expected losses, the certified lower bound, the call that makes the best mechanism,
    and from how many releases on Gaussian noise is the best to add. Exits with 1 if a plugin
    failed to make its proposals.
    """
    from opendp_optimal.advisor.advice import advise as ask

    if rho is not None and delta is None:
        epsilon, delta = None, epsilon
    with terminal.working("comparing mechanisms"):
        advice = ask(
            epsilon,
            0.0 if delta is None else delta,
            prior=None if prior is None else terminal.listed(prior, "prior"),
            rho=rho,
            **asked,
        )
        plain = advice.as_dict()
    if as_json:
        terminal.print_json(plain)
    else:
        _print(advice)
    if plot is not None:
        _draw(advice, plot)
    for remark in advice.remarks:
        terminal.note(remark.text)
    for failure in advice.failures:
        terminal.note(f"failed: {failure}")
    return terminal.FAILED if advice.failures else 0


def _print(advice: Advice) -> None:
    request, best = advice.request, advice.best
    kind = "integer" if request.integer else "real"
    target = f"epsilon {request.epsilon:g}" if request.rho is None else f"rho {request.rho:g}"
    shape = (
        "" if request.length is None else f" in vectors of {request.length}, {request.norm} norm"
    )
    shape += "" if request.queries == 1 else f" to {request.queries} queries asked together"
    within = "" if request.bounds is None else f" in {request.bounds[0]:g}..{request.bounds[1]:g}"
    terminal.print_table(
        ["mechanism", "expected loss", "/ best", "epsilon of each", "delta of each", "from"],
        [
            (
                c.name,
                terminal.figure(c.loss),
                f"{c.loss / best.loss:.4f}" if best.loss > 0 else "-",
                (terminal.figure(c.epsilon, 4) if math.isfinite(c.epsilon) else "-")
                + (" in total" if c.together else ""),
                terminal.figure(c.delta, 3) + (" in total" if c.together else ""),
                c.by,
            )
            for c in advice.ranking
        ],
        title=(
            f"{target}, delta {request.delta:g}, sensitivity "
            f"{request.sensitivity:g}, {kind} answers{shape}{within}, loss {request.loss.name}, "
            f"{request.releases} release{'' if request.releases == 1 else 's'}"
        ),
    )
    for bound in advice.bounds:
        click.echo(f"no loss below {terminal.figure_down(bound.value)}: {bound.note}")
    click.echo(f"use {best.name}:")
    click.echo(f"  {best.constructor}")
    if best.note:
        click.echo(f"  {best.note}")
    if advice.gaussian_from is not None:
        click.echo(f"of the noise added: use gaussian from {advice.gaussian_from} releases on")
    if request.integer and request.sensitivity == 1 and request.delta > 0 and not request.wide:
        click.echo("counts by keys that are secret, too: opendp-optimal keys")
    if request.releases > 1:
        click.echo("opendp-optimal budget keeps what they spend together, in a ledger")


def _draw(advice: Advice, path: str) -> None:
    shown = [c for c in advice.ranking if c.loss <= 20 * advice.best.loss]
    picture, axes = new_figure(7.5, 1.2 + 0.4 * len(shown))
    names = [c.name for c in shown]
    draw_bars(axes[0], names, [c.loss for c in shown], f"expected {advice.request.loss.name} loss")
    for bar, candidate in zip(axes[0].patches, shown, strict=True):
        bar.set_color(COLOURS["optimal" if candidate is advice.best else "gaussian"])
    if advice.lower is not None:
        axes[0].axvline(advice.lower, color="black", linestyle="--", linewidth=1.2)
        axes[0].set_title("dashed: nothing is below", loc="left", fontsize="small")
    save_told(picture, path)
