"""The core's own candidates for vectors, for several queries at once, and under zCDP."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from opendp_optimal import known
from opendp_optimal.advisor.additive import (
    additive_candidates,
    attempted,
    exact_gaussian,
    missing,
    optimal_noise,
)
from opendp_optimal.advisor.request import Call, Candidate, Proposal, Remark, Request, budget
from opendp_optimal.budget import shares as accounting
from opendp_optimal.exact.numbers import float_down, float_up
from opendp_optimal.measure import dp
from opendp_optimal.measure.closed import gaussian_for_delta, gaussian_for_rho, laplace_for_rho
from opendp_optimal.measure.concentrated import pure_epsilon
from opendp_optimal.measure.guarantee import Guarantee
from opendp_optimal.measure.joint_noise import Part, best_joint
from opendp_optimal.measure.noise import best_guarantee
from opendp_optimal.measure.space import Space
from opendp_optimal.measure.vector import VectorGuarantee
from opendp_optimal.problem.noise import MAX_EPSILON, MIN_EPSILON

TABLE = 20
"""So many numbers are worth a posterior."""


def wide_candidates(request: Request) -> Iterator[Proposal]:
    """What answers more than one number, or is measured by zCDP.

    :param request: what is asked
    """
    if request.queries > 1:
        yield from _tried("joint", lambda: _joint(request))
        alone = replace(request, queries=1, releases=request.releases * request.queries)
        yield from wide_candidates(alone) if alone.wide else additive_candidates(alone)
        yield Remark(
            text="a count and means of the same rows cost no more than the count: "
            "make_optimal_means(...), opendp_optimal.optimal(query) for Polars queries, and "
            "opendp_optimal_warehouse of the plugin warehouse for rows in a database"
        )
    elif request.rho is not None:
        yield from _concentrated(request)
    else:
        yield from _vector(request)
    if request.length is not None and request.length >= TABLE and request.queries == 1:
        yield Remark(
            text="vectors as long as this are tables: opendp_optimal_bayes.posterior(released, "
            "noise) of the plugin bayes estimates their numbers from the release, at no cost, for "
            "less error than noise alone has"
        )


def _tried(name: str, make: Callable[[], Candidate]) -> Iterator[Proposal]:
    """A candidate, or why there is none."""
    found = attempted(make)
    yield missing(name, found) if isinstance(found, str) else found


def _space(request: Request) -> Space:
    carrier = "i32" if request.integer else "f64"
    if request.length is None:
        return Space(carrier, "absolute")
    return Space(carrier, request.norm, request.length)


def _vector(request: Request) -> Iterator[Proposal]:
    """Laplace and Gaussian noise beside the best that is known for vectors."""
    space, size, loss = _space(request), request.length or 1, request.loss
    epsilon, delta = accounting.share(request.epsilon, request.delta, request.releases)
    if request.norm == "l1":
        each = accounting.epsilon_share(request.epsilon, request.delta, request.releases)
        scale = float_up(Fraction(request.sensitivity) / Fraction(each))
        law = known.Geometric(1 / scale) if request.integer else known.Laplace(1 / scale)
        yield Candidate(
            name="discrete laplace" if request.integer else "laplace",
            loss=size * law.expected_loss(loss),
            make=Call("opendp.measurements:make_laplace", {"scale": scale}),
            epsilon=each,
        )
    if request.delta > 0:
        yield from _tried("gaussian", lambda: _gaussian(request, space, size))

    def optimal() -> Candidate:
        best = best_guarantee(space, request.distance, epsilon, delta, loss, request.gap)
        return Candidate(
            name=_name(best),
            loss=_loss(best, request, size),
            make=optimal_noise(request, epsilon, delta, loss),
            epsilon=epsilon,
            delta=delta,
            note="the best of radial noise, Laplace noise and tables",
        )

    yield from _tried("optimal noise", optimal)


def _gaussian(request: Request, space: Space, size: int) -> Candidate:
    epsilon, delta, count = request.epsilon, request.delta, request.releases
    if count == 1:
        noise = gaussian_for_delta(space, request.distance, epsilon, delta)
        make = exact_gaussian(request.distance, (epsilon, delta))
    else:
        rho = accounting.concentrated_share(epsilon, delta, count)
        if rho == 0:
            raise ValueError(f"epsilon ({epsilon}) is too small for the conversion from zCDP")
        noise = gaussian_for_rho(space, request.distance, rho)
        make = exact_gaussian(request.distance, rho)
    return Candidate(
        name="gaussian",
        loss=size * noise.law.expected_loss(request.loss),
        make=make,
        epsilon=epsilon,
        delta=delta,
        note=""
        if count == 1
        else "OpenDP's own composition and conversion from zCDP price them so",
        together=count > 1,
    )


def _name(best: Guarantee | VectorGuarantee) -> str:
    return best.chosen if isinstance(best, VectorGuarantee) else "optimal table"


def _loss(best: Guarantee | VectorGuarantee, request: Request, size: int) -> float:
    if isinstance(best, VectorGuarantee):
        return math.inf if best.expected_loss is None else best.expected_loss
    return size * best.law().expected_loss(request.loss)


def _concentrated(request: Request) -> Iterator[Proposal]:
    """Gaussian and Laplace noise and tables, each at its own price under zCDP."""
    assert request.rho is not None
    space, size, loss = _space(request), request.length or 1, request.loss
    d_in, count = request.distance, request.releases
    rho = float_down(Fraction(request.rho) / count)
    delta = float_down(Fraction(request.delta) / count)
    fixed = (rho, 0.0) if delta else rho
    measure = dp.approximate(dp.zero_concentrated_divergence())

    def gaussian() -> Candidate:
        more = {"output_measure": measure} if delta else {}
        noise = gaussian_for_rho(space, d_in, rho)
        made = exact_gaussian(d_in, fixed, **more)
        value = size * noise.law.expected_loss(loss)
        return Candidate(name="gaussian", loss=value, make=made, epsilon=math.inf)

    def laplace() -> Candidate:
        noise = laplace_for_rho(space, d_in, rho)
        return Candidate(
            name="laplace",
            loss=noise.law.expected_loss(loss),
            make=_of_kind("laplace", d_in=d_in, d_out=fixed),
            epsilon=float_up(Fraction(noise.rate) * noise.moved(d_in)),
            note="real Laplace noise at its own price, rounded",
        )

    def table() -> Candidate:
        epsilon = min(pure_epsilon(rho), MAX_EPSILON)
        if epsilon < MIN_EPSILON:
            raise ValueError(f"the epsilon that costs rho ({rho:.3g}) is below {MIN_EPSILON:g}")
        best = best_guarantee(space, d_in, epsilon, delta, loss, request.gap)
        return Candidate(
            name=_name(best) if space.vector else "optimal table" if delta else "staircase",
            loss=_loss(best, request, size),
            make=_of_kind("table", d_in=d_in, d_out=budget(rho, delta), loss=loss),
            epsilon=epsilon,
            delta=delta,
            note="its epsilon costs epsilon * tanh(epsilon / 2) under zCDP",
        )

    yield from _tried("gaussian", gaussian)
    if not space.vector:
        yield from _tried("laplace", laplace)
    yield from _tried("optimal noise", table)


def _of_kind(kind: str, **arguments: Any) -> Call:
    place = "opendp_optimal.measure.noise:make_concentrated_noise"
    return Call(place, {**arguments, "kind": kind})


def _joint(request: Request) -> Candidate:
    """Noise for all queries at once."""
    one = _space(replace(request, queries=1))
    parts = (Part(one, 1, Fraction(request.sensitivity)),) * request.queries
    arguments: dict[str, Any] = {"d_in": request.distance}
    if request.rho is None:
        epsilon, delta = accounting.share(request.epsilon, request.delta, request.releases)
        rho, d_out, more = None, budget(epsilon, delta), ""
    else:
        rho = float_down(Fraction(request.rho) / request.releases)
        delta = float_down(Fraction(request.delta) / request.releases)
        epsilon, d_out = pure_epsilon(rho), budget(rho, delta)
        more = ", output_measure=dp.zero_concentrated_divergence()"
        inner = dp.zero_concentrated_divergence()
        arguments["output_measure"] = dp.approximate(inner) if delta else inner
    place = "opendp_optimal.measure.joint:make_joint_coordinates"
    weights = [1.0] * request.queries
    best = best_joint(parts, epsilon, delta, request.distance, weights, rho=rho)
    loss = math.fsum(best.expected_losses) / request.queries * request.sensitivity**2
    return Candidate(
        name="joint",
        loss=loss,
        make=Call(place, {**arguments, "d_out": d_out}),
        constructor=f"opendp_optimal.make_joint(transformations, d_in, d_out={d_out!r}{more})",
        epsilon=best.epsilon,
        delta=best.delta,
        note=f"all queries at once: {best.chosen}",
        together=True,
    )
