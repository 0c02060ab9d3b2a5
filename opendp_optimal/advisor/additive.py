"""The core's own candidates that add noise, whatever the answer."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

from opendp_optimal import known
from opendp_optimal.advisor.request import (
    Bound,
    Call,
    Candidate,
    Noise,
    Proposal,
    Remark,
    Request,
    budget,
)
from opendp_optimal.budget import shares as accounting
from opendp_optimal.errors import CertificateError, GapWarning, SolverError
from opendp_optimal.exact.numbers import float_down, float_up
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.measure.closed import WIDEST_DISCRETE
from opendp_optimal.problem.noise import MIN_EPSILON
from opendp_optimal.search import noise as engine
from opendp_optimal.search.sizing import integer_sensitivity
from opendp_optimal.table import NoiseTable

Made = TypeVar("Made")
TIGHT = "calibrated exactly: compose() prices them so; OpenDP's own conversion from zCDP says more"
LONG_STAIRCASE = 2e-3
"""Below this epsilon noise is so long that its table takes seconds; its loss is known without."""
FEW_GROWTHS = (1.08, 1.17, 1.27, 1.38, 1.5)
"""By what part tables are tried beyond what general composition allows."""


def additive_candidates(request: Request) -> Iterator[Proposal]:
    """Laplace, staircase, Gaussian, canonical and optimised noise.

    :param request: what is asked
    """
    yield from _laplace(request)
    yield from _staircase(request)
    if request.delta > 0:
        yield _gaussian(request)
        if request.releases > 1:
            yield from _concentrated_gaussian(request)
        if not request.integer:
            yield _canonical(request)
        yield from _table(request)


def _laplace(request: Request) -> Iterator[Candidate]:
    size = int(request.sensitivity) if request.integer else None
    each = accounting.laplace_share(request.epsilon, request.delta, request.releases, size)
    scale = float_up(Fraction(request.sensitivity) / Fraction(each))
    law = known.Geometric(each / request.sensitivity) if request.integer else known.Laplace(each)
    yield Candidate(
        name="discrete laplace" if request.integer else "laplace",
        loss=law.expected_loss(request.loss, 1.0 if request.integer else request.sensitivity),
        make=_opendp("laplace", scale=scale),
        epsilon=each,
        noise=Noise("laplace", scale),
    )


def _staircase(request: Request) -> Iterator[Proposal]:
    each = accounting.epsilon_share(request.epsilon, request.delta, request.releases)
    # Pure tables are made for the two losses whose best staircase is known.
    optimal = request.loss.endless
    shape = request.loss.like
    if MIN_EPSILON <= each < LONG_STAIRCASE and not request.integer:
        loss = _staircase_loss(each, request)
    else:
        table = _solved(each, 0.0, shape, request)
        if isinstance(table, str):
            yield missing("staircase", table)
            return
        loss = _table_loss(table, request)
    yield Candidate(
        name="staircase",
        loss=loss,
        make=optimal_noise(request, each, 0.0, loss_of(shape)),
        epsilon=each,
        note="optimal pure noise" if optimal else "",
    )
    if request.delta == 0 and optimal:
        whole = _solved(request.epsilon, 0.0, shape, request)
        if not isinstance(whole, str):
            yield from _bound(whole, request)


def _staircase_loss(epsilon: float, request: Request) -> float:
    loss, unit = request.loss, request.sensitivity
    return known.expected_loss("staircase", epsilon, 0.0, loss, unit=unit)


def missing(name: str, reason: str) -> Remark:
    """Say that a candidate is not there, and why."""
    return Remark(text=f"{name} was not computed: {reason}")


def _gaussian(request: Request) -> Candidate:
    epsilon, delta, count = request.epsilon, request.delta, request.releases
    sigma = accounting.gaussian_scale(epsilon, delta, count) * request.sensitivity
    discrete = request.integer and sigma <= WIDEST_DISCRETE
    if discrete:
        sigma = accounting.discrete_gaussian_scale(epsilon, delta, count, int(request.sensitivity))
        loss = known.DiscreteGaussian(sigma).expected_loss(request.loss)
    elif request.integer:  # real noise, rounded
        loss = known.Gaussian(sigma).rounded().expected_loss(request.loss)
    else:
        loss = known.Gaussian(1.0).expected_loss(request.loss, sigma)
    if count == 1:
        exact = exact_gaussian(request.distance, (epsilon, delta))
    elif discrete:  # by its own name, so that its whole curve is known
        exact = _opendp("gaussian", scale=sigma)
    else:
        exact = exact_gaussian(request.distance, float_down(rho_of(request.sensitivity, sigma)))
    return Candidate(
        name="gaussian",
        loss=loss,
        make=exact,
        epsilon=epsilon,
        delta=delta,
        noise=Noise("gaussian", sigma),
        note="" if count == 1 else TIGHT,
        together=count > 1,
    )


def rho_of(distance: float, sigma: float) -> Fraction:
    """What Gaussian noise costs under zCDP."""
    return (Fraction(distance) / Fraction(sigma)) ** 2 / 2


def exact_gaussian(d_in: float, d_out: Any, **more: Any) -> Call:
    """The call of :func:`make_exact_gaussian`."""
    place = "opendp_optimal.measure.gaussian:make_exact_gaussian"
    return Call(place, {"d_in": d_in, "d_out": d_out, **more})


def _concentrated_gaussian(request: Request) -> Iterator[Candidate]:
    """Several Gaussian releases as OpenDP itself prices them."""
    epsilon, delta = request.epsilon, request.delta
    rho = accounting.concentrated_share(epsilon, delta, request.releases)
    if rho == 0:
        return
    sigma = request.sensitivity / math.sqrt(2 * rho) * (1 + 1e-12)
    law = known.DiscreteGaussian(sigma) if request.integer else known.Gaussian(sigma)
    yield Candidate(
        name="gaussian by zCDP",
        loss=law.expected_loss(request.loss),
        make=_opendp("gaussian", scale=sigma),
        epsilon=epsilon,
        delta=delta,
        note="OpenDP's own composition and conversion from zCDP price them so",
        together=True,
    )


def _canonical(request: Request) -> Candidate:
    epsilon, delta = accounting.share(request.epsilon, request.delta, request.releases)
    return Candidate(
        name="canonical",
        loss=known.Tulap(epsilon, delta).expected_loss(request.loss, request.sensitivity),
        make=_opendp("canonical_noise", d_in=request.distance, d_out=(epsilon, delta)),
        epsilon=epsilon,
        delta=delta,
    )


def _table(request: Request) -> Iterator[Proposal]:
    loss = request.loss.scaled(1.0 if request.integer else request.sensitivity)
    whole = _solved(request.epsilon, request.delta, loss, request)
    if isinstance(whole, str):
        yield missing("optimal table", whole)
        return
    epsilon, delta = accounting.share(request.epsilon, request.delta, request.releases)
    best = _solved(epsilon, delta, loss, request)  # of a single release it is the same
    if isinstance(best, str):
        yield missing("optimal table", best)
        yield from _bound(whole, request)
        return
    for growth in FEW_GROWTHS if 2 < request.releases <= accounting.MOST_TIGHT else ():
        more = _solved(epsilon * growth, delta, loss, request)
        if isinstance(more, str) or not _fits(more, request):
            break
        best = more
    yield Candidate(
        name="optimal table",
        loss=_table_loss(best, request),
        make=optimal_noise(request, best.epsilon, delta, request.loss),
        epsilon=best.epsilon,
        delta=delta,
        noise=Noise("table", 1.0 if best.kind == "integer" else request.sensitivity, best),
        note=f"certified within {best.gap:.2%} of the best noise",
    )
    yield from _bound(whole, request)


def _bound(table: NoiseTable, request: Request) -> Iterator[Bound]:
    """What a table proves of all noise; for several releases, of each of them alone."""
    if request.integer and table.kind != "integer":
        return  # real noise must hide more
    power = 0 if table.kind == "integer" else request.loss.power
    value = float_down(Fraction(table.lower) * Fraction(request.sensitivity) ** power)
    note = "all additive noise" + (", each release alone" if request.releases > 1 else "")
    yield Bound(value=value, additive=True, note=note)


def _solved(epsilon: float, delta: float, loss: str | Loss, request: Request) -> NoiseTable | str:
    """A table for a share of the budget, or why there is none."""
    if request.releases > accounting.MOST_TIGHT and epsilon < LONG_STAIRCASE:
        return (
            f"with {request.releases} releases the epsilon of each ({epsilon:.3g}) is below "
            f"{LONG_STAIRCASE:g}, where a table takes long to solve"
        )
    whole = None
    if request.integer:
        whole = integer_sensitivity(epsilon, request.sensitivity)
        if whole is None and isinstance(loss, Loss):
            loss = loss.scaled(request.sensitivity)
    return _solved_once(epsilon, delta, loss, whole, request.gap)


@lru_cache(maxsize=512)
def _solved_once(
    epsilon: float, delta: float, loss: str | Loss, whole: int | None, gap: float
) -> NoiseTable | str:
    asked: dict[str, Any] = {"loss": loss, "integer_sensitivity": whole, "gap": gap}
    return attempted(lambda: engine.solve(epsilon, delta, **asked))


def attempted(make: Callable[[], Made]) -> Made | str:
    """What is made, whatever its gap, or why it cannot be."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GapWarning)
            return make()
    except (ValueError, ArithmeticError, LookupError, SolverError, CertificateError) as error:
        return str(error) or type(error).__name__


