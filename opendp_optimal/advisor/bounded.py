"""The core's own candidates whose noise depends on the answer, for answers within bounds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from opendp_optimal.advisor.request import Bound, Call, Candidate, Proposal, Remark, Request, budget
from opendp_optimal.budget import shares as accounting
from opendp_optimal.errors import CertificateError, GapWarning, SolverError
from opendp_optimal.search.bounded import solve_bounded
from opendp_optimal.table.bounded import BoundedTable

_REAL_GAP = 1e-2
"""The smallest gap that is asked for where answers are real numbers."""


def data_dependent(request: Request) -> Iterator[Proposal]:
    """Noise that depends on the answer, for answers within bounds.

    :param request: what is asked
    """
    if request.bounds is None:
        return
    epsilon, delta = accounting.share(request.epsilon, request.delta, request.releases)
    try:
        table = _solved(request, epsilon, delta)
        whole = table if request.releases == 1 else _solved(request, request.epsilon, request.delta)
    except (ValueError, SolverError, CertificateError) as error:
        yield Remark(text=f"noise that depends on the answer was not computed: {error}")
        return
    yield Candidate(
        name="data-dependent",
        loss=table.upper,
        make=_optimal(request, epsilon, delta),
        epsilon=epsilon,
        delta=delta,
        note="optimised for the bounds and the prior",
    )
    yield Bound(value=whole.lower, additive=False, note="every mechanism within the bounds")


def _solved(request: Request, epsilon: float, delta: float) -> BoundedTable:
    assert request.bounds is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        return solve_bounded(
            epsilon,
            delta,
            sensitivity=request.sensitivity,
            range=request.bounds,
            loss=request.loss,
            prior=request.prior,
            integer=request.integer,
            gap=request.gap if request.integer else max(request.gap, _REAL_GAP),
        )


def _optimal(request: Request, epsilon: float, delta: float) -> Call:
    arguments: dict[str, Any] = {"d_in": request.distance, "d_out": budget(epsilon, delta)}
    arguments |= {"range": request.ends, "loss": request.loss}
    if request.prior is not None:
        arguments["prior"] = request.prior
    return Call("opendp_optimal.measure.bounded:make_optimal_bounded_noise", arguments)
