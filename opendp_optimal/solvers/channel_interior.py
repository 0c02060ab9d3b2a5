"""The Newton system of the channel programme with delta > 0.

The slacks of a pair (x, x') enter it as a diagonal plus one row for the budget, so they are
eliminated in closed form and leave a diagonal plus a rank-one term in the two rows x and x'. What
is left is one positive definite system in P, assembled block by block, whatever the number of
pairs; its blocks join rows that are neighbours, which is a band where the range is many
sensitivities long. Caps are elastic: one more variable, at a high price, raises them all, so that
there always is a start.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, cholesky

from opendp_optimal.arrays import Floats, Progress
from opendp_optimal.errors import SolverError
from opendp_optimal.model.channel import ChannelProgram, ChannelSolution
from opendp_optimal.model.work import Work, channel_seconds
from opendp_optimal.solvers.blockband import BlockBand
from opendp_optimal.solvers.interior import Iterate, Pace, follow

PACE = Pace(to_boundary=0.99, centring=1e-6, limit=120, patience=15, progress=0.95)
_BUDGET_PART = 0.3
"""What all budgets together are worth at the start, as a part of the loss there."""


class Rows:
    """Weights of a programme, row after row, and the raise of its caps if there are any."""

    def __init__(self, program: ChannelProgram, penalty: float = 0.0) -> None:
        """Caps are raised at a penalty."""
        self.program = program
        self.rows, self.outputs = program.cost.shape
        self.n = self.rows * self.outputs
        self.elastic = 1 if len(program.caps) else 0
        self.cost = np.append(program.cost.ravel(), [penalty] * self.elastic)

    def masses(self, p: Floats) -> Floats:
        """Sums of the rows."""
        return np.asarray(p[: self.n].reshape(self.rows, self.outputs).sum(axis=1))

    def spread(self, theta: Floats) -> Floats:
        """The price of each weight's row."""
        return np.append(np.repeat(theta, self.outputs), [0.0] * self.elastic)

    def value(self, x: Iterate) -> float:
        """The expected loss, with what raising the caps costs."""
        return float(self.cost @ x.primal[0])

    def leaning(self, least: float) -> Floats:
        """Rows that lean to where costs are small, within what the least growth allows.

        :param least: its logarithm
        """
        cost = self.program.cost
        shape = cost - cost.min(axis=1, keepdims=True)
        shape = shape / max(float(shape.max()), 1e-300)
        return np.asarray(np.exp(-0.4 * min(least, 8.0) * shape))


