"""Expected losses by plain sums of floats, and those of mechanisms everybody knows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from opendp_optimal import BoundedTable, NoiseTable, known

MANY = 40_000
"""Calls of a loss for one mean, about."""
ANSWERS, MOST_PLACES = 16, 100_000
"""Answers in each part of a range that are looked at, and places of noise."""
INSIDE = 6
"""Places within a cell, at most."""


def _sampled(loss: Any, places: Any) -> Any:
    """A loss at many places."""
    flat = np.ravel(places)
    return np.array([loss(float(x)) for x in flat]).reshape(np.shape(places))


def _law(table: NoiseTable) -> tuple[Any, Any]:
    """Lattice points and their chances, tails as far as they matter."""
    points = np.arange(-table.radius, table.radius + 1)
    chances = table.weights / table.total
    if table.tail is None:
        return points, chances
    side = table.tail.weights / table.total * (table.tail.weight / table.total)
    again = table.tail.again / table.total
    blocks = max(1, math.ceil(-30 / math.log(again))) if again > 0 else 1
    blocks = min(blocks, 1 + 2_000_000 // len(side))  # what is left out only lowers the mean
    beyond = np.concatenate([side * again**q for q in range(blocks)])
    out = np.arange(table.radius + 1, table.radius + 1 + len(beyond))
    return np.concatenate([-out[::-1], points, out]), np.concatenate(
        [beyond[::-1], chances, beyond]
    )


def noise_mean(table: NoiseTable) -> float:
    """The expected loss of a table for real or integer queries, about."""
    points, chances = _law(table)
    loss, atom = table.loss, table.atom / table.total
    if len(points) > MANY:
        # Of very long laws a part: what is left out only lowers the mean.
        step = math.ceil(len(points) / MANY)
        keep = np.arange(len(points)) % step == 0
        points, chances = points[keep], chances[keep]
    if table.kind == "integer":
        values = _sampled(loss, points)
        return float(values @ chances + atom * loss(0.0))
    inside = max(1, min(INSIDE, MANY // len(points)))
    offsets = (np.arange(inside) + 0.5) / inside - 0.5
    values = _sampled(loss, (points[:, None] + offsets) / table.cells).mean(axis=1)
    return float(values @ chances + atom * loss(0.0))


def _laplace(loss: Any, epsilon: float) -> float:
    """The expected loss of Laplace noise of sensitivity 1, from a fine sum; not below it."""
    s = np.concatenate([np.linspace(0, 3, 1200), np.linspace(3, 90, 1800)[1:]])
    sides = np.maximum(_sampled(loss, s / epsilon), 0) + _sampled(loss, -s / epsilon)
    high = np.maximum(sides[1:], sides[:-1])
    return float((high * -np.diff(np.exp(-s))).sum() / 2)


def _known(name: str, epsilon: float, delta: float) -> Iterator[tuple[str, float]]:
    """Closed forms for real queries of sensitivity 1."""
    if name not in ("l1", "l2"):
        return
    for noise in known.REAL_NAMES:
        value = known.expected_loss(noise, epsilon, delta, name)  # type: ignore[arg-type]
        if math.isfinite(value):
            yield noise, value


def _discrete(loss: Any, epsilon: float, sensitivity: int) -> Iterator[tuple[str, float]]:
    """Two-sided geometric noise on the integers, where few of them matter."""
    a = epsilon / sensitivity
    if 60 / a > MANY:
        return
    k = np.arange(-math.ceil(60 / a), math.ceil(60 / a) + 1)
    chances = math.tanh(a / 2) * np.exp(-a * np.abs(k))
    yield "geometric", float(_sampled(loss, k) @ chances)


def _builtin(loss: Any) -> str:
    """The name of a loss that comes with the package; nothing for a user's function."""
    return "" if loss.function is not None else loss.name


def known_noise(table: NoiseTable) -> Iterator[tuple[str, float]]:
    """Losses of known noises that keep to everything that was asked."""
    asked = table.problem
    if asked.support is not None or asked.impossible is not None:
        return
    if table.kind == "integer":
        yield from _discrete(table.loss, asked.epsilon, table.cells)
        return
    yield "Laplace", _laplace(table.loss, asked.epsilon)
    if not asked.monotone:
        yield from _known(_builtin(table.loss), asked.epsilon, asked.delta)


