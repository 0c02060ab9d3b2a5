"""The plot of the experiment on ratings."""

from __future__ import annotations

from pathlib import Path

from docs.reproduce.goel.ratings import UtilityTable
from docs.reproduce.report import canvas


def plot_utility(path: Path, table: UtilityTable) -> None:
    """Draw utility against the number of answers, one line per privacy rate.

    :param path: file to write
    :param table: from :func:`~docs.reproduce.goel.ratings.run_experiment`
    """
    figure, ((axes,),) = canvas(1, 1, (5.2, 3.6))
    for rate, row in zip(table.epsilons, table.utility, strict=True):
        axes.plot(table.ks, 100.0 * row, "o-", label=f"ε = {rate:g}")
    source = "generated ratings (simulation)" if table.generated else "ratings"
    axes.set(
        xlabel="answers k",
        ylabel="utility, % of the best",
    )
    axes.set_title(f"{source}: {table.users} users, {table.movies} movies", fontsize=9)
    axes.legend(frameon=False)
    figure.savefig(path)
