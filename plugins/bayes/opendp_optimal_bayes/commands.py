"""``opendp-optimal bayes ...``: results on standard output.

Exit codes: 0 done, 1 failed (also a theorem that does not hold), 2 bad arguments.
"""

from __future__ import annotations

from fractions import Fraction

import click

from opendp_optimal.extend import CommandGroup, json_option, print_json
from opendp_optimal_bayes.posterior_command import posterior_command


@click.group(name="bayes", cls=CommandGroup)
def bayes() -> None:
    """Bayesian consumers: posteriors of released tables; channels and which refines which."""


bayes.add_command(posterior_command)


def _fraction(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(f"decay ({text!r}) must be a fraction such as 1/16") from None


@bayes.command(name="geometric")
@click.option("--n", type=int, required=True, help="Number of steps.")
@click.option("--decay", required=True, help="exp(-epsilon) from 0 to 1, exactly: 1/16 for 2 ln 4.")
@json_option
def geometric_command(n: int, decay: str, as_json: bool) -> None:
    """Print the N-step geometric mechanism in exact fractions."""
    from opendp_optimal_bayes.constructions import step_geometric_channel

    rows = step_geometric_channel(n, decay=_fraction(decay)).rows
    if as_json:
        print_json([[str(v) for v in row] for row in rows])
        return
    width = max(len(str(v)) for row in rows for v in row)
    for row in rows:
        click.echo("  ".join(str(v).rjust(width) for v in row))


@bayes.command(name="refine")
@click.option("--n", type=int, default=4, show_default=True, help="Steps of the answers.")
@click.option("--t", type=int, default=16, show_default=True, help="Pixels of the observations.")
@click.option("--decay", default="1/65536", show_default=True, help="exp(-epsilon), exactly.")
@json_option
def refine_command(n: int, t: int, decay: str, as_json: bool) -> int:
    """Show that truncated Laplace is the geometric mechanism, post-processed (Theorem 12).

    And that the converse is false: a loss that tells them apart. Exits with 1 otherwise.
    """
    from opendp_optimal_bayes.constructions import pixelated_laplace_channel, step_geometric_channel
    from opendp_optimal_bayes.refinement import refines

    exact = _fraction(decay)
    geometric = step_geometric_channel(n, decay=exact)
    laplace = pixelated_laplace_channel(n, t, decay=exact)
    there, back = refines(geometric, laplace), refines(laplace, geometric)
    apart = None if back.loss_a is None or back.loss_b is None else (back.loss_a, back.loss_b)
    if as_json:
        witness = there.witness and [[str(v) for v in row] for row in there.witness.rows]
        print_json(
            {
                "n": n,
                "t": t,
                "decay": str(exact),
                "holds": bool(there),
                "residual": str(there.residual),
                "witness": witness,
                "converse": bool(back),
                "separated_by": apart and float(apart[0] - apart[1]),
            }
        )
        return 0 if there else 1
    kind = "exactly" if there.residual == 0 else f"to within {float(there.residual):.3g}"
    click.echo(f"geometric on {n} steps refined by Laplace in {t} pixels: {bool(there)}, {kind}")
    losses = apart and f"False, losses {float(apart[0]):g} and {float(apart[1]):g}"
    click.echo(f"converse: {losses or True}")
    return 0 if there else 1