class _Newton(Rows):
    """Operators of one programme, and its Newton systems.

    Primal parts: weights, slacks, these minus their terms, what is left of budgets and of caps.
    Dual ones: reduced costs of the first two, then prices.
    """

    def __init__(self, program: ChannelProgram, penalty: float) -> None:
        super().__init__(program, penalty)
        self.pairs = len(program.first)
        flat = program.caps.reshape(len(program.caps), self.n)
        self.caps = np.concatenate([flat, -np.ones((len(flat), self.elastic))], axis=1)
        # How many rows pairs reach; caps join all rows.
        self.reach = int(np.abs(program.first - program.second).max(initial=0))
        if self.elastic or 3 * self.reach >= self.rows:
            self.reach = self.rows
        self.seconds = channel_seconds(self.rows, self.outputs, self.pairs, self.reach)
        self._plan_blocks()

    def _plan_blocks(self) -> None:
        """Group the pairs by the two rows they join, and list the sides of every row."""
        program, pairs = self.program, self.pairs
        low = np.minimum(program.first, program.second)
        high = np.maximum(program.first, program.second)
        turned = program.first > program.second
        key = low * self.rows + high
        order = np.argsort(key, kind="stable")
        blocks, start, count = np.unique(key[order], return_index=True, return_counts=True)
        slots = np.full((len(blocks), int(count.max(initial=1))), pairs)  # `pairs` is empty
        place = np.arange(len(order)) - np.repeat(start, count)
        slots[np.repeat(np.arange(len(blocks)), count), place] = order
        turned = np.append(turned, False)
        # Vectors of first sides are numbered 0..pairs, those of second sides after them.
        self.low_side = slots + np.where(turned[slots], pairs + 1, 0)
        self.high_side = slots + np.where(turned[slots], 0, pairs + 1)
        self.low_row, self.high_row = blocks // self.rows, blocks % self.rows
        sides = np.concatenate([program.first, [-1], program.second, [-1]])
        self.sides = [np.flatnonzero(sides == x) for x in range(self.rows)]
        at_first, at_second = self.at_first, self.at_second = program.places
        lower = np.maximum(at_first, at_second) * (self.n + self.elastic)
        self.cross = (lower + np.minimum(at_first, at_second)).ravel()
        # A point that is its own mirror image sees its cross term on the diagonal, twice.
        self.twice = np.where(at_first == at_second, 2.0, 1.0)

    def apply(self, p: Floats) -> Floats:
        return self.program.terms(p[: self.n].reshape(self.rows, self.outputs))

    def transpose(self, y: Floats) -> Floats:
        first = np.bincount(self.at_first.ravel(), y.ravel(), self.n)
        grown = (self.program.grown * y).ravel()
        out = first - np.bincount(self.at_second.ravel(), grown, self.n)
        return np.append(out, [0.0] * self.elastic)

    def factor(self, x: Iterate) -> None:
        """Assemble and factor the Newton matrix at an iterate."""
        p, s, t, u, v = x.primal
        z, zs, y, price, mu = x.dual
        growth = self.program.grown
        self.alpha, self.beta = zs / s, y / t
        self.w = 1 / (self.alpha + self.beta)
        self.h = self.alpha * self.beta * self.w
        self.kappa = self.beta * self.w
        self.rho = self.w.sum(axis=1) + u / price
        size = self.n + self.elastic
        matrix = np.zeros((size, size))
        root = self.kappa / np.sqrt(self.rho)[:, None]
        across = root.copy()
        across[self.program.flips] = across[self.program.flips, ::-1]
        empty = np.zeros((1, self.outputs))
        sides = np.concatenate([root, empty, growth * across, empty])
        blocks = -np.matmul(sides[self.low_side].transpose(0, 2, 1), sides[self.high_side])
        wide = self.outputs
        for a, b, block in zip(self.low_row.tolist(), self.high_row.tolist(), blocks, strict=True):
            turned = block.T + block if a == b else block.T
            matrix[b * wide : (b + 1) * wide, a * wide : (a + 1) * wide] += turned
        for a, which in enumerate(self.sides):
            own = sides[which]
            matrix[a * wide : (a + 1) * wide, a * wide : (a + 1) * wide] += own.T @ own
        flat = matrix.reshape(-1)
        np.add.at(flat, self.cross, (-growth * self.h * self.twice).ravel())
        diagonal = np.bincount(self.at_first.ravel(), self.h.ravel(), self.n)
        diagonal += np.bincount(self.at_second.ravel(), (growth**2 * self.h).ravel(), self.n)
        flat[:: size + 1] += np.append(diagonal, [0.0] * self.elastic) + z / p
        self.rate = mu / v
        if self.elastic:
            matrix += (self.caps.T * self.rate) @ self.caps
        self.scale = 1 / np.sqrt(flat[:: size + 1])
        self._scale_blocks(matrix)
        flat[:: size + 1] *= 1 + 1e-13
        self.band = BlockBand(matrix, self.outputs, self.reach)
        mass = np.zeros((size, self.rows))
        mass[: self.n] = np.repeat(np.eye(self.rows), wide, axis=0)
        self.through = self.solve(mass)
        self.schur = cholesky(mass.T @ self.through, lower=True, check_finite=False)

    def _scale_blocks(self, matrix: Floats) -> None:
        """Scale rows and columns to a diagonal of ones, where there is something to scale."""
        step = self.outputs if self.reach < self.rows else len(matrix)
        for low in range(0, len(matrix), step):
            high = min(low + step, len(matrix))
            end = min(high + self.reach * self.outputs, len(matrix))
            matrix[low:end, low:high] *= self.scale[low:high]
            matrix[low:end, low:high] *= self.scale[low:end, None]

    def solve(self, right: Floats) -> Floats:
        scale = self.scale if right.ndim == 1 else self.scale[:, None]
        return self.band.solve(right * scale) * scale

    def direction(self, x: Iterate, target: tuple[Floats, ...]) -> Iterate:
        """The Newton step that changes the complementarity products by ``target``."""
        p, s, t, _, v = x.primal
        *_, price, mu = x.dual
        rp, rs, rt, ru, rv = target
        push_s, push_t = rs / s, rt / t
        e = (self.alpha * push_t - self.beta * push_s) * self.w
        lift = self.w * (push_s + push_t)
        base = (lift.sum(axis=1) + ru / price) / self.rho
        short = self.program.cap - self.caps @ p - v
        f = rp / p - self.transpose(e + self.kappa * base[:, None])
        f -= self.caps.T @ (rv / v - self.rate * short)
        missing = 1 - self.masses(p)
        plain = self.solve(f)
        dtheta = cho_solve((self.schur, True), missing - self.masses(plain), check_finite=False)
        dp = plain + self.through @ dtheta
        g = self.apply(dp)
        dprice = base + (self.kappa * g).sum(axis=1) / self.rho
        dy = self.h * g + self.kappa * dprice[:, None] + e
        ds = lift - self.w * dprice[:, None] + self.kappa * g
        dv = short - self.caps @ dp
        dmu = (rv - mu * dv) / v
        dz = self.transpose(dy) + self.caps.T @ dmu - self.spread(dtheta)
        return Iterate(
            (dp, ds, ds - g, -ds.sum(axis=1), dv),
            (dz, dprice[:, None] - dy, dy, dprice, dmu),
            dtheta,
        )


