"""Table 3 of Selvi, Liu, Wiesemann (2024): logistic regression by private coordinate descent.

    python -m docs.reproduce.selvi.coordinate_descent --data DIR [--keep FILE] [--page PAGE]

Each partial derivative gets (1, 0.1). As in the paper there are 100 splits, and 1,000 draws of the
noise for each. Splits that --keep has are not simulated again.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track
from threadpoolctl import threadpool_limits

from docs.reproduce.report import (
    CONSOLE,
    Results,
    arguments,
    figure,
    half_width,
    markdown,
    minutes,
    processor_time,
    same,
    save,
    write,
)
from docs.reproduce.selvi import uci, uci_descent
from docs.reproduce.selvi.simulate_descent import SENSITIVITY, Descent, data_dependent, descend

NOISES = ("gaussian", "analytic-gaussian", "truncated-laplace", "optimal", "optimal-bounded", None)
HEADS = ("GN", "(GN)", "TLN", "OPT", "(OPT)", "PCD")
SIDES = (("in", "In sample"), ("out", "Out of sample"))
TARGET = (1.0, 0.1)
LOUDER = 10.0
"""What the noise must be multiplied by to have the effect that the paper prints."""
SMALL = ("post-operative", "spect", "ecoli")
TWO_MEANS = 2**0.5
"""A difference of two means has an interval so much wider than one: the paper's has one too."""
PAPER = json.loads(Path(__file__).with_name("learning_paper.json").read_text())["tables"]["3"]

Errors = dict[str, Any]
"""By data set: errors in per cent, for each split, noise and side."""


load = cache(uci_descent.load)


