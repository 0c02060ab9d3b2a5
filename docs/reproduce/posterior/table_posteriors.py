"""Write the page of posteriors: ``python -m docs.reproduce.posterior.table_posteriors --data DIR``.

Real tables are released with geometric noise, again and again, and estimated in every way.
``--results FILE`` keeps what was measured, so that a run can be taken up again.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from docs.reproduce import report
from docs.reproduce.posterior import tables, trials
from docs.reproduce.posterior.rules import LARGEST, ORACLES, PRIORS, ratio_of_roots, rules
from docs.reproduce.posterior.runs import (
    LIKES,
    Trials,
    chosen,
    ratio,
    seed_of,
    shown,
    values,
)
from docs.reproduce.posterior.windows import windows
from opendp_optimal.extend import known

SCRIPT = "posterior.table_posteriors"
DRAWS = 20
WAYS = ("released", "clamped", "least squares", "posterior")

INTRODUCTION = """\
From a released table alone one can learn how true counts are distributed, and give every cell its
posterior ([explanation](../explanation/posterior.md)). Here real tables are released with geometric
noise, DRAWS times each, and estimated: as released; clamped at 0; the nearest table that is not
negative and has the true total, which it is told; by `posterior`; by `posterior` with cells that
are alike. The *oracle* knows the true histogram of counts, but not which cell has which; the
*binned oracle* knows it in the bins that `posterior` uses. Absolute errors are of medians, squared
ones of means; after ± stands a standard error.

