"""The interior-point method: one predictor-corrector loop, and weights under budgets in it.

Mehrotra's predictor and corrector, then one of Gondzio's centrality correctors. Every iterate is
strictly feasible for both problems, but for equations that a start may miss, so that stopping
early still yields a mechanism and a bound.

The loop follows any Newton system. A step asks it four times, so that the one of weights under
budgets lives beside the loop: for a fixed shift the slack variables enter it as a diagonal plus
the budget row, and are eliminated in closed form. What is left couples p only within ``cells``
neighbours: a *banded* positive definite matrix, bordered by one row for each budget, the atom and
the total mass. A step costs O(points * cells^2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import (
    LinAlgError,
    cho_solve,
    cho_solve_banded,
    cholesky,
    cholesky_banded,
    lu_solve,
)
from scipy.linalg.lapack import dgetrf

from opendp_optimal.arrays import Floats, Progress
from opendp_optimal.errors import SolverError
from opendp_optimal.model.noise import Budgeted
from opendp_optimal.model.work import Work, step_seconds

_LOW, _HIGH = 0.1, 10.0
"""Complementarity products are pulled into this part of their mean."""
_END = 1e-3
"""Relative gaps from which on steps that lead nowhere are put down to rounding."""
_CAREFUL = 1.5
"""How much more work a careful step is."""
_BEYOND = 0.3
"""How far beyond a step the centrality corrector looks."""


@dataclass
class Iterate:
    """A primal-dual pair: parts that stay positive, two by two, and the prices of equations."""

    primal: tuple[Floats, ...]
    dual: tuple[Floats, ...]
    theta: Floats

    def moved(self, step: Iterate, along_primal: float, along_dual: float) -> Iterate:
        """Some way along a step."""
        return Iterate(
            tuple(a + along_primal * d for a, d in zip(self.primal, step.primal, strict=True)),
            tuple(a + along_dual * d for a, d in zip(self.dual, step.dual, strict=True)),
            self.theta + along_dual * step.theta,
        )


class NewtonSystem(Protocol):
    """What the loop needs of a programme."""

    seconds: float
    """Work of a step."""

    def factor(self, x: Iterate) -> None:
        """Factor the Newton matrix at an iterate."""

    def direction(self, x: Iterate, target: tuple[Floats, ...]) -> Iterate:
        """The Newton step that changes the complementarity products by ``target``."""

    def value(self, x: Iterate) -> float:
        """The primal value."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How boldly to go, and when to stop.

    :param to_boundary: part of the way to the boundary that a step takes
    :param centring: the least part of the mean product that is aimed at
    :param limit: steps, at most
    :param patience: steps without progress, at most
    :param progress: the gap must fall to this part of the best for a step to count as progress
    :param again: after two steps without progress, solve every Newton system a second time, for
        what rounding left missing (where starts meet all equations)
    """

    to_boundary: float
    centring: float
    limit: int
    patience: int
    progress: float
    again: bool = False


def _dot(left: tuple[Floats, ...], right: tuple[Floats, ...]) -> float:
    return float(sum(np.vdot(a, b) for a, b in zip(left, right, strict=True)))


def _reach(parts: tuple[Floats, ...], steps: tuple[Floats, ...]) -> float:
    """The largest multiple of the step, up to 1, that keeps every part non-negative."""
    worst = max(float((-d / x).max(initial=0.0)) for x, d in zip(parts, steps, strict=True))
    return min(1.0, 1 / worst) if worst > 0 else 1.0


def _direction(
    newton: NewtonSystem, x: Iterate, target: tuple[Floats, ...], careful: bool
) -> Iterate:
    """The Newton step; a careful one is solved a second time, for what the first one misses.

    Near the end some parts have huge weights in the Newton matrix, and rounding spoils the step.
    """
    step = newton.direction(x, target)
    if not careful:
        return step
    parts = zip(target, x.primal, x.dual, step.primal, step.dual, strict=True)
    missing = tuple(wanted - a * db - b * da for wanted, a, b, da, db in parts)
    return step.moved(newton.direction(x, missing), 1.0, 1.0)


def _step(newton: NewtonSystem, x: Iterate, pace: Pace, careful: bool) -> Iterate:
    """One step of the method."""
    primal, dual = x.primal, x.dual
    products = _dot(primal, dual)
    mean = products / sum(part.size for part in primal)
    newton.factor(x)
    guess = _direction(newton, x, tuple(-a * b for a, b in zip(primal, dual, strict=True)), careful)
    along_p, along_d = _reach(primal, guess.primal), _reach(dual, guess.dual)
    ahead = x.moved(guess, along_p, along_d)
    centring = (_dot(ahead.primal, ahead.dual) / products) ** 3
    aim = max(centring, pace.centring) * mean
    trust = along_p * along_d  # the corrector is only as good as the step it looks along
    corrected = tuple(
        aim - a * b - trust * da * db
        for a, b, da, db in zip(primal, dual, guess.primal, guess.dual, strict=True)
    )
    step = _direction(newton, x, corrected, careful)
    along_p, along_d = _reach(primal, step.primal), _reach(dual, step.dual)
    # Look a little beyond the step and pull outlying products back towards the mean.
    ahead = x.moved(step, min(1.0, along_p + _BEYOND), min(1.0, along_d + _BEYOND))
    pulled = []
    for old, a, b in zip(corrected, ahead.primal, ahead.dual, strict=True):
        change = np.clip(a * b, _LOW * aim, _HIGH * aim) - a * b
        pulled.append(old + np.maximum(change, -_HIGH * aim))
    other = _direction(newton, x, tuple(pulled), careful)
    other_p, other_d = _reach(primal, other.primal), _reach(dual, other.dual)
    if other_p + other_d > along_p + along_d:
        step, along_p, along_d = other, other_p, other_d
    return x.moved(step, pace.to_boundary * along_p, pace.to_boundary * along_d)


def follow(
    newton: NewtonSystem,
    x: Iterate,
    tolerance: float,
    pace: Pace,
    progress: Progress | None = None,
    work: Work | None = None,
) -> tuple[Iterate, str]:
    """Take steps from a start until the gap is closed, or cannot be.

    :param newton: the programme and its Newton systems
    :param x: where to start, with all parts positive
    :param tolerance: relative duality gap at which to stop
    :param pace: how boldly to go
    :param progress: called with a line of text at every step
    :param work: what may be done, no limit if None
    :returns: the last iterate, and a status: "optimal", "stalled", "breakdown" or "limit"
    """
    left, spent = work.left if work else np.inf, 0.0
    best, stalled, careful = np.inf, 0, False
    try:
        for iteration in range(pace.limit):
            relative = _dot(x.primal, x.dual) / max(abs(newton.value(x)), 1e-300)
            if relative < tolerance:
                return x, "optimal"
            stalled = 0 if relative < pace.progress * best else stalled + 1
            best = min(best, relative)
            careful = careful or (pace.again and stalled > 1 and relative < _END)
            if stalled > pace.patience:
                return x, "stalled"
            if left - spent < newton.seconds:
                return x, "limit"
            spent += newton.seconds * (_CAREFUL if careful else 1.0)
            if progress is not None:
                progress(f"step {iteration}: gap {relative:.1e}")
            try:
                with np.errstate(all="ignore"):
                    following = _step(newton, x, pace, careful)
            except (LinAlgError, ValueError):
                return x, "breakdown"
            if not all(bool(np.all(part > 0)) for part in following.primal + following.dual):
                return x, "breakdown"
            x = following
        return x, "limit"
    finally:
        if work is not None:
            work.spend(spent)


_PACE = Pace(to_boundary=0.995, centring=0.0, limit=160, patience=25, progress=0.98, again=True)
_BUDGET_PART = 0.3
"""What all budgets together are worth at the start, as a part of the loss there."""


class _Newton:
    """Operators of one programme, and its Newton systems.

    Primal parts: weights, the atom, slacks of the terms, these minus their terms, what is left of
    each budget and of each order row. Dual ones: reduced costs of the first three, then prices.
    """

    def __init__(self, program: Budgeted) -> None:
        self.program = program
        self.pairs = program.pairs
        self.n = len(program.mass)
        self.shifts = program.rows
        self.growth = float(np.exp(program.epsilon))
        self.mass = program.mass
        self.order = program.order
        self.tail = program.tail
        self.budgets = self.shifts + len(self.tail)
        # An atom, if there is one, counts in full in every budget.
        self.use = np.ones((len(program.atom_cost), self.budgets))
        self.caps = np.repeat([program.delta, program.tail_budget], [self.shifts, len(self.tail)])
        self.row_starts = np.searchsorted(self.pairs.row, np.arange(self.shifts))
        self.inside = self.pairs.second < self.n
        low = np.minimum(self.pairs.first, self.pairs.second)[self.inside]
        gap = np.abs(self.pairs.first - self.pairs.second)[self.inside]
        product = (self.order.T @ self.order).tocoo()
        order_width = np.abs(product.row - product.col).max(initial=0)
        self.width = int(max(gap.max(initial=0), order_width))
        # Blocked dense algebra wins over the banded one when the band is a good part of the whole.
        self.dense = self.n**2 < 8 * self.width * self.budgets
        width, rows = (self.n if self.dense else self.width), self.budgets
        algebra = self.n * (width**2 + 4 * width * rows + rows**2)
        self.seconds = step_seconds(len(self.pairs.first), algebra)
        self.band_index = gap * self.n + low
        # A band entry is seen twice when a point is its own mirrored shift (gap 0).
        self.band_scale = np.where(gap == 0, 2.0, 1.0) * -self.growth
        self.first_index = self.pairs.row * self.n + self.pairs.first
        self.second_index = self.pairs.row * (self.n + 1) + self.pairs.second

    def apply(self, p: Floats) -> Floats:
        """The terms p_first - e^epsilon p_second."""
        padded = np.append(p, 0.0)
        return np.asarray(padded[self.pairs.first] - self.growth * padded[self.pairs.second])

    def transpose(self, y: Floats) -> Floats:
        """The transpose of :meth:`apply`."""
        first = np.bincount(self.pairs.first, y, self.n)
        second = np.bincount(self.pairs.second, y, self.n + 1)[: self.n]
        return np.asarray(first - self.growth * second)

    def by_row(self, values: Floats) -> Floats:
        """Sums over the terms of each shift (they lie together)."""
        return np.asarray(np.add.reduceat(values, self.row_starts))

    def by_budget(self, values: Floats) -> Floats:
        """The same for each budget: no term is in those of the tails."""
        return np.concatenate([self.by_row(values), np.zeros(len(self.tail))])

    def spread(self, price: Floats) -> Floats:
        """The price of each term's shift."""
        return np.asarray(price[self.pairs.row])

    def used(self, p: Floats, s: Floats) -> Floats:
        """What the weights use of each budget."""
        return np.concatenate([self.by_row(s), self.tail @ p])

    def factor(self, x: Iterate) -> None:
        """Prepare the Newton matrix at an iterate."""
        n = self.n
        p, a, s, t, u, d = x.primal
        zp, za, zs, y, price, nu = x.dual
        self.alpha, self.beta = zs / s, y / t
        self.v = 1 / (self.alpha + self.beta)
        self.h = self.alpha * self.beta * self.v
        self.kappa = self.beta * self.v
        band = np.bincount(
            self.band_index, self.band_scale * self.h[self.inside], (self.width + 1) * n
        ).reshape(self.width + 1, n)
        second = np.bincount(self.pairs.second, self.h, n + 1)[:n]
        band[0] += np.bincount(self.pairs.first, self.h, n) + self.growth**2 * second + zp / p
        if len(d):
            product = (self.order.T * (nu / d)) @ self.order
            for offset in range(min(self.width, 4) + 1):
                band[offset, : n - offset] += product.diagonal(-offset)
        self.scale = 1 / np.sqrt(band[0])
        for offset in range(self.width + 1):
            band[offset, : n - offset] *= self.scale[: n - offset] * self.scale[offset:]
        band[0] *= 1 + 1e-14
        if self.dense:
            full = np.zeros((n, n))
            for offset in range(min(self.width, n - 1) + 1):
                np.fill_diagonal(full[offset:], band[offset, : n - offset])
            self.cholesky = cholesky(full, lower=True, overwrite_a=True, check_finite=False)
        else:
            self.cholesky = cholesky_banded(band, lower=True, check_finite=False)
        first = np.bincount(self.first_index, self.kappa, self.shifts * n).reshape(-1, n)
        second = np.bincount(self.second_index, self.kappa, self.shifts * (n + 1))
        coupling = first - self.growth * second.reshape(-1, n + 1)[:, :n]
        self.coupling = np.concatenate([coupling, self.tail])
        k = self.budgets
        self.through = self.solve_band(np.column_stack([self.coupling.T, self.mass]))
        schur = np.zeros((k + len(a) + 1, k + len(a) + 1))
        schur[:k, :k] = -self.coupling @ self.through[:, :k]
        schur[np.arange(k), np.arange(k)] -= u / price + self.by_budget(self.v)
        schur[:k, -1] = self.coupling @ self.through[:, k]
        schur[:k, k:-1] = self.use.T
        schur[k:-1, :k] = self.use
        schur[k:-1, k:-1] = np.diag(za / a)
        schur[k:-1, -1] = -1.0
        schur[-1, k:-1] = 1.0
        schur[-1, :k] = -(self.mass @ self.through[:, :k])
        schur[-1, -1] = self.mass @ self.through[:, k]
        lu, pivots, singular = dgetrf(schur)
        if singular:
            raise LinAlgError("the Newton system is singular")
        self.schur = (lu, pivots)

    def solve_band(self, right: Floats) -> Floats:
        """Solve with the scaled band matrix."""
        scale = self.scale if right.ndim == 1 else self.scale[:, None]
        backwards = cho_solve if self.dense else cho_solve_banded
        return np.asarray(
            backwards((self.cholesky, True), right * scale, check_finite=False) * scale
        )

    def value(self, x: Iterate) -> float:
        """The expected loss."""
        p, a = x.primal[:2]
        return float(self.program.cost @ p + self.program.atom_cost @ a)

    def direction(self, x: Iterate, target: tuple[Floats, ...]) -> Iterate:
        """The Newton step towards complementarity products ``target`` (as changes)."""
        p, a, s, t, _, d = x.primal
        *_, price, nu = x.dual
        rp, ra, rs, rt, ru, rd = target
        push_s, push_t = rs / s, rt / t
        e = (self.alpha * push_t - self.beta * push_s) * self.v
        lift = self.v * (push_s + push_t)
        f_p = rp / p - self.transpose(e)
        if len(d):
            f_p += self.order.T @ (rd / d)
        f_u = ru / price + self.by_budget(lift)
        missing = 1 - self.mass @ p - a.sum()
        base = self.solve_band(f_p)
        right = np.concatenate([-f_u - self.coupling @ base, ra / a, [missing - self.mass @ base]])
        k = self.budgets
        solution = lu_solve(self.schur, right, check_finite=False)
        dprice, da, dtheta = solution[:k], solution[k:-1], solution[-1]
        dp = base - self.through[:, :k] @ dprice + self.through[:, k] * dtheta
        g = self.apply(dp)
        row_price = self.spread(dprice[: self.shifts])
        dy = self.h * g + self.kappa * row_price + e
        ds = lift - self.v * row_price + self.kappa * g
        dzp = self.transpose(dy) - self.mass * dtheta + self.tail.T @ dprice[self.shifts :]
        dd = dnu = d
        if len(d):
            dd = self.order @ dp
            dnu = (rd - nu * dd) / d
            dzp -= self.order.T @ dnu
        return Iterate(
            (dp, da, ds, ds - g, -da.sum() - self.used(dp, ds), dd),
            (dzp, self.use @ dprice - dtheta, row_price - dy, dy, dprice, dnu),
            dtheta,
        )