def _fits(table: NoiseTable, request: Request) -> bool:
    """Whether so many releases from a table stay within the budget, by their exact profile."""
    from opendp_optimal.measure.compose import compose

    try:
        _, delta = compose([table] * request.releases, epsilon=request.epsilon)
    except ImportError:  # pragma: no cover (an extra)
        return False
    return delta <= request.delta


def _table_loss(table: NoiseTable, request: Request) -> float:
    """The expected loss of a table's noise in the query's units."""
    loss = request.loss
    unit = 1.0 if table.kind == "integer" else request.sensitivity
    if loss.power:
        # Noise without end is symmetric and knows two losses; pinball losses are half of l1 there.
        exact = table.tail is None
        mean = table.mean_loss(loss) if exact else loss.even * table.mean_loss(loss.like)
        return mean * float(unit**loss.power)
    if table.tail is None:
        return table.mean_loss(loss.scaled(unit))
    if table.kind == "real":
        return _staircase_loss(table.epsilon, request)
    if table.cells == 1:
        return known.Geometric(table.epsilon).expected_loss(loss)
    return math.inf


def _opendp(name: str, **arguments: Any) -> Call:
    return Call(f"opendp.measurements:make_{name}", arguments)


def optimal_noise(request: Request, epsilon: float, delta: float, loss: Loss) -> Call:
    """The call of :func:`make_optimal_noise`."""
    arguments = {"d_in": request.distance, "d_out": budget(epsilon, delta), "loss": loss}
    return Call("opendp_optimal.measure.noise:make_optimal_noise", arguments)