Defaults that no theory gives come from other tables: what the first prior counts in the second fit
with structure, how many standard errors of a bias are not believed in sums, and how much of a
difference in sums of the largest cells (clients of a bank by age and balance, pixels of digits,
adult by occupation, relationship, education and race, accidents, pickups and collisions on other
grids, made-up fields and columns). That windows of the predictor hold 1,500
cells was seen on four tables of this page first; on [eight others](#windows-of-the-predictor) it is
the best of four widths, too.
"""


def _errors(runs: Trials, what: str) -> list[str]:
    head = ["table", "cells", "epsilon", *WAYS, "oracle", "binned oracle", *LIKES]
    lines = []
    for name, table in chosen(runs.given, tables.LARGE | tables.MIDDLE).items():
        for epsilon in runs.epsilons:
            found = runs.of(name, table, epsilon)
            row = [table.name, f"{runs.counts(table).size:,}", f"{epsilon:g}"]
            for way in (*WAYS, "oracle", "binned oracle", *LIKES):
                at = values(found, way, what)
                error = at.std(ddof=1) / math.sqrt(len(at)) if len(at) > 1 else 0.0
                row.append(f"{at.mean():.4g} ± {error:.1g}" if len(at) else "")
            lines.append(row)
    return report.markdown(head, lines)


def absolute(runs: Trials) -> list[str]:
    """Mean absolute errors."""
    return [*_errors(runs, "absolute"), "", _figure(runs), ""]


def squared(runs: Trials) -> list[str]:
    """Mean squared errors."""
    return _errors(runs, "squared")


def _figure(runs: Trials) -> str:
    """Errors over that of the clamp, table by table."""
    drawn, axes = report.canvas(1, len(runs.epsilons), (4.0 * len(runs.epsilons), 4.2))
    ways = ("least squares", "posterior", *LIKES, "oracle")
    names = list(chosen(runs.given, tables.LARGE))
    for axis, epsilon in zip(axes[0], runs.epsilons, strict=True):
        for number, way in enumerate(ways):
            at, height = [], []
            for place, (name, table) in enumerate(chosen(runs.given, tables.LARGE).items()):
                found = runs.of(name, table, epsilon)
                if len(values(found, way, "absolute")):
                    at.append(ratio(found, way, "clamped")[0])
                    height.append(place)
            axis.plot(at, height, "o|sd^*"[number], label=way, ms=6)
        axis.axvline(1.0, color="#888888", lw=0.8)
        axis.set_xlim(0, 1.1)
        axis.set_yticks(
            range(len(names)), names if epsilon == runs.epsilons[0] else [""] * len(names)
        )
        axis.set_title(f"epsilon {epsilon:g}")
        axis.set_xlabel("mean absolute error over that of clamping")
    axes[0][-1].legend(fontsize=7)
    return report.save(drawn, runs.given.page, "posterior-errors")


def maps(runs: Trials) -> list[str]:
    """One release of a grid: what was released, and what can be seen in it."""
    name, table = next(iter(chosen(runs.given, tables.LARGE).items()))
    epsilon = runs.epsilons[0]
    true = runs.counts(table)
    released = trials.release(true, epsilon, seed_of(name, epsilon, 0))
    law = known.Geometric(epsilon)
    free, near = (trials.quietly(released, law, like=k) for k in (None, "neighbours"))
    parts = {
        f"released, epsilon {epsilon:g}": released,
        "clamped at 0": np.maximum(released, 0),
        "posterior": free.mean,
        "posterior, neighbours alike": near.mean,
        "true counts": true,
    }
    drawn, axes = report.canvas(1, len(parts), (2.6 * len(parts), 2.9))
    top = math.sqrt(float(np.quantile(true, 0.995)) + 1.0)
    for axis, (title, part) in zip(axes[0], parts.items(), strict=True):
        root = np.sign(part) * np.sqrt(np.abs(part))
        shades = {"cmap": "RdBu_r", "vmin": -top, "vmax": top, "interpolation": "none"}
        axis.imshow(root.T, origin="lower", aspect="auto", **shades)
        axis.set_title(title, fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
    wrong = [float(np.abs(part - true).mean()) for part in parts.values()]
    said = ", ".join(f"{t} {w:.3g}" for t, w in zip(parts, wrong, strict=True) if w)
    return [
        f"{table.name}; colours are square roots of counts, negative ones blue. Mean absolute "
        f"errors: {said}.",
        "",
        report.save(drawn, runs.given.page, "posterior-maps"),
    ]


def intervals(runs: Trials) -> list[str]:
    """Intervals of 90 %."""
    head = ["table", "epsilon", "total / noise", "prior", "actual", "claimed", "width / oracle's"]
    head += ["shortest: actual", "claimed", "width / equal tails"]
    lines = []
    for name, table in chosen(runs.given, tables.LARGE).items():
        for epsilon in runs.epsilons:
            found = runs.of(name, table, epsilon)
            for way in ("posterior", *LIKES):
                if not len(values(found, way, "actual")):
                    continue
                mean = {
                    what: float(values(found, way, what).mean())
                    for what in ("actual", "claimed", "shortest actual", "shortest claimed")
                }
                narrow = (
                    values(found, way, "shortest width").mean() / values(found, way, "width").mean()
                )
                total = float(np.mean([t["measured"] for t in found]))
                lines.append(
                    [
                        table.name,
                        f"{epsilon:g}",
                        f"{total:.0f}",
                        way,
                        f"{mean['actual']:.3f}",
                        f"{mean['claimed']:.3f}",
                        f"{ratio(found, way, 'binned oracle', 'width')[0]:.2f}",
                        f"{mean['shortest actual']:.3f}",
                        f"{mean['shortest claimed']:.3f}",
                        f"{narrow:.2f}",
                    ]
                )
    return report.markdown(head, lines)


def few(runs: Trials) -> list[str]:
    """Tables of 1 to 148 cells."""
    given = runs.given
    small = {k: v for k, v in tables.FEW.items() if not given.quick or k in ("five", "poisson")}
    head = ["table", "cells", "epsilon", "clamped", "posterior / clamped"]
    lines = []
    for name, table in small.items():
        for epsilon in runs.epsilons:
            found = runs.few(name, table, epsilon)
            size = f"{runs.counts(table).size}"
            pair = found["ratio"], found["error"]
            lines.append([table.name, size, f"{epsilon:g}", f"{found['clamped']:.3g}", shown(pair)])
    note = "Below 500 cells, which cells are alike is left out: asked for, it changes nothing."
    return [note, "", *report.markdown(head, lines)]


def _grids(runs: Trials) -> dict[str, tables.Table]:
    quick = {"made-up": tables.Table("made up", lambda folder: tables.accidents(folder, 48))}
    return quick if runs.given.quick else tables.SUMS


def sums(runs: Trials) -> list[str]:
    """Sums of blocks and of whole tables."""
    head = ["table", "epsilon", "prior", "cells", "raw", "estimate", "covered"]
    lines = []
    for name, table in _grids(runs).items():
        for epsilon in runs.epsilons[:2]:
            for kind, found in runs.sums(name, table, epsilon).items():
                prior, _, cells = kind.partition(" ")
                if not kind.endswith("largest"):
                    line = [table.name, f"{epsilon:g}", prior, cells]
                    lines.append([*line, *_roots(found), f"{np.mean(found, axis=0)[2]:.2f}"])
    note = (
        "Root mean squared errors in deviations of the raw sum; the share of 90 % intervals that "
        "hold the true sum. Blocks lie anywhere. Sums of large blocks are raw sums with their "
        "exact deviation: what they miss here is chance."
    )
    return [note, "", *report.markdown(head, lines)]


def _roots(found: Any) -> list[str]:
    return [f"{math.sqrt(v):.2f}" for v in np.mean(found, axis=0)[:2]]


def largest(runs: Trials) -> list[str]:
    """Sums of the cells that look largest, beside what oracles say of them."""
    head = ["table", "epsilon", "raw", *PRIORS, *ORACLES, *(f"covered, {k}" for k in PRIORS)]
    lines, every = [], []
    for name, table in _grids(runs).items():
        for epsilon in runs.epsilons[:2]:
            found = runs.sums(name, table, epsilon)
            every.append([found[f"{k} largest"] for k in (*PRIORS, *ORACLES)])
            lines.append([table.name, f"{epsilon:g}", *_line(every[-1])])
    lines.append(["all", "", *_line(np.mean(every, axis=0))])
    note = (
        f"The {trials.LARGEST} cells that look largest. Root mean squared errors in deviations of "
        "the raw sum. Where many cells are about as large, choosing them adds noise, and that "
        "is what can be taken away. Where the largest counts lie further apart than the "
        "noise, the raw sum has hardly a bias, its error is the noise itself, and nothing that is "
        "known of counts in general says more of a cell than its release. The smooth oracle shows "
        "where that is so: it knows the law that the posterior would learn if there were no noise, "
        "and where it is not below half of the raw sum, no rule that learns such a law can be "
        "expected to be. The other oracles know these very counts, but not which cell has which: "
        "the true histogram, to the unit; in bins; and in bins of each of sixteen strata of the "
        "predictor."
    )
    return [note, "", *report.markdown(head, lines), "", _reached(every)]


def _reached(every: list[Any]) -> str:
    """What is reached beside the oracle that knows no more than could be learnt."""
    half: dict[bool, list[bool]] = {True: [], False: []}
    over: list[float] = []
    for found in every:
        own = [ratio_of_roots(each)[0] for each in found]
        best = own[len(PRIORS) + ORACLES.index("smooth oracle")]
        half[best < LARGEST].extend(each < LARGEST for each in own[: len(PRIORS)])
        over.extend(each / best for each in own[: len(PRIORS)] if best >= LARGEST)
    near = f": there their errors are {min(over):.2f} to {max(over):.2f} of its own" if over else ""
    together = np.mean(every, axis=0)
    told = " and ".join(f"{ratio_of_roots(each)[0]:.2f}" for each in together[: len(PRIORS)])
    return (
        f"All together the errors are {told} of the raw sum's. Where the smooth oracle is below "
        f"half of the raw sum, {sum(half[True])} of {len(half[True])} posteriors are; where it is "
        f"not, {sum(half[False])} of {len(half[False])}{near}."
    )


def _line(found: Any) -> list[str]:
    """Of the raw sum, the posteriors and the oracles the errors; and what intervals hold."""
    held = [f"{np.mean(each, axis=0)[2]:.2f}" for each in found[: len(PRIORS)]]
    return [_roots(found[0])[0], *(_roots(each)[1] for each in found), *held]


PARTS = {
    "maps": ("A picture", maps),
    "rules": ("The rules fixed beforehand", rules),
    "absolute": ("Absolute errors", absolute),
    "squared": ("Squared errors", squared),
    "intervals": ("Intervals", intervals),
    "few": ("Few cells", few),
    "sums": ("Sums", sums),
    "largest": ("The cells that look largest", largest),
    "windows": ("Windows of the predictor", windows),
}


def main() -> None:
    """Write the page."""
    parser = report.arguments(__doc__, parts=PARTS)
    parser.add_argument("--results", type=Path, help="a file that keeps what was measured")
    parser.add_argument("--draws", type=int, default=DRAWS, help="releases of each table")
    given = parser.parse_args()
    runs = Trials(given)
    option = "" if given.draws == DRAWS or given.quick else f" --draws {given.draws}"
    body = []
    for name in given.only or PARTS:
        heading, build = PARTS[name]
        alone = argparse.Namespace(**{**vars(given), "only": [name]})
        body += [f"## {heading}", "", f"    {report.command(SCRIPT, alone)}", ""]
        body += [*build(runs), ""]
    spent = sum(v["seconds"] for k, v in runs.store.store.items() if not k.startswith("windows"))
    introduction = INTRODUCTION.replace("DRAWS", str(runs.draws))
    lines = ["# Posteriors of released tables", "", introduction]
    lines += [f"    {report.command(SCRIPT, given)}{option}", ""]
    lines += [f"Processor time of all trials but those of windows: {report.minutes(spent)}.", ""]
    report.write("\n".join([*lines, *body]), given.page)


if __name__ == "__main__":
    main()
