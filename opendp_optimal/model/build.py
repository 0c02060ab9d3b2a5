"""From a problem and a lattice to the two linear programmes that bound its optimum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from opendp_optimal.model.noise import Floats, LatticeProgram
from opendp_optimal.problem.noise import NoiseProblem


@dataclass(frozen=True)
class BoundingPair:
    """Two programmes on one lattice: ``above`` is a mechanism's, ``below`` a relaxation's."""

    above: LatticeProgram
    below: LatticeProgram


def support_radius(epsilon: float, delta: float) -> float:
    """Where truncated Laplace noise that uses half of delta ends, in sensitivities."""
    return math.log1p(math.expm1(epsilon) / delta) / epsilon


def lattice_radii(problem: NoiseProblem, cells: int) -> tuple[int, int]:
    """Radii beyond which the optimum has hardly mass, and beyond which its prices are 0.

    Beyond the support the prices fall from theirs at its end to 0; with the loss growing by one
    unit a unit, the way they go grows by a factor e^epsilon each unit. Half of the way that this
    would take from the highest price is enough; what is lost by it shows in the certified gap.
    """
    epsilon = problem.epsilon
    delta = min(problem.delta, problem.impossible or 1.0)
    end = support_radius(epsilon, delta)
    unwind = math.log1p(end * math.expm1(epsilon)) / epsilon
    lean = 0.0 if problem.folded else _lean(problem, end)
    mass = end + lean + min(1.25, 0.35 * epsilon)
    prices = end + lean + 0.25 + unwind / 2
    return math.ceil(cells * mass) + 1, math.ceil(cells * prices) + 1


def _lean(problem: NoiseProblem, most: float) -> float:
    """How far an uneven loss pushes the noise to one side, in sensitivities.

    Not further than to where all of it lies on that side.
    """
    one, other = sorted((problem.loss(1.0), problem.loss(-1.0)))
    least = 1e-3 if problem.loss.custom else 5e-324
    lean = math.log(max(1.0, other / max(one, least)))
    return min(lean / problem.epsilon, max(most, math.log(1e3) / problem.epsilon))


def floats(numerators: Sequence[int], denominator: int) -> Floats:
    """Costs as floats, for the solver."""
    try:
        return np.asarray(np.array(numerators, dtype=float) / float(denominator))
    except OverflowError:
        return np.array([number / denominator for number in numerators], dtype=float)


def build(problem: NoiseProblem, cells: int) -> BoundingPair:
    """The programmes of a problem on the lattice with so many cells per sensitivity."""
    inner, outer = lattice_radii(problem, cells)
    outer += cells
    bounded = False
    if problem.support is not None:
        edge = Fraction(problem.support) * (1 if problem.kind == "integer" else cells)
        spread = Fraction(0 if problem.kind == "integer" else 1, 2)
        inner = max(1, min(inner, math.floor(edge - spread)))
        bounded = math.ceil(edge) < outer
        outer = min(outer, math.ceil(edge))
    cost_in = problem.cost(cells, inner)
    cost_out = problem.cost(cells, outer)
    real = problem.kind == "real"

    def program(cost: Floats, radius: int, above: bool) -> LatticeProgram:
        return LatticeProgram(
            epsilon=problem.epsilon,
            delta=problem.delta,
            cells=cells,
            radius=radius,
            cost=cost,
            atom_cost=cost_in.atom / cost_in.denominator if above and real else None,
            folded=problem.folded,
            monotone=("strict" if above else "relaxed") if problem.monotone else "",
            tail_budget=problem.impossible if above or bounded else None,
            pad=0 if above or bounded else cells,
        )

    above = program(floats(cost_in.upper, cost_in.denominator), inner, True)
    below = program(floats(cost_out.lower, cost_out.denominator), outer, False)
    return BoundingPair(above, below)
