"""The table of gains: OpenDP's own mechanisms and the optimum, exact and measured.

    python -m docs.reproduce.selvi.gains [--draws 1000000] [--jobs 2] [--json] [--page PAGE]

Every measured figure comes from releases through OpenDP measurements, never from a simulation.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import opendp.prelude as dp

from docs.reproduce.report import CONSOLE, markdown, write
from opendp_optimal import known, make_optimal_noise, solve

Loss = Literal["l1", "l2"]
LOSSES: tuple[Loss, Loss] = ("l1", "l2")
TARGETS = ((1.0, 1e-6), (2.0, 1e-6), (3.0, 1e-5), (1.0, 0.1), (5.0, 0.25))
MECHANISMS = ("laplace", "gaussian", "canonical", "optimal")
HEADS = ("Laplace", "Gaussian", "canonical", "optimal")
CHUNK = 50_000
TOGETHER = 500
AGREE = 5.0
"""Standard errors within which a measured mean must lie; all forty do but once in 40 000 runs."""
HEAD = """# Gains, exact and measured

Expected loss at sensitivity 1 of OpenDP's own Laplace noise, Gaussian noise (analytic calibration)
and canonical noise, and of the optimal noise. In each cell the exact value, from the closed form"""
EXACT = "or the table."
MEASURED = """or the table, and in brackets the mean of {draws:,} releases of 0.0 through the OpenDP
measurement, with its standard error. The command exits with 1 if one is off by more than {agree:g}
of these."""


@dataclass(frozen=True)
class Gain:
    """One mechanism at one target under one loss."""

    epsilon: float
    delta: float
    loss: str
    mechanism: str
    exact: float
    measured: float | None = None
    standard_error: float | None = None

    @property
    def distance(self) -> float:
        """How far the measured mean is from the exact one, in standard errors; 0 without one."""
        if self.measured is None or self.standard_error is None:
            return 0.0
        return abs(self.measured - self.exact) / self.standard_error

    @property
    def agrees(self) -> bool:
        """Whether the measured mean is where the exact one says it should be."""
        return self.distance <= AGREE


def exact_loss(mechanism: str, epsilon: float, delta: float, loss: Loss) -> float:
    """Return the expected loss of a mechanism at sensitivity 1, from its closed form or table."""
    if mechanism == "optimal":
        return solve(epsilon, delta, loss=loss).upper
    name = {"laplace": "laplace", "gaussian": "analytic_gaussian", "canonical": "tulap"}
    return known.expected_loss(name[mechanism], epsilon, delta, loss)


def release_zeros(mechanism: str, epsilon: float, delta: float, loss: str, count: int) -> Any:
    """Return ``count`` releases of 0.0 at sensitivity 1 through an OpenDP measurement."""
    dp.enable_features("contrib")
    atom = dp.atom_domain(T=float, nan=False)
    zeros = np.zeros(count)
    if mechanism == "laplace":
        space = dp.vector_domain(atom), dp.l1_distance(T=float)
        return np.array(dp.m.make_laplace(*space, scale=1 / epsilon)(zeros))
    if mechanism == "gaussian":
        space = dp.vector_domain(atom), dp.l2_distance(T=float)
        sigma = known.gaussian_sigma(epsilon, delta)
        return np.array(dp.m.make_gaussian(*space, scale=sigma)(zeros))
    if mechanism == "canonical":
        one = dp.m.make_canonical_noise(atom, dp.absolute_distance(T=float), 1.0, (epsilon, delta))
        # Many in one call: half of the time of a single release is spent on the way there and back.
        many = dp.c.make_composition([one] * min(count, TOGETHER))
        calls = [many(0.0) for _ in range(-(-count // TOGETHER))]
        return np.array(calls).ravel()[:count]
    space = dp.vector_domain(atom), dp.l1_distance(T=float)
    target = (epsilon, delta)
    dp.enable_features("honest-but-curious")  # for ``changed``: there are no data here
    return np.array(make_optimal_noise(*space, 1.0, target, loss=loss, changed=1)(zeros))


def _moments(job: tuple[str, float, float, str, int]) -> tuple[float, float, float]:
    """Return the sums of |x|, x^2 and x^4 over some releases."""
    x = np.abs(release_zeros(*job))
    return float(x.sum()), float((x**2).sum()), float((x**4).sum())


def measure(
    draws: int, jobs: int
) -> Iterator[tuple[tuple[float, float, str, str], tuple[float, float]]]:
    """Yield the mean loss and its standard error for each (epsilon, delta, loss, mechanism)."""
    sizes = [CHUNK] * (draws // CHUNK) + ([draws % CHUNK] if draws % CHUNK else [])
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for epsilon, delta in TARGETS:
            for mechanism in MECHANISMS:
                # One set of draws serves both losses, except where the noise depends on the loss.
                for losses in (["l1"], ["l2"]) if mechanism == "optimal" else (["l1", "l2"],):
                    work = [(mechanism, epsilon, delta, losses[0], size) for size in sizes]
                    parts = list(pool.map(_moments, work))
                    first, second, fourth = (
                        sum(part[i] for part in parts) / draws for i in range(3)
                    )
                    for loss in losses:
                        mean, square = (first, second) if loss == "l1" else (second, fourth)
                        error = math.sqrt(max(0.0, square - mean * mean) / draws)
                        yield (epsilon, delta, loss, mechanism), (mean, error)
                CONSOLE.print(f"measured {mechanism} at epsilon {epsilon:g}, delta {delta:g}")


def gains(draws: int, jobs: int) -> list[Gain]:
    """Return every row of the table, measured too if ``draws`` is not 0."""
    measured = dict(measure(draws, jobs)) if draws else {}
    rows = []
    for epsilon, delta in TARGETS:
        for loss in LOSSES:
            for mechanism in MECHANISMS:
                exact = exact_loss(mechanism, epsilon, delta, loss)
                mean = measured.get((epsilon, delta, loss, mechanism), (None, None))
                rows.append(Gain(epsilon, delta, loss, mechanism, exact, *mean))
    return rows


def page(rows: list[Gain], draws: int) -> str:
    """Return the page with every row.

    :param rows: of :func:`gains`
    :param draws: how often each mechanism was measured
    """
    by = {(r.epsilon, r.delta, r.loss, r.mechanism): r for r in rows}
    lines = []
    for epsilon, delta in TARGETS:
        for loss in LOSSES:
            four = [by[epsilon, delta, loss, name] for name in MECHANISMS]
            cuts = [f"{100 * (1 - four[-1].exact / row.exact):.1f} %" for row in four[:-1]]
            lines.append([f"{epsilon:g}, {delta:g}, {loss}", *map(_cell, four), *cuts])
    heads = ["epsilon, delta, loss", *HEADS, f"cut vs {HEADS[0]}", *HEADS[1:-1]]
    measured = MEASURED.format(draws=draws, agree=AGREE) if draws else EXACT
    text = [HEAD, measured, "", f"    python -m docs.reproduce.selvi.gains --draws {draws}", ""]
    text += markdown(heads, lines)
    if draws:
        largest = max(row.distance for row in rows)
        text += ["", f"The largest difference is {largest:.1f} standard errors."]
    return "\n".join([*text, ""])


def _cell(row: Gain) -> str:
    if row.measured is None or row.standard_error is None:
        return f"{row.exact:.5g}"
    return f"{row.exact:.5g} ({row.measured:.5g} ± {row.standard_error:.1g})"


def main(words: Sequence[str] | None = None) -> int:
    """Compute, measure and print or write the table; return the exit code.

    :param words: arguments; those of the process by default
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=0, help="measure by so many releases, too")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", type=Path, help="write here instead of to standard output")
    given = parser.parse_args(words)
    if given.draws < 0 or given.jobs < 1:
        parser.error("--draws must be at least 0 and --jobs at least 1")
    rows = gains(given.draws, given.jobs)
    if given.json:
        text = json.dumps([{**asdict(row), "agrees": row.agrees} for row in rows], indent=2)
    else:
        text = page(rows, given.draws)
    write(text, given.page)
    wrong = [row for row in rows if not row.agrees]
    for row in wrong:
        CONSOLE.print(f"disagrees: {row}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
