"""Data-dependent noise: from a bounded query and a privacy target to a certified table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from opendp_optimal.arrays import Progress
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.model.bounded import check_size
from opendp_optimal.problem.bounded import BoundedProblem
from opendp_optimal.search.bins import ALIKE, BinSearch
from opendp_optimal.search.options import SearchOptions, silent
from opendp_optimal.table import store as tables
from opendp_optimal.table.bounded import BoundedTable

_WHOLE = Fraction(1, 2**15)
"""Bins divide the sensitivity if they do up to this part, which measurements add to it."""


def solve_bounded(
    epsilon: float,
    delta: float,
    *,
    sensitivity: float,
    range: tuple[float, float],
    bins: int | Sequence[float] | None = None,
    loss: str | Loss | Callable[[float], float] = "l1",
    prior: Sequence[float] | None = None,
    cap: float | None = None,
    integer: bool = False,
    gap: float = 1e-2,
    cache: bool = True,
    method: str = "auto",
    progress: Progress | None = None,
) -> BoundedTable:
    """The private release of least expected loss for a query within a range, with proofs.

    The noise may depend on the answer, which beats every noise that does not in medium and high
    privacy. Where the noise of :func:`~opendp_optimal.solve`, moved into the range, does better
    than what was found, the table holds that. The bounds hold over all mechanisms, data-dependent
    or not.

    :param epsilon: privacy parameter; the guarantee holds for exactly this float
    :param delta: privacy parameter; 0 for pure privacy
    :param sensitivity: how far the answers of neighbouring data can be apart. One that is larger
        than the range is long means that every two answers are neighbours, and is taken for
        exactly the length of the range. Floats must hold the losses: it, its square for "l2", and
        those of the range are between 2^-960 and 2^1025
    :param range: smallest and largest answer of the query
    :param bins: number of equal bins, a whole number of which must make up the sensitivity; or
        the ends of unequal bins, from the smallest to the largest answer. Chosen by itself if None
    :param loss: "l1", "l2", "pinball:LEVEL", a registered name, a function or a ``Loss``, of the
        error in the units of the query; it must not fall as the error grows
    :param prior: chances of the answers, which the expected loss is averaged over: one for each
        integer, one for each unequal bin, or else for equal parts of the range, as many as are
        given. None for all answers alike
    :param cap: a bound on the expected loss at every single answer
    :param integer: for queries that answer integers, with integers
    :param gap: largest acceptable certified relative gap (upper - lower) / lower; if it cannot be
        reached, the best table is returned with a ``GapWarning`` (not where bins are given)
    :param cache: look for the table on disk first, and keep it there
    :param method: "auto", "interior" or "highs"
    :param progress: called with a line of text at each step

    >>> table = solve_bounded(1.0, 0.2, sensitivity=2, range=(0, 4), gap=0.05)
    >>> 0.62 < table.lower < table.upper < 0.67  # the best noise alike for all answers: 1.117
    True
    >>> table.verify()
    """
    options = SearchOptions(
        kind="channel", gap=gap, method=method, cache=cache, progress=progress or silent
    )
    try:
        low, high = range
    except (TypeError, ValueError):
        raise ValueError(f"range ({range!r}) must be a pair (low, high)") from None
    count, edges = _split(bins)
    problem = BoundedProblem(
        epsilon=epsilon,
        delta=delta,
        sensitivity=sensitivity,
        low=low,
        high=high,
        loss=loss_of(loss),
        prior=None if prior is None else tuple(prior),
        cap=cap,
        integer=integer,
        edges=edges,
    )
    cells = _cells(problem, count)
    _check_size(problem, count)
    stored: BoundedTable | None = tables.load(problem) if cache else None
    if stored is not None and ALIKE in stored.levels:
        enough = count in stored.levels if count else stored.gap <= options.gap
        if enough:
            return stored
    search = BinSearch(problem, options, stored)
    if count:
        search.fixed(count, cells)
    else:
        search.automatic()
    search.try_noise()
    search.try_constant()
    table = search.table()
    if cache and table != stored:
        tables.keep(table)
    if not count and problem.edges is None:
        options.warn(table.gap, epsilon, delta)
    return table


def _split(bins: int | Sequence[float] | None) -> tuple[int, tuple[float, ...] | None]:
    """A number of equal bins (0 for none given), or the ends of unequal ones."""
    if bins is None:
        return 0, None
    if not isinstance(bins, Sequence | int) and hasattr(bins, "tolist"):
        bins = bins.tolist()
    if isinstance(bins, Sequence) and not isinstance(bins, str):
        return 0, tuple(bins)
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise ValueError(f"bins ({bins!r}) must be a positive integer or the ends of unequal bins")
    return bins, None


def _cells(problem: BoundedProblem, bins: int) -> int:
    """How many of the bins make up the sensitivity (0 where bins were not given)."""
    if not bins:
        return 0
    if problem.integer:
        raise ValueError(f"bins ({bins}) must not be given for integers: each integer is one")
    exact = bins * problem.reach / problem.width
    whole = round(exact)
    if whole < 1 or abs(exact - whole) > _WHOLE * whole:
        raise ValueError(
            f"bins ({bins}) must divide the sensitivity: {float(exact):.6g} of them would make up "
            f"{float(problem.reach):g} in a range of length {float(problem.width):g}"
        )
    return whole


def _check_size(problem: BoundedProblem, bins: int) -> None:
    """Refuse what is too large before anything is built."""
    ends = f"({problem.low:g}, {problem.high:g})"
    if problem.integer:
        check_size(problem, int(problem.width) + 1, "range", f"{ends} of integers")
    elif problem.edges is not None:
        check_size(problem, len(problem.edges), "bins", f"{len(problem.edges) - 1} of them")
    elif bins:
        check_size(problem, bins + 1, "bins", bins)
