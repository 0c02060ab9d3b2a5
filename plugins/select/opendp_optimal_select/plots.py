"""The plots; they need the extra ``plot`` (matplotlib)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opendp_optimal.extend import new_figure, save_figure
from opendp_optimal_select.placing import cost, offsets
from opendp_optimal_select.ring.optimum import RingOptimum, laplace_ring

_WIDTH, _HEIGHT = 5.2, 3.6
"""Of one panel, in inches."""


def plot_offsets(path: Path, *, k: int = 5, epsilons: tuple[float, ...] = (0.3, 0.5, 1.0)) -> None:
    """Draw the optimal offsets on the density of the noise, for several privacy rates.

    :param path: file to write
    :param k: number of answers
    :param epsilons: privacy rates
    """
    figure, (axes,) = new_figure(_WIDTH, _HEIGHT)
    reach = 1.25 * max(offsets(k, epsilon=min(epsilons))[-1], 1.0 / min(epsilons))
    t = np.linspace(-reach, reach, 2001)
    for epsilon in epsilons:
        dots = np.array(offsets(k, epsilon=epsilon))
        line = axes.plot(t, 0.5 * epsilon * np.exp(-epsilon * np.abs(t)), label=f"ε = {epsilon:g}")
        height = 0.5 * epsilon * np.exp(-epsilon * np.abs(dots))
        axes.plot(dots, height, "o", color=line[0].get_color())
    axes.set(xlabel="distance from the signal", ylabel="density", title=f"{k} answers")
    axes.legend(frameon=False)
    save_figure(figure, str(path))


def plot_cost(path: Path, *, largest: int = 20, epsilon: float = 1.0) -> None:
    """Draw the expected distance to the best answer against the number of answers.

    :param path: file to write
    :param largest: largest number of answers
    :param epsilon: privacy rate
    """
    figure, (axes,) = new_figure(_WIDTH, _HEIGHT)
    for first, label, marker in ((1, "odd k", "o"), (2, "even k", "s")):
        ks = list(range(first, largest + 1, 2))
        axes.plot(ks, [cost(k, epsilon=epsilon) for k in ks], marker, label=label)
    ks = list(range(1, largest + 1))
    axes.plot(ks, [2.0 / ((k + 1) * epsilon) for k in ks], "-", lw=0.8, label="2 / ((k + 1) ε)")
    axes.set(xlabel="answers k", ylabel="expected distance", title=f"ε = {epsilon:g}")
    axes.legend(frameon=False)
    save_figure(figure, str(path))


def plot_ring(path: Path, optima: Sequence[RingOptimum]) -> None:
    """Draw ring Laplace noise and the optimal client with their answers, one panel each.

    :param path: file to write
    :param optima: from :func:`~opendp_optimal_select.ring.optimum.optimal_ring`
    """
    figure, panels = new_figure(_WIDTH * len(optima), _HEIGHT, columns=len(optima))
    for axes, optimum in zip(panels, optima, strict=True):
        k, epsilon = optimum.k, optimum.epsilon
        value, answers = laplace_ring(k, epsilon=epsilon)
        t = np.linspace(-math.pi, math.pi, 1441)
        scale = epsilon / (2.0 * (1.0 - math.exp(-epsilon * math.pi)))
        axes.plot(t, scale * np.exp(-epsilon * np.abs(t)), label=f"Laplace, cost {value:.4f}")
        dots = np.array(answers)
        axes.plot(dots, scale * np.exp(-epsilon * np.abs(dots)), "o", color="C0")
        x, y, where = _optimal_curve(optimum)
        axes.plot(x, y, label=f"optimal, cost {optimum.lower:.4f} to {optimum.upper:.4f}")
        axes.plot(where, np.interp(where, x, y), "s", color="C1")
        axes.set(
            xlabel="angle from the signal", ylabel="density", title=f"k = {k}, ε = {epsilon:g}"
        )
        axes.legend(frameon=False, fontsize=8)
    save_figure(figure, str(path))


def _optimal_curve(optimum: RingOptimum) -> tuple[Any, Any, Any]:
    """Return the optimal density around its own peak, and the answers, as angles."""
    widths = np.array([float(w) for w in optimum.density.model.widths])
    angles = 2.0 * math.pi * (np.cumsum(widths) - widths / 2.0)
    density = np.exp(np.array(optimum.density.logs))
    density /= float(density @ widths) * 2.0 * math.pi
    answers = np.array(optimum.offsets)
    # Turn the picture so that the middle of the answers' smallest spread is at 0.
    centre = float(answers.mean())
    turned = (angles - centre + math.pi) % (2.0 * math.pi) - math.pi
    order = np.argsort(turned)
    where = (answers - centre + math.pi) % (2.0 * math.pi) - math.pi
    return turned[order], density[order], where
