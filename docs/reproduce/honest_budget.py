"""Private classifiers at an honest total budget: 13 UCI sets, and learning curves.

    python docs/reproduce/honest_budget.py --data DIR [--quick] [--page PAGE]

The estimators themselves, with secure noise, on random splits: errors at a total of epsilon = 1
and delta = 1e-6, and test error against total epsilon on adult and bank beside diffprivlib's
GaussianNB and LogisticRegression (left out where diffprivlib is not installed).
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _report import CONSOLE, arguments, figure, half_width, minutes, save, write
from rich.progress import track

from opendp_optimal_learn import PrivateLogisticRegression, PrivateNaiveBayes, uci

NOISES = ("laplace", "gaussian", "analytic-gaussian", "truncated-laplace", "optimal")
DELTA = 1e-6

Make = Callable[[float], Any]


def bayes(task: uci.Mixed, noise: str) -> Make:
    """Naive Bayes on numbers and categories, everything public given."""
    first = task.numbers.shape[1]
    return lambda epsilon: PrivateNaiveBayes(
        epsilon,
        DELTA,
        noise=noise,
        bounds=(0, 1) if first else None,
        categorical_features=list(range(first, first + len(task.sizes))) or None,
        categories=[list(range(size)) for size in task.sizes] or None,
        classes=list(range(task.classes)),
    )


def table_of(task: uci.Mixed) -> Any:
    """Numbers, then categories."""
    return np.hstack([task.numbers, task.codes])


def errors(make: Make, epsilon: float, x: Any, y: Any, repeats: int) -> list[float]:
    """Test errors, in per cent, over random splits."""
    out = []
    for repeat in range(repeats):
        order = np.random.default_rng([repeat, 4]).permutation(len(y))
        train, test = np.split(order, [int(0.8 * len(y))])
        out.append(100 * (1 - make(epsilon).fit(x[train], y[train]).score(x[test], y[test])))
    return out


def shown(values: list[float]) -> str:
    """A mean and half its interval."""
    return f"{np.mean(values):.2f}±{half_width(values):.2f}"


def all_sets(names: tuple[str, ...], data: Path, repeats: int) -> list[str]:
    """Rows of the table at epsilon = 1."""
    lines = ["| data set | releases | " + " | ".join(NOISES) + " | largest class |"]
    lines.append("|---|" + "---|" * (len(NOISES) + 2))
    for name in track(names, description="data sets", console=CONSOLE):
        task = uci.load(name, data)
        x, y = table_of(task), task.labels
        cells = [shown(errors(bayes(task, noise), 1.0, x, y, repeats)) for noise in NOISES]
        touched = 2 * (1 + len(task.sizes) + 2 * task.numbers.shape[1])
        guess = 100 * (1 - np.bincount(y).max() / len(y))
        lines.append(f"| {name} | {touched} | " + " | ".join(cells) + f" | {guess:.2f} |")
    return lines


def diffprivlib_models() -> Any:
    """The models of diffprivlib; None where it is not installed, or not for this scikit-learn."""
    try:
        return importlib.import_module("diffprivlib.models")
    except ImportError:
        return None


def competitors(task: uci.Mixed) -> dict[str, tuple[Make, Any]]:
    """Estimators for a learning curve, each with the features it takes."""
    dense = task.dense()[:, 1:]
    width = dense.shape[1]
    out: dict[str, tuple[Make, Any]] = {
        f"naive Bayes, {noise}": (bayes(task, noise), table_of(task)) for noise in NOISES
    }
    for noise in ("analytic-gaussian", "optimal"):
        out[f"logistic, {noise}"] = (
            lambda epsilon, noise=noise: PrivateLogisticRegression(
                epsilon, DELTA, noise=noise, bounds=(-1, 1), classes=[0, 1], random_state=0
            ),
            dense,
        )
    models = diffprivlib_models()
    if models is not None:
        out["diffprivlib GaussianNB"] = (
            lambda epsilon: models.GaussianNB(epsilon=epsilon, bounds=(-1, 1)),
            dense,
        )
        out["diffprivlib LogisticRegression"] = (
            lambda epsilon: models.LogisticRegression(epsilon=epsilon, data_norm=width**0.5),
            dense,
        )
    return out


def curves(
    name: str, data: Path, epsilons: tuple[float, ...], repeats: int, axis: Any
) -> list[str]:
    """Rows of a learning curve, drawn too."""
    task = uci.load(name, data)
    lines = ["| classifier | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " |"]
    lines.append("|---|" + "---|" * len(epsilons))
    for label, (make, x) in track(
        competitors(task).items(), description=f"{name}", console=CONSOLE
    ):
        found = [errors(make, e, x, task.labels, repeats) for e in epsilons]
        lines.append(f"| {label} | " + " | ".join(shown(f) for f in found) + " |")
        style = "--" if label.startswith("diffprivlib") else ":" if "logistic" in label else "-"
        axis.plot(epsilons, [np.mean(f) for f in found], style, marker=".", label=label)
    guess = 100 * (1 - np.bincount(task.labels).max() / task.rows)
    lines.append("| the largest class always |" + f" {guess:.2f} |" * len(epsilons))
    axis.set_xscale("log")
    axis.set_title(name)
    axis.set_xlabel("total ε")
    axis.set_ylabel("test error, %")
    return lines


def main() -> None:
    """Fit and write or print the page."""
    parser = arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=10, help="splits for each number")
    parser.add_argument("--only", action="append", choices=uci.NAMES, help="for the table")
    parser.add_argument("--curve", action="append", choices=uci.NAMES, help="for the curves")
    parser.add_argument("--epsilon", action="append", type=float, help="for the curves")
    given = parser.parse_args()
    names, repeats = tuple(given.only or uci.NAMES), given.repeats
    epsilons: tuple[float, ...] = tuple(given.epsilon or (0.1, 0.3, 1.0, 3.0, 10.0))
    drawn_sets = tuple(given.curve or ("adult", "bank"))
    if given.quick:
        names, repeats, epsilons = ("post-operative", "ecoli"), 2, (1.0,)
        drawn_sets = ("ecoli",)
    began = time.perf_counter()
    drawn, axes = figure(len(drawn_sets), 6.0, 4.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # diffprivlib's, about what it reads from the data
        rows = all_sets(names, given.data, repeats)
        parts = []
        for axis, name in zip(axes[0], drawn_sets, strict=True):
            lines = curves(name, given.data, epsilons, repeats, axis)
            parts += ["", f"### {name}", "", *lines]
    axes[0, -1].legend(fontsize=6)
    command = f"python docs/reproduce/honest_budget.py --data DIR{' --quick' * given.quick}"
    if not given.quick and repeats != 10:
        command += f" --repeats {repeats}"
    for option in ("only", "curve", "epsilon"):
        for value in getattr(given, option) or ():
            command += f" --{option} {value}"
    text = [
        "# Private classifiers at an honest total budget",
        "",
        "The estimators of `opendp-optimal-learn` with their secure noise; test error in per cent, "
        f"± half a 95 % interval over {repeats} random splits (80 % for training). Written by",
        "",
        f"    {command}",
        "",
        f"in {minutes(time.perf_counter() - began)}.",
        "",
        "## Naive Bayes at a total of ε = 1, δ = 1e-6",
        "",
        "*releases* is how many one person can touch when one record is replaced by another. "
        "Compare with the last column, the error of always naming the largest class.",
        "",
        *rows,
        "",
        "## Learning curves: test error against total ε, δ = 1e-6",
        "",
        save(drawn, given.page, "honest-budget"),
        *parts,
        "",
        "What this shows and what not: where intervals overlap, the noises are not ranked. What "
        "each release gets can be ranked without data: from a dozen releases on, Gaussian noise "
        "is the smaller; see [budgets](../explanation/learn-budgets.md).",
        "",
        "diffprivlib gets the same total ε (its classifiers take no δ), with numbers and "
        "categories as one matrix of numbers, which is what they take; our naive Bayes counts "
        "categories, so the two are not alike in more than their noise."
        if diffprivlib_models() is not None
        else "diffprivlib is left out: it is not installed, or does not work with this version "
        "of scikit-learn.",
        "",
    ]
    write("\n".join(text), given.page)


if __name__ == "__main__":
    main()
