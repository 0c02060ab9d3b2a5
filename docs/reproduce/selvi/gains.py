"""The table of gains: OpenDP's own mechanisms and the optimum, exact and measured.

Every measured figure comes from releases through OpenDP measurements, never from a simulation.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Literal

import opendp.prelude as dp

from opendp_optimal.cli.solve import find
from opendp_optimal.cli.terminal import FAILED, figure, note, print_json, print_table
from opendp_optimal.spec import baselines

Loss = Literal["l1", "l2"]
LOSSES: tuple[Loss, Loss] = ("l1", "l2")
TARGETS = ((1.0, 1e-6), (2.0, 1e-6), (3.0, 1e-5), (1.0, 0.1), (5.0, 0.25))
MECHANISMS = ("laplace", "gaussian", "canonical", "optimal")
CHUNK = 50_000
TOGETHER = 500
AGREE = 5.0
"""Standard errors within which a measured mean must lie; all forty do but once in 40 000 runs."""


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
    def agrees(self) -> bool:
        """Whether the measured mean is where the exact one says it should be."""
        if self.measured is None or self.standard_error is None:
            return True
        return abs(self.measured - self.exact) <= AGREE * self.standard_error


def exact_loss(mechanism: str, epsilon: float, delta: float, loss: Loss) -> float:
    """Return the expected loss of a mechanism at sensitivity 1, from its closed form or table."""
    if mechanism == "optimal":
        return find(epsilon, delta, loss, None, 1e-3).upper
    name = {"laplace": "laplace", "gaussian": "analytic_gaussian", "canonical": "tulap"}
    return baselines.expected_loss(name[mechanism], epsilon, delta, loss)


def release_zeros(mechanism: str, epsilon: float, delta: float, loss: str, count: int) -> Any:
    """Return ``count`` releases of 0.0 at sensitivity 1 through an OpenDP measurement."""
    import numpy as np

    from opendp_optimal.measure import make_optimal_noise

    dp.enable_features("contrib")
    atom = dp.atom_domain(T=float, nan=False)
    zeros = np.zeros(count)
    if mechanism == "laplace":
        space = dp.vector_domain(atom), dp.l1_distance(T=float)
        return np.array(dp.m.make_laplace(*space, scale=1 / epsilon)(zeros))
    if mechanism == "gaussian":
        space = dp.vector_domain(atom), dp.l2_distance(T=float)
        sigma = baselines.analytic_gaussian_sigma(epsilon, delta)
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
    import numpy as np

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
                note(f"measured {mechanism} at epsilon {epsilon:g}, delta {delta:g}")


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


def print_gains(draws: int, jobs: int, as_json: bool) -> int:
    """Print the table of gains and return the exit code."""
    rows = gains(draws, jobs)
    if as_json:
        print_json([{**asdict(row), "agrees": row.agrees} for row in rows])
    else:
        by = {(r.epsilon, r.delta, r.loss, r.mechanism): r for r in rows}
        lines = []
        for epsilon, delta in TARGETS:
            for loss in ("l1", "l2"):
                four = [by[epsilon, delta, loss, name] for name in MECHANISMS]
                best = four[-1].exact
                cells = [_cell(row) for row in four]
                cuts = [f"{100 * (1 - best / row.exact):.1f} %" for row in four[:-1]]
                lines.append((f"{epsilon:g}, {delta:g}, {loss}", *cells, *cuts))
        heads = ["epsilon, delta, loss", *MECHANISMS, *(f"cut vs {m}" for m in MECHANISMS[:-1])]
        print_table(heads, lines, title="expected loss at sensitivity 1")
        if draws:
            note(f"second figures: mean of {draws} releases through OpenDP, +- standard error")
    wrong = [row for row in rows if not row.agrees]
    for row in wrong:
        note(f"disagrees: {row}")
    return FAILED if wrong else 0


def _cell(row: Gain) -> str:
    if row.measured is None or row.standard_error is None:
        return figure(row.exact, 5)
    return f"{figure(row.exact, 5)} ({figure(row.measured, 5)} +- {row.standard_error:.1g})"
