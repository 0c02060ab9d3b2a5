"""From a privacy target to a certified noise table: the way data flows through the package."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

from opendp_optimal.errors import GapWarning
from opendp_optimal.losses.base import Loss
from opendp_optimal.losses.names import loss_of
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.table import NoiseTable
from opendp_optimal.table import store as tables

Progress = Callable[[str], None]

METHODS = ("auto", "interior", "highs", "cutting-planes")


def solve(
    epsilon: float,
    delta: float,
    *,
    loss: str | Loss | Callable[[float], float] = "l1",
    integer_sensitivity: int | None = None,
    gap: float = 1e-3,
    cache: bool = True,
    symmetric: bool = False,
    monotone: bool = False,
    support: float | None = None,
    impossible: float | None = None,
    method: str = "auto",
    cells: int | None = None,
    compute: bool = True,
    progress: Progress | None = None,
) -> NoiseTable:
    """The additive noise of least expected loss that is (epsilon, delta)-private, with proofs.

    :param epsilon: privacy parameter; the guarantee holds for exactly this float
    :param delta: privacy parameter; 0 gives pure noise (losses l1 and l2)
    :param loss: "l1", "l2", "pinball:LEVEL", a registered name, a function or a ``Loss``
    :param integer_sensitivity: n for integer queries of that sensitivity; None for real queries
        of sensitivity 1 (scale the noise for others)
    :param gap: largest acceptable certified relative gap (upper - lower) / lower; if it cannot be
        reached, the best table is returned with a ``GapWarning``
    :param cache: look for the table on disk first, and keep it there
    :param symmetric: only symmetric noise
    :param monotone: only noise whose density falls on each side of 0
    :param support: only noise within [-support, support]
    :param impossible: bound on the probability of outputs impossible under a neighbour
    :param method: "auto", "interior", "highs" or "cutting-planes"
    :param cells: force the lattice cells per unit of sensitivity (real queries)
    :param compute: False to take only what is stored; then a stored table for a smaller epsilon
        and delta may answer, and a ``LookupError`` says that there is none
    :param progress: called with a line of text at each step

    >>> table = solve(1.0, 1e-6)
    >>> table.gap < 1e-3
    True
    >>> table.verify()
    """
    if not (isinstance(gap, int | float) and 0 < gap < math.inf):
        raise ValueError(f"gap ({gap}) must be positive and finite")
    if method not in METHODS:
        raise ValueError(f"method ({method!r}) must be one of {', '.join(METHODS)}")
    if cells is not None and (cells != int(cells) or not 1 <= cells <= 4096):
        raise ValueError(f"cells ({cells}) must be an integer in [1, 4096]")
    problem = NoiseProblem(
        epsilon=epsilon,
        delta=delta,
        loss=loss_of(loss),
        integer_sensitivity=integer_sensitivity,
        symmetric=symmetric,
        monotone=monotone,
        support=support,
        impossible=impossible,
    )
    stored: NoiseTable | None = tables.load(problem, gap) if cache or not compute else None
    if stored is not None and (stored.gap <= gap or not compute):
        return stored
    if not compute:
        other: NoiseTable | None = tables.dominating(problem)
        if other is None:
            raise LookupError(
                f"no stored table answers epsilon ({epsilon}) and delta ({delta}) with this loss"
            )
        return other
    from opendp_optimal.search.refine import refine  # the solvers are loaded only when needed

    table = refine(problem, gap, method, cells, progress or (lambda _: None))
    if stored is not None and stored.gap <= table.gap:
        table = stored
    elif cache:
        tables.keep(table)
    if table.gap > gap:
        warnings.warn(
            f"the certified gap is {table.gap:.3%}, above the {gap:.3%} asked for: this is the "
            f"best reached at epsilon ({epsilon}) and delta ({delta})",
            GapWarning,
            stacklevel=2,
        )
    return table