def _start(newton: _Newton) -> Iterate:
    """Rows that lean half as far as they may: strictly private, whatever the pairs."""
    program = newton.program
    p = newton.leaning(float(np.log(program.growth).min(initial=1.0)))
    p *= np.where(program.shared > 0, 1.0, 1e-2 * program.delta)
    p /= p.sum(axis=1, keepdims=True)
    steady = p.mean(axis=0)
    steady = (steady + steady[::-1]) / 2 * np.maximum(program.shared, 1e-2 * program.delta)
    steady /= steady.sum()
    for _ in range(40):
        used = program.shortfalls(p)
        if float(used.max(initial=0.0)) < 0.5 * program.delta:
            break
        p = 0.7 * p + 0.3 * steady
    else:
        raise SolverError("no channel leaves a part of delta unused")
    g = program.terms(p)
    over = np.maximum(g, 0.0)
    rest = program.delta - over.sum(axis=1)
    share = p[program.first]
    share = share / share.sum(axis=1, keepdims=True)
    margin = rest[:, None] / 2 * share
    s = over + margin
    worth = _BUDGET_PART * float((program.cost * p).sum()) / max(1, newton.pairs) / program.delta
    price = np.full(newton.pairs, worth)
    y = np.full(g.shape, min(worth, float(program.cost.max()) / newton.outputs / 10) / 2)
    weights = p.ravel()
    if newton.elastic:
        raised = max(1e-3, 2 * float((newton.caps[:, :-1] @ weights - program.cap).max()))
        weights = np.append(weights, raised)
    v = np.maximum(program.cap - newton.caps @ weights, 1e-3 * abs(program.cap))
    mu = np.full(len(v), newton.cost[-1] / 2 / max(1, len(v)))
    reduced = newton.cost + newton.transpose(y) + newton.caps.T @ mu
    theta = reduced[: newton.n].reshape(newton.rows, -1).min(axis=1)
    theta -= float(program.cost.max()) / 4
    return Iterate(
        (weights, s, np.maximum(-g, 0.0) + margin, program.delta - s.sum(axis=1), v),
        (reduced - newton.spread(theta), price[:, None] - y, y, price, mu),
        theta,
    )


def solve_interior(
    program: ChannelProgram,
    *,
    tolerance: float = 1e-5,
    penalty: float = 0.0,
    progress: Progress | None = None,
    work: Work | None = None,
) -> ChannelSolution:
    """Solve to a relative duality gap; every iterate is feasible but for the raise of the caps.

    :param program: what to solve, its costs of order one; delta must be positive
    :param tolerance: relative duality gap at which to stop
    :param penalty: what raising all caps by one unit costs
    :param progress: called with a line of text at every step
    :param work: what may be done, no limit if None
    """
    newton = _Newton(program, penalty)
    x, status = follow(newton, _start(newton), tolerance, PACE, progress, work)
    weights = x.primal[0][: newton.n]
    _, _, slack, price, caps = x.dual
    dual = float(x.theta.sum() - program.delta * price.sum() - program.cap * caps.sum())
    return ChannelSolution(
        weights=weights.reshape(program.cost.shape),
        budget_price=price,
        slack_price=slack,
        cap_price=caps,
        primal=float(program.cost.ravel() @ weights),
        dual=dual,
        excess=float(x.primal[0][-1]) if newton.elastic else 0.0,
        status=status,
    )
