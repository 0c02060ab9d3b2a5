"""``advise``: compute, compare, rank, and say what to call."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from opendp_optimal.advisor.request import Bound, Candidate, Proposal, Remark, Request
from opendp_optimal.arrays import Progress, html_rows
from opendp_optimal.losses.base import Loss, loss_of

MOST_COUNTED = 4096
"""Up to how many releases the Gaussian is waited for."""


@dataclass(frozen=True)
class Advice:
    """Every mechanism that satisfies a request, the best first, and what nothing can beat.

    :param request: what was asked
    :param ranking: candidates by expected loss, but the best pure one first where it is as good
        within the certified gap of the best: a delta that buys nothing should not be spent
    :param bounds: lower bounds, each proved over the mechanisms it names
    :param remarks: what could not be compared, and why
    :param failures: plugins whose candidates could not be computed, and why
    """

    request: Request
    ranking: tuple[Candidate, ...]
    bounds: tuple[Bound, ...]
    remarks: tuple[Remark, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate:
        """The first of the ranking."""
        return self.ranking[0]

    @property
    def lower(self) -> float | None:
        """The largest lower bound that covers every candidate; None if there is none.

        With bounds on the answers, what is known of additive noise does not cover the others. The
        note of each bound says if it rests on a theorem instead of a certificate.
        """
        covers = [b.value for b in self.bounds if not b.additive or self.request.bounds is None]
        return max(covers, default=None)

    @cached_property
    def gaussian_from(self) -> int | None:
        """From how many releases on, under the same budget, Gaussian noise is the best to add.

        Compared with the other noise that is added whatever the answer. None for pure privacy, for
        vectors, joint queries and zCDP, and where it does not win up to 4096 releases.
        """
        from opendp_optimal.advisor.additive import additive_candidates

        if self.request.delta == 0 or self.request.wide:
            return None

        def wins(count: int) -> bool:
            asked = replace(self.request, releases=count, bounds=None, prior=None)
            found = [c for c in additive_candidates(asked) if isinstance(c, Candidate)]
            losses = {c.name: c.loss for c in found}
            return losses["gaussian"] <= min(losses.values())

        high = 1
        while not wins(high):
            if high >= MOST_COUNTED:
                return None
            high *= 2
        return bisect_left(range(high), True, lo=high // 2 + 1, key=wins)

    def candidate(self, name: str) -> Candidate:
        """Look a candidate up by name.

        :param name: as in the ranking
        """
        for candidate in self.ranking:
            if candidate.name == name:
                return candidate
        known = ", ".join(c.name for c in self.ranking)
        raise ValueError(f"name ({name!r}) must be one of {known}")

    def __repr__(self) -> str:
        """One line: what was asked, and the best."""
        request, best = self.request, self.best
        target = f"epsilon={request.epsilon:g}" if request.rho is None else f"rho={request.rho:g}"
        return (
            f"Advice({target}, delta={request.delta:g}, best={best.name!r}, "
            f"expected loss {best.loss:.6g}, of {len(self.ranking)} candidates)"
        )

    def _repr_html_(self) -> str:
        """The ranking as a table, for notebooks."""
        rows = [("mechanism", "expected loss", "call")]
        rows += [(c.name, f"{c.loss:.6g}", c.constructor) for c in self.ranking]
        return html_rows(rows)

    def as_dict(self) -> dict[str, Any]:
        """The advice as plain values, for JSON."""
        request = self.request
        return {
            "epsilon": request.epsilon if request.rho is None else None,
            "rho": request.rho,
            "delta": request.delta,
            "size": request.length,
            "norm": None if request.length is None else request.norm,
            "queries": request.queries,
            "sensitivity": request.sensitivity,
            "integer": request.integer,
            "bounds": None if request.bounds is None else list(request.bounds),
            "loss": request.loss.name,
            "releases": request.releases,
            "best": self.best.name,
            "lower": self.lower,
            "gaussian_from": self.gaussian_from,
            "candidates": [
                {
                    "name": c.name,
                    "loss": c.loss,
                    "ratio": c.loss / self.best.loss if self.best.loss > 0 else None,
                    "epsilon": c.epsilon if math.isfinite(c.epsilon) else None,
                    "delta": c.delta,
                    "together": c.together,
                    "constructor": c.constructor,
                    "note": c.note,
                    "by": c.by,
                }
                for c in self.ranking
            ],
            "bounds_proved": [asdict(bound) for bound in self.bounds],
            "remarks": [r.text for r in self.remarks],
            "failures": list(self.failures),
        }

    def __str__(self) -> str:
        """The ranking, one line for each candidate."""
        width = max(len(c.name) for c in self.ranking)
        return "\n".join(f"{c.name.ljust(width)}  {c.loss:.6g}" for c in self.ranking)


def advise(
    epsilon: float | None = None,
    delta: float = 0.0,
    sensitivity: float = 1.0,
    *,
    integer: bool = False,
    bounds: tuple[float, float] | None = None,
    loss: str | Loss | Callable[[float], float] = "l1",
    prior: Sequence[float] | None = None,
    releases: int = 1,
    rho: float | None = None,
    size: int | None = None,
    norm: str = "l2",
    queries: int = 1,
    gap: float = 1e-3,
    progress: Progress | None = None,
) -> Advice:
    """Which mechanism to use: the expected loss of every one that applies, the best first.

    Candidates come from the package itself and, for single numbers under epsilon and delta, from
    every installed plugin. Each one names the call that makes it. Several releases under one budget
    are compared under tight accounting.

    :param epsilon: privacy loss of all releases together
    :param delta: chance of a larger one; 0 for pure privacy
    :param sensitivity: how far the answers of neighbouring data can be apart
    :param integer: whether the query answers integers
    :param bounds: smallest and largest answer, where they are known: worth up to a third of the
        error on small ranges
    :param loss: of the error: "l1", "l2", "pinball:LEVEL", a registered name, a function or a
        ``Loss``, in the units of the query
    :param prior: chances of the answers within the bounds: of each integer, or of equal parts of
        a real range; uniform by default
    :param releases: how many such releases share the budget
    :param rho: in place of epsilon, the loss under zCDP of all releases together
    :param size: length of vectors, where the query answers vectors; losses are then sums
    :param norm: in which the sensitivity of vectors is measured: "l1", "l2" or "linf"
    :param queries: how many such queries are asked together: then noise for all of them at once is
        a candidate, and losses are those of each query
    :param gap: largest acceptable certified gap of optimised tables
    :param progress: called with a line of text at each step
    :raises ValueError: for a bad argument, and where no mechanism satisfies the request

    >>> from opendp_optimal import advise
    >>> advice = advise(epsilon=3.0, delta=1e-5)
    >>> [c.name for c in advice.ranking]
    ['staircase', 'optimal table', 'canonical', 'laplace', 'gaussian']
    >>> advice.lower <= advice.best.loss <= advice.lower * 1.001
    True
    >>> advise(epsilon=1.0, delta=1e-6, loss="l2", releases=100).best.name
    'gaussian'
    >>> advise(1.0, 1e-6, size=10, norm="l2", loss="l2").best.name
    'exponential decay in the l2 norm'
    """
    if epsilon is None and rho is None:
        raise ValueError("give one of epsilon (None) and rho (None)")
    request = Request(
        epsilon=math.inf if epsilon is None else epsilon,
        delta=delta,
        sensitivity=sensitivity,
        integer=integer,
        bounds=bounds,
        loss=loss_of(loss),
        prior=None if prior is None else tuple(prior),
        releases=releases,
        gap=gap,
        rho=rho,
        length=size,
        norm=norm,
        queries=queries,
    )
    found, failures = _collect(request, progress or (lambda _: None))
    candidates = [c for c in found if isinstance(c, Candidate) and math.isfinite(c.loss)]
    proved = tuple(b for b in found if isinstance(b, Bound))
    remarks = tuple(r for r in found if isinstance(r, Remark))
    if not candidates:
        target = f"epsilon ({epsilon})" if rho is None else f"rho ({rho})"
        reason = (
            "; ".join([*failures, *(r.text for r in remarks)])
            or "the share of each release may be too small"
        )
        raise ValueError(
            f"no mechanism satisfies {target} and delta ({request.delta}) with "
            f"releases ({request.releases}) and loss ({request.loss.name}): {reason}"
        )
    ranking = sorted(candidates, key=lambda c: (c.loss, c.name))
    if request.releases == 1:
        _prefer_pure(ranking)
    return Advice(request, tuple(ranking), proved, remarks, tuple(failures))


def _prefer_pure(ranking: list[Candidate]) -> None:
    """Move pure noise to the front if the certificate of the best does not tell them apart."""
    best = ranking[0]
    if best.delta == 0 or best.noise is None or best.noise.table is None:
        return
    most = best.loss * (1 + best.noise.table.gap)
    pure = next((c for c in ranking if c.delta == 0 and c.loss <= most), None)
    if pure is not None:
        ranking.remove(pure)
        why = "delta is not needed: within the certified gap of the best"
        ranking.insert(0, replace(pure, note="; ".join(filter(None, (pure.note, why)))))


def _collect(request: Request, progress: Progress) -> tuple[list[Proposal], list[str]]:
    """Ask every plugin; one that fails is named and left out."""
    from opendp_optimal import plugins

    if request.wide:  # plugins know single numbers under epsilon and delta
        from opendp_optimal.advisor.wide import wide_candidates

        return [replace(item, by="opendp-optimal") for item in wide_candidates(request)], []
    found: list[Proposal] = []
    failures: list[str] = []
    for added in plugins.load().candidates.values():
        progress(added.name.replace("_", " "))
        try:
            own = list(added.value(request))
            for item in own:
                if not isinstance(item, Proposal):
                    raise TypeError(f"a {type(item).__name__} is no Candidate, Bound or Remark")
        except Exception as error:
            failures.append(f"{added.name} of {added.distribution}: {error}")
        else:
            found += [replace(item, by=added.distribution) for item in own]
    return found, failures
