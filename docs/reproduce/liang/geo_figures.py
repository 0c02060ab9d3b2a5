"""Figures 2 to 6, 8 and 9 of Liang and Yi, *Adaptive Privacy Budgeting*, on public data.

    python -m docs.reproduce.liang.geo_figures --data DIR [--only 3] [--quick] [--page PAGE]

BM is one look at everybody at the whole price, PM is elimination over several looks.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from docs.reproduce.liang import experiments
from docs.reproduce.liang.claims import (
    Claims,
    claims_3,
    claims_4,
    claims_5,
    claims_6,
    claims_8,
    claims_9,
)
from docs.reproduce.liang.plots import plot_experiment
from docs.reproduce.liang.sweep import Figure, Row
from docs.reproduce.report import (
    CONSOLE,
    Results,
    arguments,
    command,
    markdown,
    minutes,
    picture,
    write,
)
from opendp_optimal_geo.plots import plot_elimination


@dataclass(frozen=True)
class Run:
    """One set of numbers of a figure.

    :param about: what the numbers are of
    :param options: of the experiment
    :param quick: what is different in the small version
    :param claims: reads the paper's claims off the numbers
    """

    about: str
    options: dict[str, Any]
    quick: dict[str, Any]
    claims: Callable[[Figure], Claims] | None = None


@dataclass(frozen=True)
class Part:
    """One figure of the paper.

    :param title: what it shows
    :param setup: the paper's experiment and how ours differs from it
    :param repeated: what a repetition is, and how many the paper has
    :param runs: the first is the figure, the others are further checks
    :param remark: where we differ from the paper and why
    """

    title: str
    setup: str
    repeated: tuple[str, int]
    runs: tuple[Run, ...]
    remark: str = ""


SMALL_COUNT = {"repetitions": 2, "widths": (1000.0,), "budgets": (1e-5, 1e-4)}
SMALL_DENSITY = {"repetitions": 2, "bandwidths": (500.0,), "budgets": (1e-4,), "users": 500}
PARTS: dict[str, Part] = {
    "3": Part(
        "range counts, one query",
        "Squares at random angles, relative error of the count, columns are rho per square metre. "
        "The paper: positions of 9,740 taxis in Beijing (T-Drive). Ours: 10,000 users drawn from "
        "315,055 pickups in New York for each square, because the trajectories are not at hand; "
        "widths and rho are ours, the paper's are in its picture only.",
        ("squares", 504),
        (
            Run("Pickups in New York", {"repetitions": 200}, SMALL_COUNT, claims_3),
            Run(
                "Road accidents in Great Britain",
                {"source": "accidents", "repetitions": 30},
                SMALL_COUNT,
            ),
            Run("Collisions in New York", {"source": "collisions", "repetitions": 30}, SMALL_COUNT),
        ),
        "The second claim is not borne out here: at the smallest rho distances are better for the "
        "narrowest squares and worse for the others, by one to two and a half standard errors. "
        "Other data set, and other squares: ours are around users, with at least 20 of them "
        "inside where there are such; the paper draws centres from 100 km by 100 km.",
    ),
    "4": Part(
        "kernel density, one query",
        "Absolute error of the density at random places, columns are rho per square metre. The "
        "paper: 200,000 motor vehicle collisions in New York. Ours: the same set, of which the "
        "13,760 collisions of two months are at hand; and 200,000 pickups. Places are drawn where "
        "the middle 96 % of users are, in the paper from a grid of 200 by 200. Bandwidths and rho "
        "are ours.",
        ("places", 300),
        (
            Run(
                "Collisions in New York",
                {"source": "collisions", "repetitions": 300},
                SMALL_DENSITY,
                claims_4,
            ),
            Run(
                "200,000 pickups in New York",
                {"source": "pickups", "repetitions": 30},
                SMALL_DENSITY,
            ),
        ),
    ),
    "5": Part(
        "nearest neighbours, MNIST, 60,000 x 784",
        "Relative error of the sum of distances to the k found, columns are rho per squared grey "
        "level. The paper: the same images. Ours: a single query image where whole images are sent "
        "(BM_0, PM_0), which is 47 million exact draws per look; PM_0 c64 is left out for that "
        "reason. k and rho are ours.",
        ("query images", 300),
        (
            Run(
                "Distances sent",
                {"repetitions": 4, "point_repetitions": 1},
                {"repetitions": 2, "ks": (5,), "budgets": (1e-3,)},
                claims_5,
            ),
        ),
    ),
    "6": Part(
        "many range counts with one budget",
        "Algorithm 3 against an even split over m queries: mean relative error over all queries. "
        "Saving is what is left at the end. The paper: T-Drive; top row by m at B = 1e-4 per "
        "square metre, bottom row by B at m = 56. Ours: pickups in New York at the same B and m; "
        "widths are ours.",
        ("runs", 50),
        (
            Run(
                "Pickups in New York",
                {"repetitions": 6},
                {
                    "repetitions": 2,
                    "widths": (2000.0,),
                    "queries": (2, 4),
                    "budgets": (1e-4, 1e-3),
                },
                claims_6,
            ),
        ),
    ),
    "8": Part(
        "the shifted threshold of appendix B",
        "Noisy distances counted below eta or below 0 (NoShift), columns are rho per square metre. "
        "Users and squares as in Figure 3.",
        ("squares", 504),
        (Run("Pickups in New York", {"repetitions": 504}, SMALL_COUNT, claims_8),),
    ),
    "9": Part(
        "threshold queries, central model",
        '"Do fewer than q of 10,000 households have an income of 10,000 dollars or less?" Share of '
        "wrong answers, columns are rho. The paper: households of the 2023 US Census set. Ours: "
        "households of the Current Population Survey; 9.1 % of them have so little, so q = 0.1 is "
        "the hard case. Line 5 of the printed Algorithm 9 has Yes and No the wrong way round; ours "
        "has them right.",
        ("samples", 500),
        (
            Run(
                "Current Population Survey",
                {"repetitions": 500},
                {"repetitions": 2, "households": 200, "fractions": (0.05,), "budgets": (1e-1,)},
                claims_9,
            ),
        ),
    ),
}


def measured(
    name: str, run: Run, data: Path, quick: bool, results: Results
) -> tuple[Figure, float]:
    """The numbers of one run, and the seconds they took."""
    options = {**run.options, **(run.quick if quick else {})}

    def compute() -> dict[str, Any]:
        with Progress(console=CONSOLE, transient=True) as bar:
            task = bar.add_task(f"figure {name}", total=None)
            found = experiments.FIGURES[name](
                data,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
                **options,
            )
        return asdict(found)

    value, seconds = results.get(f"figure {name} {options}", compute)
    return Figure(**{**value, "rows": [Row(**row) for row in value["rows"]]}), seconds


def tables(found: Figure) -> list[str]:
    """One table per panel: saving / error by method and place."""
    lines = []
    for panel in found.panels:
        places = sorted({row.x for row in found.rows if row.panel == panel})
        entries = {(row.method, row.x): row for row in found.rows if row.panel == panel}
        lines += [
            *markdown(
                [panel, *(f"{x:g}" for x in places)],
                [
                    [
                        method,
                        *(
                            f"{entries[method, x].saving:.2f} / {entries[method, x].error:.3g}"
                            for x in places
                        ),
                    ]
                    for method in found.methods
                ],
            ),
            "",
        ]
    return lines


def section(name: str, given: Any, results: Results) -> list[str]:
    """Everything about one figure."""
    part, (unit, theirs) = PARTS[name], PARTS[name].repeated
    lines, total = [], 0.0
    for number, run in enumerate(part.runs):
        if given.quick and run.claims is None:
            continue
        found, seconds = measured(name, run, given.data, given.quick, results)
        total += seconds
        file = f"geo-figure-{name}" + (f"-{number + 1}" if number else "")
        shown = picture(given.page, file, partial(plot_experiment, result=found))
        ours = max(row.repetitions for row in found.rows)
        lines += [f"{run.about}, {ours} {unit} per entry (paper: {theirs}):", "", shown, ""]
        if run.claims is not None:
            lines += [*markdown(["the paper says", "we measure"], run.claims(found)), ""]
        if number == 0 and part.remark and not given.quick:
            lines += [part.remark, ""]
        lines += tables(found)
    alone = Namespace(**{**vars(given), "only": [name]})
    return [
        f"## Figure {name}: {part.title}",
        "",
        f"    {command('liang.geo_figures', alone)}",
        "",
        f"Processor time: {minutes(total)}.",
        "",
        part.setup,
        "",
        *lines,
    ]


def section_2(given: Any) -> list[str]:
    """Who was decided at which look; the paper's figure is a sketch without numbers."""
    _, points, region, answer = experiments.figure_2(given.data)
    return [
        "## Figure 2: who was decided at which look",
        "",
        "The paper draws a sketch; this is a range count over all pickups, rho = 1e-4 per square "
        "metre, ten doubling looks.",
        "",
        "    python -m docs.reproduce.liang.geo_figures --data DIR --only 2",
        "",
        picture(
            given.page,
            "geo-figure-2",
            lambda path: plot_elimination(path, points, answer, region, limit=6000),
        ),
        "",
        f"{len(points):,} users, {answer.saving:.0%} of the price is kept. Decided at each look: "
        + ", ".join(f"{r.inside + r.outside:,}" for r in answer.rounds)
        + f"; never: {int(np.count_nonzero(answer.decided_at == 0)):,}.",
        "",
    ]


