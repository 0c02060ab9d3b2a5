"""What the scripts in this folder share: arguments, plots as SVG, numbers with intervals."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy import stats

HERE = Path(__file__).parent
CONSOLE = Console(stderr=True)


def arguments(description: str | None, *, data: bool = True) -> argparse.ArgumentParser:
    """A parser with the options that all scripts have."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    if data:
        parser.add_argument("--data", type=Path, required=True, help="directory of the data")
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


def figure(columns: int = 1, width: float = 5.0, height: float = 3.4) -> tuple[Any, Any]:
    """A figure and its axes, drawn without a display."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "opendp-optimal", "svg.fonttype": "none"})
    return plt.subplots(1, columns, figsize=(width * columns, height), squeeze=False)


def save(drawn: Any, page: Path | None, name: str) -> str:
    """Save a figure beside the page and return the line that shows it."""
    if page is None:
        return ""
    drawn.tight_layout()
    drawn.savefig(page.parent / f"{name}.svg", metadata={"Date": None})
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
    if len(difference) < 2 or not np.any(difference != difference[0]):
        return 1.0 if len(difference) < 2 or difference[0] == 0 else 0.0
    return float(stats.ttest_1samp(difference, 0.0).pvalue)


def minutes(seconds: float) -> str:
    """A duration for people."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