def known_bounded(table: BoundedTable) -> Iterator[tuple[str, float]]:
    """Losses of additive noises, which clamping to the range only lowers."""
    asked = table.problem
    reach = float(asked.reach)
    if asked.cap is not None:
        return
    if asked.integer:
        yield from _discrete(table.loss, asked.epsilon, int(reach))
        return
    yield "Laplace", _laplace(lambda x: table.loss(reach * x), asked.epsilon)
    scale = reach if table.loss.name == "l1" else reach * reach
    for name, value in _known(_builtin(table.loss), asked.epsilon, asked.delta):
        if 1e-290 < scale * value < math.inf:
            yield name, scale * value


def clamped_mean(table: BoundedTable) -> float:
    """The expected loss of noise that is moved into the range, in sensitivities, about."""
    asked, noise = table.problem, table.noise
    assert noise is not None
    reach, power = float(asked.reach), noise.loss.power
    points, chances = _law(noise)
    parts = max(1, min(INSIDE, MOST_PLACES // len(points)))
    offsets = (np.arange(parts) + 0.5) / parts - 0.5
    places = np.append(((points[:, None] + offsets) / noise.cells).ravel(), 0.0)
    chances = np.append(np.repeat(chances / parts, parts), noise.atom / noise.total)
    total = weight = 0.0
    for start, end, density in asked.densities():
        length = float((end - start) * density)
        left = float((start - Fraction(asked.low)) / asked.reach)
        right = float((Fraction(asked.high) - start) / asked.reach)
        part = float((end - start) / asked.reach)
        for s in (np.arange(ANSWERS) + 0.5) / ANSWERS:
            moved = np.clip(places, -(left + s * part), right - s * part)
            side = np.where(moved > 0, _side(table.loss, 1), _side(table.loss, -1))
            total += length / ANSWERS * float((side * np.abs(moved) ** power) @ chances)
            weight += length / ANSWERS
    return total / weight * reach**power


def _side(loss: Any, side: int) -> float:
    """What an error of one unit costs."""
    return float(loss.exact(Fraction(side)))


def _density(table: BoundedTable, answers: Any) -> Any:
    """Chances of answers relative to each other, by the prior."""
    out = np.zeros(len(answers))
    for start, end, density in table.problem.densities():
        inside = (answers >= float(start)) & (answers <= float(end))
        out[inside] = float(density * table.problem.width)
    return out


def bounded_mean(table: BoundedTable) -> float:
    """The expected loss of a table for a range, about."""
    asked, chances = table.problem, table.weights / table.total
    revealed = chances[:, [0, -1]].sum(axis=1) if table.revealing else np.zeros(len(chances))
    chances = chances[:, 1:-1] if table.revealing else chances
    none = table.loss(0.0)
    if asked.integer:
        x = np.arange(table.bins + 1)
        values = _sampled(table.loss, x[None, :] - x[:, None])
        prior = np.array([float(w) for w in asked.prior_weights])
        return float(prior @ ((values * chances).sum(axis=1) + revealed * none))
    s = (np.arange(INSIDE) + 0.5) / INSIDE
    total = weight = 0.0
    if asked.edges is not None:
        ends = np.array(asked.edges)
        for j, (a, b) in enumerate(itertools.pairwise(asked.edges)):
            answers = a + (b - a) * s
            values = _sampled(table.loss, ends[None, :] - answers[:, None])
            rows = (1 - s)[:, None] * chances[j] + s[:, None] * chances[j + 1]
            tell = (1 - s) * revealed[j] + s * revealed[j + 1]
            here = _density(table, answers) * ((b - a) / float(asked.width))
            total += float(here @ ((values * rows).sum(axis=1) + tell * none))
            weight += float(here.sum())
        return total / weight
    low, width = asked.low, float(asked.width)
    step = max(float(asked.reach) / table.cells, width / table.bins)
    start = low - (table.bins * step - width) / 2
    y = np.arange(table.bins + 1)
    for j, shift in itertools.product(range(table.bins), (s + 0.01) * step):
        answers = start + (j + s) * step
        here = _density(table, answers)
        x = np.where(s * step >= shift, j + 1, j)
        places = np.clip(start + shift + (y - 0.5) * step, asked.low, asked.high)
        values = _sampled(table.loss, places[None, :] - answers[:, None])
        total += float(here @ ((values * chances[x]).sum(axis=1) + revealed[x] * none))
        weight += float(here.sum())
    return total / weight
