"""``opendp-optimal learn ...``: results on standard output.

Exit codes: 0 done, 2 bad arguments.
"""

from __future__ import annotations

import click

from opendp_optimal.extend import CommandGroup, json_option, print_json


@click.group(name="learn", cls=CommandGroup)
def learn() -> None:
    """Private learning: what a fit releases and what each release gets."""


@learn.command(name="budget")
@click.option("--epsilon", type=float, default=1.0, show_default=True)
@click.option("--delta", type=float, default=1e-6, show_default=True)
@click.option("--numerical", type=int, default=0, show_default=True, help="Numerical features.")
@click.option("--categorical", type=int, default=0, show_default=True, help="Categorical features.")
@click.option("--releases", type=int, help="Releases that one person can touch, instead.")
@click.option("--add-remove", is_flag=True, help="One record more or less, not one replaced.")
@click.option("--per-statistic", is_flag=True, help="epsilon and delta are for each statistic.")
@json_option
def budget_command(
    epsilon: float,
    delta: float,
    numerical: int,
    categorical: int,
    releases: int | None,
    add_remove: bool,
    per_statistic: bool,
    as_json: bool,
) -> None:
    """Print what each statistic of a naive Bayes classifier gets, and what they cost together."""
    from opendp_optimal_learn.budget import NOISES, plan
    from opendp_optimal_learn.naive_bayes import NEIGHBOURS

    if numerical < 0 or categorical < 0:
        raise ValueError("--numerical and --categorical must not be negative")
    each = NEIGHBOURS["add-remove" if add_remove else "change-one"]
    count = each * (1 + categorical + 2 * numerical) if releases is None else releases
    rows = []
    for noise in NOISES:
        if delta == 0 and noise not in ("optimal", "optimal-bounded", "laplace"):
            continue
        shared = plan(noise, epsilon, delta, count, "per-statistic" if per_statistic else "total")
        spent = shared.spent()
        rows.append(
            {
                "noise": noise,
                "epsilon": None if shared.sigma is not None else shared.epsilon,
                "delta": None if shared.sigma is not None else shared.delta,
                "sigma": shared.sigma,
                "total_epsilon": spent[0],
                "total_delta": spent[1],
            }
        )
    if as_json:
        print_json({"releases": count, "noises": rows}, indent=None)
        return
    click.echo(f"one person can touch {count} releases")
    for row in rows:
        if row["sigma"] is not None:
            own = f"sigma {row['sigma']:.4g}"
        else:
            own = f"epsilon {row['epsilon']:.4g}, delta {row['delta']:.2g}"
        together = f"({row['total_epsilon']:.4g}, {row['total_delta']:.2g})"
        click.echo(f"{row['noise']:<18} each: {own:<34} together: {together}")
