"""Table 3 of Selvi, Liu, Wiesemann (2024): logistic regression by private coordinate descent.

    python docs/reproduce/coordinate_descent.py --data DIR [--quick] [--page PAGE]

Each partial derivative gets (1, 0.1). The paper has 100 splits and 1,000 draws of the noise for
each; --splits and --draws say how many to take, data sets of more than 10,000 rows get a tenth of
both.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from _report import CONSOLE, HERE, arguments, figure, half_width, minutes, same, save, write
from rich.progress import track

from opendp_optimal_learn import uci
from opendp_optimal_learn.simulate_descent import Descent, descend

NOISES = ("gaussian", "analytic-gaussian", "truncated-laplace", "optimal", None)
HEADS = ("GN", "(GN)", "TLN", "OPT", "PCD")
COLUMNS = (0, 1, 2, 3, 5)
TARGET = (1.0, 0.1)
LARGE = 10_000
PAPER = json.loads((HERE / "learning_paper.json").read_text())["tables"]["3"]

Results = dict[str, list[list[list[float]]]]


def measure(name: str, data: Path, splits: int, draws: int) -> list[list[list[float]]]:
    """Errors in and out of sample of every noise on every split."""
    task = uci.load(name, data)
    features, labels = task.dense(), task.binary().astype(float)
    out = []
    for split in range(splits):
        rng = np.random.default_rng([split, 3])
        order = rng.permutation(task.rows)
        train, test = np.split(order, [int(0.8 * task.rows)])
        descent = Descent(features[train], labels[train], features[test], labels[test])
        out.append(
            [
                descend(descent, noise, *TARGET, draws, rng, np.random.default_rng(split)).tolist()
                for noise in NOISES
            ]
        )
    return out


def table(results: Results, side: int) -> list[str]:
    """Rows of the table for one side (0: in sample, 1: out of sample)."""
    lines = ["| data set | " + " | ".join(HEADS) + " | p |", "|---|" + "---|" * 6]
    for name, splits in results.items():
        values = 100 * np.array(splits)[:, :, side]
        printed = PAPER[name]["in" if side == 0 else "out"]
        cells = []
        for column, paper in enumerate(COLUMNS):
            mean, half = values[:, column].mean(), half_width(values[:, column])
            star = "*" if abs(mean - printed[paper]) > half else ""
            cells.append(f"{mean:.2f}±{half:.2f} ({printed[paper]:.2f}){star}")
        cells.append(f"{same(values[:, 2], values[:, 3]):.0e}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Simulate and write or print the page."""
    parser = arguments(__doc__)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--only", action="append", choices=uci.NAMES, help="some data sets")
    given = parser.parse_args()
    splits, draws, names = given.splits, given.draws, tuple(given.only or uci.NAMES)
    if given.quick:
        splits, draws, names = 2, 3, ("post-operative", "ecoli")
    results: Results = {}
    sizes, seconds = {}, {}
    for name in track(names, description="data sets", console=CONSOLE):
        began = time.perf_counter()
        large = PAPER[name]["rows"] > LARGE
        sizes[name] = (max(2, splits // 10), max(2, draws // 10)) if large else (splits, draws)
        results[name] = measure(name, given.data, *sizes[name])
        seconds[name] = time.perf_counter() - began
    command = f"python docs/reproduce/coordinate_descent.py --data DIR{' --quick' * given.quick}"
    if not given.quick and (splits, draws) != (100, 1000):
        command += f" --splits {splits} --draws {draws}"
    for name in given.only or ():
        command += f" --only {name}"
    drawn, axes = figure(1, 9.0, 4.0)
    for column, label in enumerate(("gaussian", "analytic", "truncated", "optimal", "no noise")):
        ours = [100 * np.array(s)[:, column, 1].mean() for s in results.values()]
        axes[0, 0].plot(range(len(ours)), ours, "o_d^x"[column], label=label)
    axes[0, 0].set_xticks(range(len(results)), list(results), rotation=40, ha="right")
    axes[0, 0].set_ylabel("out-of-sample error, %")
    axes[0, 0].legend(fontsize=7)
    text = [
        "# Coordinate descent: Table 3 of Selvi, Liu, Wiesemann (2024)",
        "",
        "Errors in per cent: ours ± half a 95 % interval over splits, the paper's in brackets, a "
        "star where the paper's is outside. Written by",
        "",
        f"    {command}",
        "",
        "Splits x draws, and time: "
        + ", ".join(f"{n} {sizes[n][0]} x {sizes[n][1]}, {minutes(seconds[n])}" for n in results)
        + ".",
        "",
        "**A simulation, and not private in total**: (1, 0.1) goes to *each* of 100 ⌈d/4⌉ partial "
        "derivatives, as in the paper. `PrivateLogisticRegression` shares a total instead.",
        "",
        save(drawn, given.page, "coordinate-descent"),
        "",
        "## In sample",
        "",
        *table(results, 0),
        "",
        "## Out of sample",
        "",
        *table(results, 1),
        "",
        "## Where we differ",
        "",
        "* Fewer splits and draws than the paper's 100 x 1,000, where so stated above.",
        "* **Neither the order of the noises nor any significance is reproduced**: at this size no "
        "noise differs from another by more than chance (column p), and none from the descent "
        "without noise by much. The scaling of numbers was one of three tried, on six data sets, "
        "beside one other cut of the classes; none came near the paper's effect of noise.",
        "* **Our noise does less harm than the paper's** on the small data sets, and our descent "
        "ends elsewhere without noise too: the paper does not print its start (ours is 0), the "
        "scaling of numbers within [-1, 1] nor the cut of ordinal classes. With more than two "
        "classes we tell the largest from the others. These cells are listed, not explained.",
        "* No column (OPT): derivatives have a range of n sensitivities, which is too long for a "
        "certified data-dependent table, and the paper's handcrafted loss and partition are not "
        "printed. colon-cancer is not among our data.",
        "",
    ]
    write("\n".join(text), given.page)


if __name__ == "__main__":
    main()
