"""The best private channel for one consumer: any prior, any loss, any metric, with proofs."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.certify import channel as proofs
from opendp_optimal.model.bounded import MOST_WEIGHTS
from opendp_optimal.model.channel import ChannelProblem
from opendp_optimal.spec.exact import float_down, float_up
from opendp_optimal.spec.problem import MAX_EPSILON, MIN_DELTA
from opendp_optimal.table.channel_table import ChannelTable

_BITS = 80
_LARGEST = 64.0
_CLOSE = 1e-9
_MOST_PURE = 20_000
"""Weights of a programme with delta 0, which HiGHS solves with few of its constraints."""
METHODS = ("auto", "interior", "highs")

Progress = Callable[[str], None]
Floats = NDArray[np.float64]


def solve_channel(
    prior: Any,
    loss: Any,
    epsilon: float,
    metric: Any,
    *,
    delta: float = 0.0,
    method: str = "auto",
    tolerance: float = 1e-6,
    progress: Progress | None = None,
) -> ChannelTable:
    """The channel of least expected loss with P(A|x) <= exp(epsilon metric[x, x']) P(A|x') + delta.

    :param prior: chances of the inputs x
    :param loss: loss[w, x] of output w at input x, a row for each output
    :param epsilon: privacy parameter for inputs at distance 1
    :param metric: metric[x, x']: distances; infinite for inputs that need not be hidden from each
        other. (epsilon, delta)-privacy of neighbours has 1 for neighbours and infinity for others
    :param delta: 0 for metric privacy
    :param method: "auto", "interior" (delta > 0) or "highs"
    :param tolerance: relative duality gap at which the interior-point method stops
    :param progress: called with a line of text at each step

    >>> line = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    >>> table = solve_channel([0.5, 0.25, 0.25], line, math.log(2), line)
    >>> round(table.upper, 6), table.gap < 1e-6
    (0.541667, True)
    >>> table.verify()
    """
    weights, costs, distances = _checked(prior, loss, metric)
    if not 0 < epsilon <= MAX_EPSILON:
        raise ValueError(f"epsilon ({epsilon}) must be in (0, {MAX_EPSILON:g}]")
    if not (delta == 0 or MIN_DELTA <= delta < 1):
        raise ValueError(f"delta ({delta}) must be 0 or in [{MIN_DELTA}, 1)")
    if method not in METHODS:
        raise ValueError(f"method ({method!r}) must be one of {', '.join(METHODS)}")
    most = MOST_WEIGHTS if delta > 0 else _MOST_PURE
    if costs.size > most:
        shape = f"{costs.shape[1]} inputs x {costs.shape[0]} outputs"
        raise ValueError(
            f"loss (of {shape}) makes a programme of {costs.size} weights: it must have at most "
            f"{most}"
        )
    from opendp_optimal.solvers.channel import run  # loaded only when needed

    total = sum(weights)
    exact = [
        [w / total * Fraction(c) for c in column]
        for w, column in zip(weights, costs.T.tolist(), strict=True)
    ]
    group = _groups(distances)
    first = sorted(set(group))
    merged = [
        [sum(column, Fraction(0)) for column in zip(*(exact[x] for x in members), strict=True)]
        for members in ([x for x, g in enumerate(group) if g == one] for one in first)
    ]
    inner = distances[np.ix_(first, first)]
    above = _problem(exact, epsilon, distances, delta, math.ceil)
    small = _problem(merged, epsilon, inner, delta, math.ceil)
    below = _problem(merged, epsilon, inner, delta, math.floor)
    program = small.program()
    solution = run(program, method=method, tolerance=tolerance, progress=progress)
    rows = proofs.private_rows(program.unfold(solution.weights), small, largest_mix=0.1)
    integers = rows[[first.index(g) for g in group]]
    dual = proofs.round_prices(solution, program, below)
    table = ChannelTable(
        weights=integers,
        above=above,
        below=below,
        dual=dual,
        upper=float_up(proofs.expected_cost(integers, above)),
        lower=float_down(proofs.prove_bound(dual, below)),
    )
    table.verify()
    return table


def _checked(prior: Any, loss: Any, metric: Any) -> tuple[list[Fraction], Floats, Floats]:
    """Check shapes and values at the door."""
    chances = _array("prior", prior, 1)
    costs, distances = _array("loss", loss, 2), _array("metric", metric, 2, infinite=True)
    count = len(chances)
    if costs.shape[1] != count or not costs.size:
        raise ValueError(
            f"loss (of shape {costs.shape}) must have a column for each of the {count} inputs"
        )
    if distances.shape != (count, count):
        raise ValueError(f"metric (of shape {distances.shape}) must be {count} x {count}")
    if not count or chances.min() < 0 or abs(math.fsum(chances) - 1) > _CLOSE:
        raise ValueError(
            f"prior must not be negative and must add up to 1, not to {math.fsum(chances):.9g}"
        )
    if distances.min() < 0:
        raise ValueError(f"metric must not be negative, but has a {distances.min():g}")
    return [Fraction(w) for w in chances.tolist()], costs, distances


def _array(name: str, value: Any, dimensions: int, infinite: bool = False) -> Floats:
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers") from None
    if array.ndim != dimensions:
        raise ValueError(f"{name} (of shape {array.shape}) must have {dimensions} dimensions")
    if np.isnan(array).any() or (not infinite and np.isinf(array).any()):
        raise ValueError(f"{name} must be finite numbers")
    return array


def _groups(distances: Floats) -> list[int]:
    """The first input that is at distance 0, in some number of steps, for every input."""
    out = list(range(len(distances)))
    for x, z in np.argwhere(distances == 0).tolist():
        a, b = sorted((out[x], out[z]))
        out = [a if g == b else g for g in out]
    return out


def _problem(
    cost: list[list[Fraction]],
    epsilon: float,
    distances: Floats,
    delta: float,
    whole: Callable[[Fraction], int],
) -> ChannelProblem:
    """Costs as integers, distances as exponents rounded both ways; mechanisms keep to 64."""
    apart = ~np.eye(len(distances), dtype=bool) & np.isfinite(distances)
    pairs = np.argwhere(apart).astype(np.int64).reshape(-1, 2)
    exact = [Fraction(epsilon) * Fraction(float(distances[x, z])) for x, z in pairs]
    low = np.array([min(_LARGEST, float_down(e)) for e in exact])
    high = np.array([float_up(e) for e in exact])
    denominator = 1 << _BITS
    return ChannelProblem(
        cost=[[whole(c * denominator) for c in row] for row in cost],
        denominator=denominator,
        pairs=pairs,
        low=low,
        high=high,
        delta=float(delta),
    )
