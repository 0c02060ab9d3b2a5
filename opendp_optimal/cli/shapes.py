"""The shapes of noise distributions on common bins, to look at side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from opendp_optimal.known import real as baselines
from opendp_optimal.table import NoiseTable

FloatArray = npt.NDArray[np.float64]
BLOCKS = " ▁▂▃▄▅▆▇█"
MOST_BLOCKS = 2000


@dataclass(frozen=True)
class Shape:
    """A density that is constant between edges."""

    name: str
    edges: FloatArray
    density: FloatArray


def shape_of(table: NoiseTable) -> Shape:
    """Return the density of a table, in units of the sensitivity (integers: in whole numbers)."""
    cells = table.cells if table.kind == "real" else 1
    mass = np.asarray(table.weights, dtype=np.float64) / table.total
    mass[table.radius] += table.atom / table.total
    if table.tail is not None:
        # Pure noise goes on for ever, block after block; show it until little is left.
        block = np.asarray(table.tail.weights, dtype=np.float64) / table.total
        again = table.tail.again / table.total
        blocks = min(MOST_BLOCKS, max(1, math.ceil(math.log(1e-5) / math.log(again))))
        side = np.concatenate([again**i * block for i in range(blocks)])
        side *= table.tail.weight / table.total
        mass = np.concatenate([side[::-1], mass, side])
    radius = len(mass) // 2
    points = np.arange(-radius, radius + 2) - 0.5
    return Shape("optimal", points / cells, mass * cells)


def rivals(table: NoiseTable, edges: FloatArray) -> list[Shape]:
    """Return Laplace, Gaussian and staircase noise for the same target, on the same bins."""
    names = ["laplace", "staircase"]
    if table.delta > 0:
        names.insert(1, "analytic_gaussian")
    loss: Literal["l1", "l2"] = "l2" if table.loss.name == "l2" else "l1"
    scale = 1 if table.kind == "real" else table.cells
    shapes = []
    for name in names:
        cumulative = baselines.cdf(name, table.epsilon, table.delta, edges / scale, loss=loss)
        density = np.diff(cumulative) / np.diff(edges)
        shapes.append(Shape(name.removeprefix("analytic_"), edges, density))
    return shapes


def bars(shape: Shape, top: float, width: int = 72) -> str:
    """Return a shape as one line of block characters, its height relative to ``top``."""
    at = np.linspace(shape.edges[0], shape.edges[-1], width + 1)
    cumulative = np.concatenate([[0.0], np.cumsum(shape.density * np.diff(shape.edges))])
    density = np.diff(np.interp(at, shape.edges, cumulative)) / np.diff(at)
    levels = np.clip(np.ceil(density / top * 8), 0, 8).astype(int)
    return "".join(BLOCKS[level] for level in levels)
