"""Repeated trials of several methods, and the numbers of a figure that come out of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

Progress = Callable[[int, int], None]

Outcome = tuple[str, float, float]
"""A method, its saving and its error."""

Trial = Callable[[int], Iterable[Outcome]]
"""Runs one repetition, given its number, and yields what every method did."""

Cell = tuple[Sequence[tuple[str, float]], Trial]
"""Where the numbers go, as panels with a place on their horizontal axis, and how to get them."""


@dataclass(frozen=True)
class Row:
    """One point of one line of a figure.

    :param panel: e.g. the width of the ranges
    :param method: e.g. "PM_1 log-c10"
    :param x: e.g. the budget
    :param saving: mean saving
    :param error: mean error
    :param low: first quartile of the error
    :param high: third quartile of the error
    :param repetitions: how many times
    :param deviation: standard deviation of the error over repetitions; 0 for a single one
    """

    panel: str
    method: str
    x: float
    saving: float
    error: float
    low: float
    high: float
    repetitions: int
    deviation: float


@dataclass
class Figure:
    """The numbers of one figure.

    :param name: "3", "4", ...
    :param title: what it shows
    :param x_label: what is varied
    :param error_label: what the error is
    :param rows: the numbers
    """

    name: str
    title: str
    x_label: str
    error_label: str
    rows: list[Row] = field(default_factory=list)

    @property
    def panels(self) -> list[str]:
        """The panels, in the order in which they were measured."""
        return list(dict.fromkeys(row.panel for row in self.rows))

    @property
    def methods(self) -> list[str]:
        """The methods, in the order in which they were measured."""
        return list(dict.fromkeys(row.method for row in self.rows))

    def add(
        self, panel: str, method: str, x: float, savings: Sequence[float], errors: Sequence[float]
    ) -> None:
        """Add a point from repetitions.

        :param panel: where it belongs
        :param method: whose it is
        :param x: where it is on the horizontal axis
        :param savings: one per repetition
        :param errors: one per repetition
        """
        low, high = np.quantile(errors, [0.25, 0.75])
        self.rows.append(
            Row(
                panel,
                method,
                x,
                float(np.mean(savings)),
                float(np.mean(errors)),
                float(low),
                float(high),
                len(errors),
                float(np.std(errors, ddof=1)) if len(errors) > 1 else 0.0,
            )
        )


def sweep(
    figure: Figure, cells: Sequence[Cell], repetitions: int, progress: Progress | None
) -> Figure:
    """Repeat the trial of every cell, add the numbers to the figure and return it.

    :param figure: what to add to
    :param cells: what to run
    :param repetitions: of each trial
    :param progress: called with repetitions done and to do
    """
    total, done = len(cells) * repetitions, 0
    for places, trial in cells:
        found: dict[str, tuple[list[float], list[float]]] = {}
        for turn in range(repetitions):
            for method, saving, error in trial(turn):
                savings, errors = found.setdefault(method, ([], []))
                savings.append(saving)
                errors.append(error)
            done += 1
            if progress is not None:
                progress(done, total)
        for panel, x in places:
            for method, (savings, errors) in found.items():
                figure.add(panel, method, x, savings, errors)
    return figure