def main() -> None:
    """Measure, draw and write or print the page."""
    parser = arguments(__doc__, parts=["2", *PARTS])
    parser.add_argument("--keep", type=Path, help="keep results here, and go on from there")
    given = parser.parse_args()
    results = Results(given.keep)
    lines = [
        "# Geo-privacy: the figures of Liang and Yi, *Adaptive Privacy Budgeting*",
        "",
        "The claims: looking several times and eliminating users saves most of the budget of one "
        "query at the same error, and over many queries the savings make the error smaller. "
        "The paper prints its figures as pictures, without numbers: beside our numbers are the "
        "sentences it reads off them (section 7, appendices B and C). Written by",
        "",
        f"    {command('liang.geo_figures', given)}",
        "",
        "Noise is the exact noise of the package, from the secure generator. Users and queries are "
        "drawn by a seeded simulation generator. BM is one look at everybody at the whole price, "
        "PM is elimination; `_0` sends points, `_1` distances; `c4` and `c64` split the price "
        "evenly over 4 or 64 looks, `log-c10` doubles it over 10. Entries of tables are *saving / "
        "error*: the mean share of the price that users kept, and the mean error; pictures have "
        "quartiles of the error. beta is 0.05, of which a quarter goes to the eliminations.",
        "",
    ]
    for name in given.only or ["2", *PARTS]:
        lines += section_2(given) if name == "2" else section(name, given, results)
    write("\n".join(lines), given.page)


if __name__ == "__main__":
    main()
