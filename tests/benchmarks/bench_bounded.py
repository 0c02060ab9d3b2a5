"""Data-dependent noise: the seed's Figure 3, and the same programmes given to HiGHS.

    python tests/benchmarks/bench_bounded.py [--bins 24] [--skip-peer] [--json]

First, ``solve_bounded`` for the three regimes of the figure (sensitivity 2, range of length 4,
l1), each to its gap, with the losses of truncated Laplace noise and of the data-independent
optimum, the certified savings, and the price of never being worse than that optimum at any answer.

Then one programme for each regime, of a mechanism on ``--bins`` bins, is solved by the structured
method and, in the same process and on one core, by HiGHS' interior-point method without crossover
on all constraints at once, to the same duality gap; mirror symmetry is used by both.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import highspy
import numpy as np
from scipy import sparse

from opendp_optimal import known, solve, solve_bounded
from opendp_optimal.model import bounded as model
from opendp_optimal.model.channel import ChannelProgram
from opendp_optimal.problem.bounded import BoundedProblem
from opendp_optimal.solvers import run_channel

FIGURE = json.loads((Path(__file__).parents[1] / "golden" / "figure_3.json").read_text())
SIZE, ENDS = FIGURE["sensitivity"], tuple(FIGURE["range"])


def figure_3(regime: dict[str, Any]) -> dict[str, Any]:
    """One regime, to its gap."""
    epsilon, delta = regime["epsilon"], regime["delta"]
    options: dict[str, Any] = {"sensitivity": SIZE, "range": ENDS, "cache": False}
    started = time.perf_counter()
    table = solve_bounded(epsilon, delta, gap=regime["gap"], **options)
    seconds = time.perf_counter() - started
    alike = solve(epsilon, delta, cache=False)
    laplace = SIZE * known.expected_loss("truncated_laplace", epsilon, delta, "l1")
    capped = solve_bounded(epsilon, delta, gap=regime["gap"], cap=SIZE * alike.upper, **options)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "seconds": seconds,
        "bins": table.bins,
        "upper": table.upper,
        "lower": table.lower,
        "gap": table.gap,
        "truncated_laplace": laplace,
        "data_independent": [SIZE * alike.lower, SIZE * alike.upper],
        "saved_at_least": 1 - table.upper / (SIZE * alike.lower),
        "saved_at_most": 1 - table.lower / (SIZE * alike.upper),
        "largest_conditional": table.largest_conditional_loss,
        "capped_upper": capped.upper,
        "capped_lower": capped.lower,
        "capped_conditional": capped.largest_conditional_loss,
    }


def peer(program: ChannelProgram, tolerance: float) -> float:
    """HiGHS on all constraints at once; returns the optimum."""
    inputs, outputs = program.cost.shape
    pairs, n = len(program.first), inputs * outputs
    terms = pairs * outputs
    y = np.arange(outputs)
    first = (program.first[:, None] * outputs + y).ravel()
    across = np.where(program.flips[:, None], y[::-1], y)
    second = (program.second[:, None] * outputs + across).ravel()
    at, slack = np.arange(terms), n + np.arange(terms)
    data = [np.full(terms, program.delta), -np.ones(terms), program.grown.ravel()]
    rows = sparse.csr_array(
        (np.concatenate(data), (np.tile(at, 3), np.concatenate([slack, first, second]))),
        shape=(terms, n + terms),
    )
    mass = sparse.hstack(
        [
            sparse.kron(sparse.eye_array(inputs), np.ones((1, outputs))),
            sparse.csr_array((inputs, terms)),
        ]
    )
    budgets = sparse.hstack(
        [
            sparse.csr_array((pairs, n)),
            sparse.kron(sparse.eye_array(pairs), np.ones((1, outputs))),
        ]
    )
    matrix = sparse.csr_array(sparse.vstack([mass, rows, budgets]))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n + terms, matrix.shape[0]
    lp.col_cost_ = np.concatenate([program.cost.ravel(), np.zeros(terms)])
    lp.col_lower_, lp.col_upper_ = np.zeros(n + terms), np.full(n + terms, np.inf)
    lp.row_lower_ = np.concatenate([np.ones(inputs), np.zeros(terms), np.full(pairs, -np.inf)])
    lp.row_upper_ = np.concatenate([np.ones(inputs), np.full(terms, np.inf), np.ones(pairs)])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = matrix.indptr.astype(np.int32)
    lp.a_matrix_.index_ = matrix.indices.astype(np.int32)
    lp.a_matrix_.value_ = matrix.data
    highs = highspy.Highs()
    for name, value in (
        ("output_flag", False),
        ("threads", 1),
        ("solver", "ipm"),
        ("run_crossover", "off"),
        ("ipm_optimality_tolerance", tolerance),
    ):
        assert highs.setOptionValue(name, value) == highspy.HighsStatus.kOk
    assert highs.passModel(lp) != highspy.HighsStatus.kError
    assert highs.run() != highspy.HighsStatus.kError
    return float(highs.getInfo().objective_function_value)


def against_peer(regime: dict[str, Any], bins: int, tolerance: float = 1e-4) -> dict[str, Any]:
    """The same programme, by the structured method and by HiGHS."""
    problem = BoundedProblem(
        epsilon=regime["epsilon"],
        delta=regime["delta"],
        sensitivity=SIZE,
        low=ENDS[0],
        high=ENDS[1],
    )
    lattice = model.lattice_above(problem, bins // 2, bins)
    program = ChannelProgram.of(model.above(problem, lattice))
    started = time.perf_counter()
    own = run_channel(program, method="interior", tolerance=tolerance)
    middle = time.perf_counter()
    other = peer(program, tolerance)
    ended = time.perf_counter()
    return {
        "epsilon": regime["epsilon"],
        "delta": regime["delta"],
        "bins": bins,
        "own": own.primal,
        "own_seconds": middle - started,
        "peer": other,
        "peer_seconds": ended - middle,
        "ratio": (ended - middle) / (middle - started),
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bins", type=int, default=24)
    parser.add_argument("--skip-peer", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figure, races = [], []
    for regime in FIGURE["regimes"]:
        figure.append(figure_3(regime))
        found = figure[-1]
        low, high = found["data_independent"]
        print(
            f"({found['epsilon']:g}, {found['delta']:g}): {found['lower']:.5f} .. "
            f"{found['upper']:.5f}, gap {found['gap']:.2%}, {found['bins']} bins, "
            f"{found['seconds']:.2f} s\n"
            f"    truncated Laplace {found['truncated_laplace']:.4f} > data-independent "
            f"{low:.4f} .. {high:.4f}; saved {found['saved_at_least']:.1%} to "
            f"{found['saved_at_most']:.1%}\n"
            f"    largest conditional loss {found['largest_conditional']:.4f}; capped at the "
            f"data-independent optimum {found['capped_conditional']:.4f}, for "
            f"{found['capped_lower']:.5f} .. {found['capped_upper']:.5f}",
            file=sys.stderr,
        )
    for regime in [] if options.skip_peer else FIGURE["regimes"]:
        races.append(against_peer(regime, options.bins))
        race = races[-1]
        print(
            f"({race['epsilon']:g}, {race['delta']:g}), {race['bins']} bins: "
            f"{race['own_seconds']:.2f} s here ({race['own']:.6f}), {race['peer_seconds']:.2f} s "
            f"by HiGHS ({race['peer']:.6f}): {race['ratio']:.1f} times",
            file=sys.stderr,
        )
    if options.json:
        print(json.dumps({"figure_3": figure, "against_peer": races}, indent=2))


if __name__ == "__main__":
    main()
