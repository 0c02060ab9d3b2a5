"""The best private channel for one consumer: any prior, any loss, any metric, with proofs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.arrays import Progress
from opendp_optimal.certify import channel as proofs
from opendp_optimal.checks import positive
from opendp_optimal.model.bounded import MOST_WEIGHTS
from opendp_optimal.model.channel import ChannelProgram, on_a_line
from opendp_optimal.problem.channel import ChannelRequest
from opendp_optimal.problem.noise import MIN_DELTA
from opendp_optimal.round.channel import private_rows, round_prices
from opendp_optimal.search.options import SearchOptions, silent
from opendp_optimal.table.channel import ChannelTable

_CLOSE = 1e-9
MOST_PURE = 40_000
"""Weights of a programme with delta 0, whose outputs are joined by sums of rows alone."""
Numbers = tuple[Fraction | float, ...]


def solve_channel(
    prior: Any,
    loss: Any,
    epsilon: float | Fraction,
    metric: Any,
    *,
    delta: float = 0.0,
    method: str = "auto",
    tolerance: float = 1e-6,
    progress: Progress | None = None,
) -> ChannelTable:
    """The channel of least expected loss with P(A|x) <= exp(epsilon metric[x, x']) P(A|x') + delta.

    Numbers are taken exactly: fractions as they are, floats as what they are.

    :param prior: chances of the inputs x
    :param loss: loss[w, x] of output w at input x, a row for each output
    :param epsilon: privacy parameter for inputs at distance 1
    :param metric: metric[x, x']: distances; infinite for inputs that need not be hidden from each
        other. (epsilon, delta)-privacy of neighbours has 1 for neighbours and infinity for others
    :param delta: 0 for metric privacy
    :param method: "auto", "interior" (delta > 0, or inputs on a line) or "highs"
    :param tolerance: relative duality gap at which the interior-point method stops
    :param progress: called with a line of text at each step

    >>> line = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    >>> table = solve_channel([0.5, 0.25, 0.25], line, math.log(2), line)
    >>> round(table.upper, 6), table.gap < 1e-6
    (0.541667, True)
    >>> table.verify()
    """
    if not 0 < (exact := _number("epsilon", epsilon)) <= proofs.LARGEST_EPSILON:
        raise ValueError(f"epsilon ({epsilon}) must be in (0, {proofs.LARGEST_EPSILON:g}]")
    if not ((share := _number("delta", delta)) == 0 or MIN_DELTA <= share < 1):
        raise ValueError(f"delta ({delta}) must be 0 or in [{MIN_DELTA:g}, 1)")
    options = SearchOptions(kind="channel", method=method, progress=progress or silent)
    chances, losses, distances = _checked(prior, loss, metric)
    weights, most = len(chances) * len(losses), MOST_WEIGHTS if delta > 0 else MOST_PURE
    if weights > most:
        raise ValueError(
            f"loss (of {len(chances)} inputs x {len(losses)} outputs) makes a programme of "
            f"{weights} weights: it must have at most {most}"
        )
    request = ChannelRequest(chances, losses, distances, Fraction(exact), float(share))
    for (x, z), exponent in zip(request.below.pairs.tolist(), request.below.high, strict=True):
        if exponent > proofs.LARGEST_EPSILON:
            raise ValueError(
                f"metric: epsilon times the distance from {x} to {z} must be at most "
                f"{proofs.LARGEST_EPSILON:g}"
            )
    tolerance = positive("tolerance", tolerance)
    from opendp_optimal.solvers import run_channel  # loaded only when needed

    above, below = request.above, request.below
    # On a line, where there is a method that needs all rows, they are not folded.
    whole = ChannelProgram.of(below, fold=False)
    program = whole if options.method != "highs" and on_a_line(whole) else ChannelProgram.of(below)
    solution = run_channel(
        program, method=options.method, tolerance=tolerance, progress=options.progress
    )
    rows = private_rows(program.unfold(solution.weights), above, largest_mix=0.1)
    # At worst no prices at all, which prove what even the truth costs.
    duals = (round_prices(solution, program, below), proofs.no_prices(below))
    dual = max(duals, key=lambda prices: proofs.prove_bound(prices, below))
    table = ChannelTable.of(request, rows, dual)
    table.verify()
    return table


def _checked(
    prior: Any, loss: Any, metric: Any
) -> tuple[tuple[Fraction, ...], tuple[tuple[Fraction, ...], ...], tuple[Numbers, ...]]:
    """Check shapes and values at the door; chances are divided by their exact sum."""
    chances = _numbers("prior", prior, 1)
    losses = _numbers("loss", loss, 2)
    distances = _numbers("metric", metric, 2, infinite=True)
    count = len(chances)
    if losses.shape[1] != count or not losses.size:
        raise ValueError(
            f"loss (of shape {losses.shape}) must have a column for each of the {count} inputs"
        )
    if distances.shape != (count, count):
        raise ValueError(f"metric (of shape {distances.shape}) must be {count} x {count}")
    total = sum(chances, Fraction(0))
    if min(chances) < 0 or abs(total - 1) > _CLOSE:
        raise ValueError(
            f"prior must not be negative and must add up to 1, not to {float(total):.9g}"
        )
    if distances.min() < 0:
        raise ValueError(f"metric must not be negative, but has a {float(distances.min()):g}")
    by_output, by_input = (tuple(map(tuple, table.tolist())) for table in (losses, distances))
    return tuple(chances / total), by_output, by_input


def _numbers(name: str, value: Any, dimensions: int, infinite: bool = False) -> NDArray[Any]:
    """The exact entries of an array."""
    try:
        array = value if isinstance(value, np.ndarray) else np.array(value, dtype=object)
        entries = [_number(name, v) for v in array.ravel().tolist()]
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers") from None
    if array.ndim != dimensions:
        raise ValueError(f"{name} (of shape {array.shape}) must have {dimensions} dimensions")
    if any(v != v or (v in (math.inf, -math.inf) and not infinite) for v in entries):
        raise ValueError(f"{name} must be finite numbers")
    return np.array(entries, dtype=object).reshape(array.shape)


def _number(name: str, value: Any) -> Fraction | float:
    """A number as a fraction; infinities and NaN as they are."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, int | float | Fraction):
        raise ValueError(f"{name} ({value!r}) must be a number")
    return value if isinstance(value, float) and not math.isfinite(value) else Fraction(value)