def one(name: str, data: Path, louder: float, split: int) -> Descent:
    """A split of a data set, a fifth for testing."""
    features, signs = load(name, data)
    order = np.random.default_rng([split, 3]).permutation(len(signs))
    test, train = np.split(order, [len(signs) // 5])
    return Descent(features[train], signs[train], features[test], signs[test], louder=louder)


def simulate(
    name: str, data: Path, louder: float, draws: int, split: int
) -> tuple[list[list[float]], float]:
    """Errors of every noise on one split, and the seconds of processor time."""
    began = processor_time()
    found = descend(one(name, data, louder, split), NOISES, *TARGET, draws, [split, 5])
    return found.tolist(), processor_time() - began


class Run:
    """Simulations, each done once."""

    def __init__(self, given: argparse.Namespace) -> None:
        """Nothing is simulated before it is asked for."""
        self.given = given
        self.results = Results(given.keep)
        self.sizes: dict[str, str] = {}
        self.seconds = 0.0

    def errors(self, name: str, splits: int, draws: int, louder: float) -> Any:
        """Errors of every noise on every split, in per cent."""
        first = one(name, self.given.data, louder, 0)
        keys = [f"{name} {split} {draws} {louder:g}" for split in range(splits)]
        missing = [split for split, key in enumerate(keys) if key not in self.results.store]
        if missing:
            workers = ProcessPoolExecutor(
                self.given.jobs, initializer=threadpool_limits, initargs=(1,)
            )
            with workers as pool:
                found = pool.map(partial(simulate, name, self.given.data, louder, draws), missing)
                together = zip(missing, found, strict=True)
                for split, result in track(together, name, len(missing), console=CONSOLE):
                    self.results.put(keys[split], *result)
        kept = [self.results.store[key] for key in keys]
        seconds = sum(result["seconds"] for result in kept)
        self.seconds += seconds
        length = data_dependent(first)
        self.sizes.setdefault(
            name,
            f"| {name} | {first.train.shape[1]} ({PAPER[name]['shape'][0]}) "
            f"| {splits} x {draws} | {minutes(seconds)} "
            f"| {f'table, {length:g}' if length else 'OPT, clamped'} |",
        )
        return 100 * np.array([result["value"] for result in kept])


def cell(values: Any, printed: float) -> str:
    """Our mean and half its interval, the paper's value, and a star where it is outside."""
    mean, half = values.mean(), half_width(values)
    return f"{mean:.2f}±{half:.2f} ({printed:.2f}){'*' if abs(mean - printed) > half else ''}"


def table(errors: Errors, side: int) -> list[str]:
    """A table for one side; p is of the test that TLN and OPT are alike."""
    rows = []
    for name, values in errors.items():
        printed = PAPER[name][SIDES[side][0]]
        cells = [cell(values[:, i, side], printed[i]) for i in range(len(HEADS))]
        rows.append([name, *cells, f"{same(values[:, 2, side], values[:, 3, side]):.0e}"])
    return markdown(["data set", *HEADS, "p"], rows)


def orders(errors: Errors) -> list[str]:
    """For how many data sets each inequality of the paper holds, and how surely."""
    lines = []
    for better, worse in ((1, 0), (2, 1), (3, 2), (4, 3)):
        for side, (key, label) in enumerate(SIDES):
            means = {n: v[:, better, side] - v[:, worse, side] for n, v in errors.items()}
            held = [n for n, d in means.items() if d.mean() < 0]
            sure = [n for n in held if same(means[n], np.zeros(len(means[n]))) < 1e-3]
            against = [n for n, d in means.items() if d.mean() > 0 and same(d, 0 * d) < 1e-3]
            printed = [n for n in against if PAPER[n][key][better] < PAPER[n][key][worse]]
            lines.append(
                f"* {HEADS[better]} below {HEADS[worse]}, {label.lower()}: {len(held)} of "
                f"{len(means)}, on {len(sure)} with p < 0.001"
                + "".join(
                    f"; **surely not on {n}**{'' if n in printed else ' (nor in the paper)'}"
                    for n in against
                )
            )
    return lines


def starred(errors: Errors, wider: float = 1.0) -> dict[str, list[str]]:
    """By data set, the cells whose printed value is outside of our interval, or of a wider one."""
    out: dict[str, list[str]] = {}
    for name, values in errors.items():
        for side, (key, _) in enumerate(SIDES):
            for i, head in enumerate(HEADS):
                sample = values[:, i, side]
                if abs(sample.mean() - PAPER[name][key][i]) > wider * half_width(sample):
                    out.setdefault(name, []).append(f"{head} {key}")
    return out


def disagree(errors: Errors, heads: Sequence[str]) -> str:
    """The data sets on which some of these columns are more than chance away from the paper's."""
    far = starred(errors, TWO_MEANS)
    names = [n for n, cells in far.items() if {c.split()[0] for c in cells} & set(heads)]
    return f"all but {', '.join(names)}" if names else "all"


def excess(errors: Errors) -> list[str]:
    """What noise adds to the error in sample, ours and the paper's."""
    rows = []
    for name, values in errors.items():
        ours = (values[:, :4, 0] - values[:, 5:, 0]).mean(axis=0)
        printed = [PAPER[name]["in"][i] - PAPER[name]["in"][5] for i in range(4)]
        rows.append([name, *(f"{a:.2f} ({b:.2f})" for a, b in zip(ours, printed, strict=True))])
    return markdown(["data set", *HEADS[:4]], rows)


EXPLAINED = {
    "adult": "other features: the paper has 57 columns, of which we know the number only",
    "breast-cancer": "other features: how the paper gets from 81 columns to 26 is a guess",
    "dermatology": "other classes, perhaps: which of the six the paper takes together is a guess",
    "absent": "other features: the paper has 70 columns, the obvious ones are 65",
    "post-operative": "not explained. With 87 records, as in the authors' program for this data "
    "set, and not the 86 of the text, descent without noise has 27.7±0.4 in and 33.9±1.3 out of "
    "sample",
    "bank": "other features: the paper has 44 columns, the obvious ones are 43",
}


def differences(errors: Errors) -> list[str]:
    """Every starred cell, with its reason where there is one."""
    out = []
    found = starred(errors)
    bounded = [n for n, cells in found.items() if any(c.startswith("(OPT)") for c in cells)]
    if bounded:
        out.append(
            f"* (OPT) on {', '.join(bounded)}: other noise. The paper's is made for a loss of its "
            "own, |x| near 0 with slopes of 1,000 away from it; where these begin is not printed. "
            "The paper says that this loss, and not l1 or l2, is why its (OPT) beats even descent "
            "*without* noise. Ours is the optimum for the mean absolute error, and does not."
        )
    far = starred(errors, TWO_MEANS)
    chance = []
    for name, cells in found.items():
        rest = [c for c in cells if not c.startswith("(OPT)")]
        beyond = [c for c in rest if c in far.get(name, [])]
        if beyond:
            reason = EXPLAINED.get(name, "not explained")
            out.append(f"* {name}: {', '.join(beyond)}: {reason}.")
        if len(rest) > len(beyond):
            chance.append(f"{name} {', '.join(c for c in rest if c not in beyond)}")
    if chance:
        out.append(
            "* Within what two means over random splits differ by, if the paper's is over splits "
            f"of its own: {'; '.join(chance)}."
        )
    return out


def drawn(errors: Errors, page: Path | None) -> str:
    """Out-of-sample errors, ours against the paper's."""
    shown, axes = figure(2, 4.6, 4.2)
    for axis, (side, (key, label)) in zip(axes[0], enumerate(SIDES), strict=True):
        for i, head in enumerate(HEADS):
            paper = [PAPER[n][key][i] for n in errors]
            ours = [v[:, i, side].mean() for v in errors.values()]
            axis.loglog(paper, ours, "o_d^sx"[i], label=head, markersize=5)
        ends = [3, 50]
        axis.plot(ends, ends, ":", color="grey")
        axis.set_xlabel("error in the paper, %")
        axis.set_ylabel("our error, %")
        axis.set_title(label)
    axes[0, 0].legend(fontsize=7)
    return save(shown, page, "coordinate-descent")


def main() -> None:
    """Simulate and write or print the page."""
    parser = arguments(__doc__)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--keep", type=Path, help="results are read from here and kept here")
    given = parser.parse_args()
    names = uci.NAMES
    if given.quick:
        given.splits, given.draws, names = 3, 10, ("post-operative", "ecoli")
    run = Run(given)
    loud: Errors = {}
    for name in names:
        loud[name] = run.errors(name, given.splits, given.draws, LOUDER)
    few = min(given.draws, 100)
    printed = {n: run.errors(n, given.splits, few, 1.0) for n in SMALL if n in names}
    cells = 2 * len(HEADS) * len(loud)
    outside, beyond = (sum(map(len, starred(loud, w).values())) for w in (1.0, TWO_MEANS))
    command = (
        f"python -m docs.reproduce.selvi.coordinate_descent --data DIR{' --quick' * given.quick}"
    )
    for name in ("splits", "draws"):
        if not given.quick and getattr(given, name) != parser.get_default(name):
            command += f" --{name} {getattr(given, name)}"
    text = [
        "# Coordinate descent: Table 3 of Selvi, Liu, Wiesemann (2024)",
        "",
        "Errors in per cent: ours ± half a 95 % interval over splits, the paper's in brackets, a "
        "star where the paper's is outside. Written by",
        "",
        f"    {command}",
        "",
        f"in {minutes(run.seconds)} of processor time. **A simulation, and not private "
        "in total**: (1, 0.1) goes to *each* of 100 ⌈d/4⌉ partial derivatives, as in the paper. "
        "`PrivateLogisticRegression` shares a total instead: [honest budgets](honest-budget.md).",
        "",
        drawn(loud, given.page),
        "",
        "## Ten times the noise",
        "",
        "Two things that the text leaves open decide what comes out, and a third contradicts it.",
        "",
        "* *Start and scale.* Descent starts at a random point of [-1, 1]^d, and columns but the "
        "constant are centred and divided by their largest absolute value: so the authors' "
        "published programs have it. With this our PCD column agrees with the paper's on "
        f"{disagree(loud, ('PCD',))}.",
        "* *Records.* The paper's 160 records of spect appear to be the 80 training records of the "
        "original, each of them twice: with these the columns agree, with all 267 descent without "
        "noise has 16.1 and 17.9 in the place of the printed 19.6 and 23.7. Records would then be "
        "in the training and the test part at once, there.",
        "* *Noise.* With noise for the sensitivity 2 that the paper derives, and that its programs "
        "use, **noise does next to no harm**; see the last table. **With ten times this noise GN, "
        f"(GN), TLN and OPT agree with the paper's** on {disagree(loud, HEADS[:4])}. We tried 4, "
        "8, 10, 12, 15, 16 and 32 on six data sets, in sample; 10 fits what all four noises add to "
        "the error, there and on dermatology, absent and spect, which were not used. Where the "
        "factor comes from neither the text nor the programs say. The tables that follow have it.",
        "",
        "What noise adds to the error in sample, in brackets the paper's:",
        "",
        *excess(loud),
        "",
        *(
            f
            for side, (_, label) in enumerate(SIDES)
            for f in (f"## {label}, ten times the noise", "", *table(loud, side), "")
        ),
        "p: a paired t-test over splits that TLN and OPT are alike. All noises of a draw share "
        "their start, their coordinates and their random numbers, so that it is sharp.",
        "",
        "## The order of the noises",
        "",
        *orders(loud),
        "",
        "## Where we differ",
        "",
        f"{outside} of {cells} cells are starred, {beyond} of them by more than {TWO_MEANS:.2f} "
        "intervals. The paper's means, over as many splits, have intervals too, which are not "
        "printed. The cells of a data set share their splits: they are off together or not at all. "
        "Agreement is meant in this sense on this page.",
        "",
        *differences(loud),
        "* colon-cancer is not among our data.",
        "",
        "Guesses, made by looking at the paper's numbers of columns and at its errors *without* "
        "noise: dermatology has its age as a number and its classes cut between 2 and 3 (two other "
        "groups and each single class were tried); absent is cut above 3 hours (five cuts, and "
        "five other choices of columns); adult knows one country from all others (four other "
        "codings); values of breast-cancer that fewer than 8 % have are one value (eight other "
        "groupings); bank has day, campaign and previous as numbers (one other coding).",
        "",
        "## Draws, time, and noise that depends on the answer",
        "",
        "The paper has 100 splits and 1,000 draws of the noise for each. Times are of one core; "
        "results that `--keep` had already have the times of the code that found them.",
        "",
        "A derivative of n records is within [-n, n], n "
        f"times the sensitivity of {SENSITIVITY:g} or, with ten times the noise, n / 10 times: "
        "(OPT) is drawn from a certified table for the range up to 15 sensitivities, made for "
        "answers that are normal with a fifth of the range as deviation (four deviations were "
        "tried, on four data sets); longer ranges get OPT, clamped to the range. Where no noise "
        "can leave it, clamping does nothing, and the two are simulated once.",
        "",
        "| data set | columns (paper) | splits x draws | time | (OPT) |",
        "|---|---|---|---|---|",
        *run.sizes.values(),
        "",
        "## The noise as the paper prints it",
        "",
        "In sample, then out of sample; 100 draws for each split.",
        "",
        *(f for side in (0, 1) for f in (*table(printed, side), "")),
    ]
    write("\n".join(text), given.page)


if __name__ == "__main__":
    main()