def _start_weights(newton: _Newton, a: Floats) -> Floats:
    """Weights with every budget strictly unused: a decaying law, the steepest one if need be."""
    best: tuple[float, Floats] = (np.inf, a)
    for shape in newton.program.starts:
        p = np.exp(shape)
        p *= (1 - a.sum()) / (newton.mass @ p)
        use = newton.used(p, np.maximum(newton.apply(p), 0)) + a.sum()
        worst = float((use / newton.caps).max())
        if worst < 0.9:
            return np.asarray(p)
        best = min(best, (worst, p), key=lambda pair: pair[0])
    if best[0] < 1 - 1e-9:
        return best[1]
    raise SolverError("no weights on this support leave a budget unused")


def _start(newton: _Newton) -> Iterate:
    program = newton.program
    a = np.full(len(program.atom_cost), float(newton.caps.min()) / 10)
    try:
        p = _start_weights(newton, a)
    except SolverError:
        a = a * 1e-3
        p = _start_weights(newton, a)
    g = newton.apply(p)
    excess = np.maximum(g, 0)
    used = a.sum() + newton.used(p, excess)
    share = p[newton.pairs.first]
    share = share / newton.spread(newton.by_row(share))
    margin = newton.spread((newton.caps - used)[: newton.shifts]) / 2 * share
    s = excess + margin
    per_row = max(1.0, 1 / program.epsilon) / (newton.shifts * np.expm1(program.epsilon))
    y = np.full(len(g), per_row / 2)
    # Budgets are worth about as much as the loss: with a small delta, that is a high price.
    worth = _BUDGET_PART * float(program.cost @ p) / newton.budgets
    price = np.maximum(per_row, worth / newton.caps)
    d = newton.order @ p
    nu = np.full(len(d), 1e-3 * float(np.abs(program.cost).max()) / newton.n)
    reduced = program.cost + newton.transpose(y) + newton.tail.T @ price[newton.shifts :]
    reduced = reduced - newton.order.T @ nu
    beside = program.atom_cost + newton.use @ price
    theta = np.minimum((reduced / newton.mass).min(), beside.min(initial=np.inf)) - 1
    left = newton.caps - a.sum() - newton.used(p, s)
    prices = newton.spread(price[: newton.shifts]) - y
    return Iterate(
        (p, a, s, np.maximum(-g, 0) + margin, left, d),
        (reduced - theta * newton.mass, beside - theta, prices, y, price, nu),
        theta,
    )


def solve_budgeted(
    program: Budgeted, tolerance: float, work: Work | None = None
) -> tuple[Iterate, float, float, str]:
    """The last iterate, its primal and dual value, and a status."""
    newton = _Newton(program)
    x, status = follow(newton, _start(newton), tolerance, _PACE, work=work)
    dual = float(x.theta - newton.caps @ x.dual[4])
    return x, newton.value(x), dual, status
