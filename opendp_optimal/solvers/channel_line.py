"""The Newton system for pure privacy on a line, where each input is joined to the next.

Without budgets the constraints P(y|x) <= growth P(y|x') join inputs at one output only. The Newton
matrix falls apart into a tridiagonal block for each output, and the blocks are joined by nothing
but the sums of rows. Near the optimum these blocks are nearly singular: whole columns can be scaled
at no cost. So their Cholesky factors are computed without a subtraction, which keeps all digits.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, cholesky

from opendp_optimal.arrays import Floats, Progress
from opendp_optimal.model.channel import ChannelProgram, ChannelSolution
from opendp_optimal.model.work import Work, step_seconds
from opendp_optimal.solvers.channel_interior import PACE, Rows
from opendp_optimal.solvers.interior import Iterate, follow

_TOLERANCE = 1e-9
"""The relative duality gap at which to stop."""


class _Newton(Rows):
    """Operators of one programme, and its Newton systems; arrays have a row for each input.

    Primal parts: weights, and minus the terms. Dual ones: reduced costs, and prices of the terms.
    """

    def __init__(self, program: ChannelProgram) -> None:
        super().__init__(program)
        self.seconds = step_seconds(3 * self.n, 20 * self.rows * self.n + self.rows**3)
        # The pair from each input to the next, and back; the last number is for none.
        none = len(program.first)
        self.up, self.down = (np.full(self.rows - 1, none) for _ in "ud")
        rises = program.first < program.second
        self.up[program.first[rises]] = np.flatnonzero(rises)
        self.down[program.second[~rises]] = np.flatnonzero(~rises)
        growth = np.append(program.growth, 1.0)[:, None]
        self.grow_up, self.grow_down = growth[self.up], growth[self.down]
        self.round_trip = np.expm1(np.log(self.grow_up) + np.log(self.grow_down))

    def transpose(self, y: Floats) -> Floats:
        padded = np.concatenate([y, np.zeros((1, self.outputs))])
        up, down = padded[self.up], padded[self.down]
        out = np.zeros((self.rows, self.outputs))
        out[:-1] += up - self.grow_down * down
        out[1:] += down - self.grow_up * up
        return out.ravel()

    def factor(self, x: Iterate) -> None:
        """Factor the blocks at an iterate: ``diagonal`` and, negative, ``across`` of each."""
        (p, t), (z, y) = x.primal, x.dual
        self.h = y / t
        padded = np.concatenate([self.h, np.zeros((1, self.outputs))])
        up, down = padded[self.up], padded[self.down]
        own = (z / p).reshape(self.rows, self.outputs)
        here, there = up + self.grow_down**2 * down, self.grow_up**2 * up + down
        both = up * down * self.round_trip**2
        joined = self.grow_up * up + self.grow_down * down
        base = own.copy()  # with what the inputs before leave of a block's diagonal
        square = np.empty_like(own)
        for i in range(self.rows - 1):
            square[i] = base[i] + here[i]
            base[i + 1] += (base[i] * there[i] + both[i]) / square[i]
        square[-1] = base[-1]
        self.square, self.share = square, joined / square[:-1]
        # How far the two terms of neighbours are from 0 for each unit of the second.
        self.short_up = -self.grow_up * base[:-1] - self.grow_down * down * self.round_trip
        self.short_down = base[:-1] - up * self.round_trip
        # The sum of all inverses: an entry is the product of shares up to its diagonal one.
        sums = np.zeros((self.rows, self.rows))
        row = np.zeros((self.rows, self.outputs))
        row[-1] = 1 / square[-1]
        sums[-1, -1] = row[-1].sum()
        for i in range(self.rows - 2, -1, -1):
            row[i] = 1 / square[i] + self.share[i] ** 2 * row[i + 1]
            row[i + 1 :] *= self.share[i]
            sums[i, i:] = row[i:].sum(axis=1)
        self.schur = cholesky(np.triu(sums, 1).T + np.triu(sums), lower=True, check_finite=False)

    def solve(self, right: Floats) -> tuple[Floats, Floats]:
        """The solution v, and its terms, which are accurate however small they are."""
        out = right.reshape(self.rows, self.outputs).copy()
        for i in range(self.rows - 1):
            out[i + 1] += self.share[i] * out[i]
        kept = out[:-1] / self.square[:-1]
        out /= self.square
        for i in range(self.rows - 2, -1, -1):
            out[i] += self.share[i] * out[i + 1]
        after = out[1:] / self.square[:-1]
        terms = np.empty((len(self.program.first) + 1, self.outputs))
        terms[self.up] = kept + self.short_up * after
        terms[self.down] = self.short_down * after - self.grow_down * kept
        return out.ravel(), terms[:-1]

    def _prices_of_sums(self, lack: Floats) -> Floats:
        return np.asarray(cho_solve((self.schur, True), lack, check_finite=False))

    def direction(self, x: Iterate, target: tuple[Floats, ...]) -> Iterate:
        """The Newton step that changes the complementarity products by ``target``."""
        (p, t), (rp, rt) = x.primal, target
        push = rt / t
        force = rp / p - self.transpose(push)
        missing = 1 - self.masses(p)
        dtheta = self._prices_of_sums(missing - self.masses(self.solve(force)[0]))
        dp, terms = self.solve(force + self.spread(dtheta))
        # Sums of rows lose digits that the terms do not: what they lack is added twice more.
        for _ in range(2):
            more = self._prices_of_sums(missing - self.masses(dp))
            parts = self.solve(self.spread(more))
            dtheta, dp, terms = dtheta + more, dp + parts[0], terms + parts[1]
        dy = push + self.h * terms
        dz = self.transpose(dy) - self.spread(dtheta)
        return Iterate((dp, -terms), (dz, dy), dtheta)


def solve_line(
    program: ChannelProgram, *, progress: Progress | None = None, work: Work | None = None
) -> ChannelSolution:
    """Solve until hardly any duality gap is left.

    :param program: what to solve, on a line, its costs of order one
    :param progress: called with a line of text at every step
    :param work: what may be done, no limit if None
    """
    newton = _Newton(program)
    x, status = follow(newton, _start(newton), _TOLERANCE, PACE, progress, work)
    return ChannelSolution(
        weights=x.primal[0].reshape(program.cost.shape),
        budget_price=np.zeros(len(program.first)),
        slack_price=x.dual[1],
        cap_price=np.zeros(0),
        primal=newton.value(x),
        dual=float(x.theta.sum()),
        excess=0.0,
        status=status,
    )


def _start(newton: _Newton) -> Iterate:
    """Rows that lean half as far as they may, and prices that make all products alike."""
    program = newton.program
    p = newton.leaning(float(np.log(program.growth).min()))
    p /= p.sum(axis=1, keepdims=True)
    t = -program.terms(p)
    y = 0.1 * float((program.cost * p).sum()) / t.size / t
    reduced = newton.cost + newton.transpose(y)
    theta = reduced.reshape(newton.rows, -1).min(axis=1) - float(program.cost.max()) / 4
    return Iterate((p.ravel(), t), (reduced - newton.spread(theta), y), theta)
