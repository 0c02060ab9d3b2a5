"""Refinement: one channel is another followed by post-processing, or a loss tells them apart.

Either answer is checked in exact arithmetic. A witness R satisfies ``a R = b``. Where there is
none, some loss makes ``a`` strictly worse than ``b`` for the uniform prior, which post-processing
never does: the two exact losses are the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from opendp_optimal import SolverError
from opendp_optimal.extend import Floats, fraction
from opendp_optimal_bayes.channel import Channel
from opendp_optimal_bayes.witness import exact_witness, only_witness

_MOST_VARIABLES = 40_000
_SEPARATED = 1e-10
"""Losses in floats that are closer than this are compared exactly only as a last resort."""


@dataclass(frozen=True)
class Refinement:
    """The answer to "is b obtained from a by post-processing?", with its proof.

    :param witness: the post-processing R, where there is one
    :param residual: the largest entry of ``|a R - b|``, exactly; 0 for an exact witness
    :param loss: where there is none, loss[w][x] that separates the two for the uniform prior
    :param loss_a: expected loss of a under it
    :param loss_b: expected loss of b under it, smaller
    """

    witness: Channel | None
    residual: Fraction = Fraction(0)
    loss: tuple[tuple[Fraction, ...], ...] | None = None
    loss_a: Fraction | None = None
    loss_b: Fraction | None = None

    def __bool__(self) -> bool:
        """Whether there is a witness."""
        return self.witness is not None


def refines(a: Channel, b: Channel, *, tolerance: Any = 1e-9) -> Refinement:
    """Whether ``b`` is ``a`` followed by post-processing (``a`` leaks at least as much).

    :param a: the channel that would be post-processed
    :param b: the channel that would come out; same answers
    :param tolerance: largest entry of ``|a R - b|`` in a witness; channels with irrational
        entries, kept as floats, have no exact one. Pass 0 to insist
    :returns: true with a ``witness``, or false with a ``loss`` that separates the two

    >>> sharp = Channel([[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]])
    >>> blunt = Channel([[Fraction(5, 8), Fraction(3, 8)], [Fraction(3, 8), Fraction(5, 8)]])
    >>> found = refines(sharp, blunt)
    >>> bool(found), found.residual, sharp >> found.witness == blunt
    (True, Fraction(0, 1), True)
    >>> found = refines(blunt, sharp)
    >>> bool(found), found.loss_a > found.loss_b
    (False, True)
    """
    for name, channel in (("a", a), ("b", b)):
        if not isinstance(channel, Channel):
            raise ValueError(f"{name} ({channel!r}) must be a Channel")
    if a.inputs != b.inputs:
        raise ValueError(f"b (with {b.inputs} answers) must have those of a ({a.inputs})")
    allowed = fraction("tolerance", tolerance)
    if allowed < 0:
        raise ValueError(f"tolerance ({tolerance!r}) must not be negative")
    size = a.outputs * b.outputs + 2 * a.inputs * b.outputs
    if size > _MOST_VARIABLES:
        raise ValueError(f"a and b make a problem of {size} variables; at most {_MOST_VARIABLES}")
    exact = only_witness(a, b)
    if exact is not None:
        return Refinement(exact)
    weights, prices = _nearest(a, b)
    separated = _separation(a, b, prices, least=_SEPARATED)
    if separated is not None:
        return separated
    witness = Channel(weights)
    residual = _residual(a, b, witness)
    if residual > allowed:
        exact = exact_witness(a, b)
        if exact is not None and (missed := _residual(a, b, exact)) <= allowed:
            return Refinement(exact, missed)
        separated = _separation(a, b, prices)
        if separated is not None:
            return separated
        raise SolverError(
            f"neither a witness within {float(allowed):g} nor a separating loss was found; the "
            f"nearest post-processing misses by {float(residual):.3g}"
        )
    return Refinement(witness, residual)


def _nearest(a: Channel, b: Channel) -> tuple[Floats, Floats]:
    """The stochastic R that makes the sum of |a R - b| least, and the prices of its entries."""
    from scipy import sparse
    from scipy.optimize import linprog

    inputs, middle, outputs = a.inputs, a.outputs, b.outputs
    cells = inputs * outputs
    product = sparse.kron(sparse.csr_array(a.matrix), sparse.eye_array(outputs))
    eye = sparse.eye_array(cells)
    rows = sparse.kron(sparse.eye_array(middle), np.ones((1, outputs)))
    equal = sparse.block_array([[product, eye, -eye], [rows, None, None]], format="csr")
    cost = np.concatenate([np.zeros(middle * outputs), np.ones(2 * cells)])
    result = linprog(
        cost,
        A_eq=equal,
        b_eq=np.concatenate([b.matrix.ravel(), np.ones(middle)]),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.status != 0:
        raise SolverError(f"refinement: the linear programme ended with {result.message!r}")
    weights = np.maximum(result.x[: middle * outputs].reshape(middle, outputs), 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights, np.asarray(result.eqlin.marginals[:cells]).reshape(inputs, outputs)


def _separation(
    a: Channel, b: Channel, prices: Floats, least: float | None = None
) -> Refinement | None:
    """A loss made of prices, if it separates the two channels exactly.

    Exact losses are computed only where those in floats are ``least`` apart, if that is given.
    """
    prior = [Fraction(1, a.inputs)] * a.inputs
    gain = np.round(prices * 2.0**40) / 2.0**40
    top = float(gain.max(initial=0.0))
    loss = tuple(tuple(Fraction(top) - Fraction(v) for v in row) for row in gain.T.tolist())
    if least is not None:
        apart = a.expected_loss(prior, loss) - b.expected_loss(prior, loss)
        if apart < least:
            return None
    loss_a, loss_b = a.exact_loss(prior, loss), b.exact_loss(prior, loss)
    return Refinement(None, Fraction(0), loss, loss_a, loss_b) if loss_a > loss_b else None


def _residual(a: Channel, b: Channel, witness: Channel) -> Fraction:
    missed = np.array(a.then(witness).rows) - np.array(b.rows)  # of fractions: exactly
    return Fraction(abs(missed).max())
