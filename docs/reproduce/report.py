"""What the scripts in this folder share: arguments, plots as SVG, numbers with intervals."""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console
from scipy import stats

HERE = Path(__file__).parent
CONSOLE = Console(stderr=True)
STYLE: Any = {"svg.hashsalt": "opendp-optimal", "svg.fonttype": "none"}
"""Makes the same figure the same file."""


def arguments(
    description: str | None, *, data: bool = True, parts: Iterable[str] = ()
) -> argparse.ArgumentParser:
    """A parser with the options that all scripts have.

    :param description: the script's docstring
    :param data: whether it reads data
    :param parts: tables and figures of its page that can be had alone
    """
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    if data:
        parser.add_argument("--data", type=Path, required=True, help="directory of the data")
    if parts:
        parser.add_argument("--only", action="append", choices=list(parts), help="some parts")
    parser.add_argument("--quick", action="store_true", help="a small version, for tests")
    parser.add_argument("--page", type=Path, help="write here instead of to standard output")
    return parser


def write(text: str, page: Path | None) -> None:
    """Write the page, or print it."""
    if page is None:
        print(text)
    else:
        page.write_text(text, encoding="utf-8")
        CONSOLE.print(f"wrote {page}")


def command(script: str, given: argparse.Namespace) -> str:
    """The command that writes the page, for the page."""
    words = [f"python -m docs.reproduce.{script}"]
    words += ["--data DIR"] if hasattr(given, "data") else []
    words += [f"--only {part}" for part in getattr(given, "only", None) or []]
    return " ".join([*words, "--quick"] if given.quick else words)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


Parts = Mapping[str, tuple[str, Callable[[argparse.Namespace], list[str]]]]
"""Tables and figures of a page by name: a heading, and what writes the lines below it."""


def sections(script: str, given: argparse.Namespace, parts: Parts) -> list[str]:
    """The parts that are wanted, each with its command and the time it took.

    :param script: name of the file
    :param given: the parsed arguments
    :param parts: all of them
    """
    lines = []
    for name in given.only or parts:
        heading, build = parts[name]
        began = time.process_time()
        body = build(given)
        alone = argparse.Namespace(**{**vars(given), "only": [name]})
        lines += [
            f"## {heading}",
            "",
            f"    {command(script, alone)}",
            "",
            f"Processor time: {minutes(time.process_time() - began)}.",
            "",
            *body,
            "",
        ]
    return lines


def processor_time() -> float:
    """Seconds of processor time, with those of processes that were started and have ended."""
    return sum(os.times()[:4])


class Results:
    """Results by name, with the time they took; kept in a file, if one is given.

    :param path: a JSON file; what it holds already is not computed again
    """

    def __init__(self, path: Path | None = None) -> None:
        """Read what the file holds."""
        self.path = path
        self.store: dict[str, Any] = {}
        if path is not None and path.exists():
            self.store = json.loads(path.read_text())

    def get(self, name: str, compute: Callable[[], Any]) -> tuple[Any, float]:
        """What was found under this name, as JSON has it, and the seconds of processor time.

        :param name: says everything the result depends on
        :param compute: finds it
        """
        if name not in self.store:
            began = processor_time()
            value = compute()
            self.put(name, value, processor_time() - began)
        return self.store[name]["value"], self.store[name]["seconds"]

    def put(self, name: str, value: Any, seconds: float) -> None:
        """Keep a result; a file is never half written.

        :param name: says everything the result depends on
        :param value: anything that JSON can say
        :param seconds: of processor time
        """
        self.store[name] = {"value": value, "seconds": seconds}
        if self.path is not None:
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps(self.store))
            new.replace(self.path)


def figure(columns: int = 1, width: float = 5.0, height: float = 3.4) -> tuple[Any, Any]:
    """A figure and its axes, drawn without a display."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    return plt.subplots(1, columns, figsize=(width * columns, height), squeeze=False)


def canvas(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """A figure that finds its own margins, and its axes in rows and columns.

    :param rows: of axes
    :param columns: of axes
    :param size: in inches
    """
    from matplotlib.figure import Figure

    drawn = Figure(figsize=size, layout="constrained")
    return drawn, drawn.subplots(rows, columns, squeeze=False)


def save(drawn: Any, page: Path | None, name: str) -> str:
    """Save a figure beside the page and return the line that shows it."""

    def draw(path: Path) -> None:
        if drawn.get_layout_engine() is None:
            drawn.tight_layout()
        drawn.savefig(path)

    return picture(page, name, draw)


def picture(page: Path | None, name: str, draw: Callable[[Path], object]) -> str:
    """Let a plot be written as SVG beside the page; return the line that shows it.

    :param page: where the page goes; without one nothing is drawn
    :param name: of the file, without its ending
    :param draw: writes the file it is given
    """
    if page is None:
        return ""
    import matplotlib

    # The variable is how matplotlib is told to leave the date out of a file.
    with matplotlib.rc_context(STYLE), mock.patch.dict(os.environ, {"SOURCE_DATE_EPOCH": "0"}):
        draw(page.parent / f"{name}.svg")
    return f"![{name}]({name}.svg)"


def half_width(values: Any, level: float = 0.95) -> float:
    """Half the width of the confidence interval of a mean over independent splits."""
    sample = np.asarray(values, dtype=float)
    if len(sample) < 2:
        return math.inf
    quantile = stats.t.ppf(0.5 + level / 2, len(sample) - 1)
    return float(quantile * sample.std(ddof=1) / math.sqrt(len(sample)))


def same(first: Any, second: Any) -> float:
    """The p-value of a paired t-test that two methods are alike; 1 where they never differ."""
    difference = np.asarray(first) - np.asarray(second)
    if len(difference) < 2 or np.ptp(difference) <= 1e-12 * np.abs(difference).max():
        return 0.0 if len(difference) > 1 and difference.any() else 1.0
    return float(stats.ttest_1samp(difference, 0.0).pvalue)


def minutes(seconds: float) -> str:
    """A duration for people."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
