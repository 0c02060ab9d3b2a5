"""What this plugin proposes to the advisor: noise within bounds, as it is and remapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from opendp_optimal.extend import (
    Bound,
    Candidate,
    Noise,
    Proposal,
    Remark,
    Request,
    additive_candidates,
    known,
)
from opendp_optimal_bayes.grid import MOST_PARTS, Law
from opendp_optimal_bayes.measure import make_bounded_geometric, make_bounded_laplace
from opendp_optimal_bayes.remapping import clamp, decision_rule, remap

MARGIN = 1e-9
"""By what part a bound is stated below what was computed: far above the errors of floats there."""
TABLE = 20
"""As many counts are worth a posterior."""


def within_bounds(request: Request) -> Iterator[Proposal]:
    """Bounded geometric and Laplace noise, clamped Gaussian and optimised noise, with remaps.

    :param request: what is asked
    """
    if request.integer and request.releases >= TABLE:
        yield Remark(
            text="these many counts are a table: opendp_optimal_bayes.posterior(released, noise) "
            "estimates its cells from the release, at no cost, for less error than noise alone has"
        )
    if request.bounds is None or request.size > MOST_PARTS:
        return
    if not request.in_floats(request.bounds[1] - request.bounds[0]):
        yield Remark(
            text=f"noise within bounds ({request.bounds[0]:g}, {request.bounds[1]:g}) was not "
            f"compared: floats do not hold the {request.loss.name} loss of their distance"
        )
        return
    for added in additive_candidates(replace(request, bounds=None, prior=None)):
        if isinstance(added, Candidate) and added.noise is not None:
            yield from _pair(request, added, added.noise)


def _pair(request: Request, added: Candidate, noise: Noise) -> Iterator[Proposal]:
    first, last = request.ends
    law = Law(Fraction(first), Fraction(last), request.integer, _law(noise, request.integer))
    if not law.fine:
        return  # the noise is so small that the bounds do not matter
    rule = decision_rule(law, request.prior, request.loss)
    ends = f"{first!r}, {last!r}"
    loss = request.loss.spelling
    name = f"clamped {noise.kind}"
    prior = "None" if request.prior is None else "prior"
    if noise.kind == "laplace":
        kind = "geometric" if request.integer else "laplace"
        name = f"bounded {kind}"
        per_unit = added.epsilon / request.sensitivity
        made = (
            f"opendp_optimal_bayes.make_bounded_{kind}(input_domain, input_metric, "
            f"{ends}, epsilon={per_unit!r})"
        )
        bounded: Any = make_bounded_geometric if request.integer else make_bounded_laplace
        make: Any = partial(bounded, lo=first, hi=last, epsilon=per_unit)
        clamped, kept, bounds, limits = made, make, "", None
    else:
        made, make, limits = added.constructor, added.make, (first, last)
        clamped, bounds = f"{made} >> opendp_optimal_bayes.clamp({ends})", f", bounds=({ends})"
        kept = _followed(make, lambda: clamp(first, last))
    optimal = _optimal(request, noise)
    least = geometric_optimum(request, law) if optimal else 0.0
    added = replace(added, noise=None)
    yield replace(added, name=name, loss=max(rule.before, least), make=kept, constructor=clamped)
    yield replace(
        added,
        name=f"{name} + remap",
        loss=max(rule.after, least),
        make=_followed(make, lambda: remap(request.prior, request.loss, bounds=limits)),
        constructor=f"{made} >> opendp_optimal_bayes.remap({prior}, {loss}{bounds})",
        note="post-processed for the prior and the loss",
    )
    if optimal:
        note = "every mechanism within the bounds, by a theorem (Ghosh, Roughgarden, Sundararajan)"
        yield Bound(value=least * (1 - MARGIN), additive=False, note=note)


def geometric_optimum(request: Request, law: Law) -> float:
    """The expected loss of geometric noise with the best remap, to a part in 10^10.

    All numbers are positive and none is a difference: every product and sum of at most
    ``MOST_PARTS`` terms is off by less than a part in 10^12, and so is the least of some sums. What
    is too small for a float counts as 0, which is below.

    :param request: integers within bounds at sensitivity 1, pure privacy, loss l1 or l2
    :param law: of any noise within these bounds
    """
    exact = replace(law, noise=known.Geometric(request.epsilon))
    return decision_rule(exact, request.prior, request.loss).after


def _optimal(request: Request, noise: Noise) -> bool:
    """Whether geometric noise with a remap is known to be the best there is."""
    return (
        noise.kind == "laplace"
        and request.integer
        and request.sensitivity == 1
        and request.delta == 0
        and request.releases == 1
        and request.loss.symmetric
        and request.loss.power > 0
    )


def _law(noise: Noise, integer: bool) -> known.Law:
    if noise.table is not None:
        return noise.table.law(noise.scale)
    if noise.kind == "laplace":
        return (known.Geometric if integer else known.Laplace)(1.0 / noise.scale)
    return (known.DiscreteGaussian if integer else known.Gaussian)(noise.scale)


def _followed(make: Callable[..., Any], step: Callable[[], Any]) -> Callable[..., Any]:
    """A constructor whose measurement is post-processed."""
    return lambda input_domain, input_metric: make(input_domain, input_metric) >> step()
