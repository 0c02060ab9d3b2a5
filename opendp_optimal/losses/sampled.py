"""Bounds on a user's loss function from samples of it.

Between samples nothing is known about a Python function but its shape. Each shape gives rigorous
bounds on an interval [a, b] from its end values (and, if convex, from the neighbouring chords);
floats are then moved outwards and turned into integers over a power of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from opendp_optimal.arrays import Floats

Function = Callable[[float], float]

_SPLITS = {"convex": 4, "monotone": 128, "lipschitz": 64}
_MOST_SAMPLES = 200_000
_SLACK = 2.0**-44
_BITS = 60
_TINY = -900
_LARGEST = 2.0**960
_FAR = 2.0 ** np.arange(3, 11)
_PROBED = np.unique(np.concatenate([-_FAR, np.linspace(-4, 4, 257), _FAR]))
"""Where a function is asked, to recognise it."""


def _value(function: Function, x: float) -> float:
    try:
        return float(function(x))
    except OverflowError:
        return math.inf


def _values(function: Function, points: Floats) -> Floats:
    out = np.array([_value(function, float(x)) for x in points])
    small = np.abs(out) <= _LARGEST
    if not np.all(small):
        bad = float(points[int(np.argmin(small))])
        raise ValueError(f"loss must be finite everywhere, but loss({bad}) is not below 2^960")
    if np.any(out < 0):
        bad = float(points[int(np.argmin(out))])
        raise ValueError(f"loss must be non-negative, but loss({bad}) is {float(out.min())}")
    return out


def probe(function: Function) -> Floats:
    """Values at a fixed set of points, by which a function is recognised."""
    return _values(function, _PROBED)


def examine(function: Function, values: Floats, lipschitz: float | None) -> str:
    """The shape of a loss ("convex", "monotone" or "lipschitz"); raises if it is not a loss.

    :param function: the loss
    :param values: what :func:`probe` said of it
    :param lipschitz: a bound on its slope, if one is given
    """
    points = _PROBED
    _refuse_bounded(function)
    _refuse_jump(function, points, values)
    slopes = np.diff(values) / np.diff(points)
    if lipschitz is not None:
        steepest = np.abs(slopes).max()
        if steepest > lipschitz * (1 + 1e-9):
            raise ValueError(
                f"lipschitz ({lipschitz}) is too small: the loss has a slope of {steepest:g}"
            )
        return "lipschitz"
    slack = 1e-12 * np.abs(values).max()
    if np.all(np.diff(slopes) >= -1e-9 * np.abs(slopes[1:]) - slack):
        return "convex"
    right = np.diff(values[points >= 0])
    left = np.diff(values[points <= 0])
    if np.all(right >= -slack) and np.all(left <= slack):
        return "monotone"
    raise ValueError(
        "loss is neither convex nor monotone on each side of 0: give Loss(function, lipschitz=...)"
    )


def _refuse_bounded(function: Function) -> None:
    for sign in (1.0, -1.0):
        near, far = (_value(function, sign * x) for x in (2.0**20, 2.0**40))
        if math.isnan(far) or far <= near:
            raise ValueError(
                f"loss must grow without bound, but loss({sign * 2.0**40:g}) = {far:g} is not "
                f"above loss({sign * 2.0**20:g}) = {near:g}"
            )


def _refuse_jump(function: Function, points: Floats, values: Floats) -> None:
    """Halve the interval of largest change until a jump, if there is one, is exposed."""
    near = (points >= -4) & (points <= 4)
    x, v = points[near], values[near]
    scale = float(np.ptp(v))
    for at in np.argsort(-np.abs(np.diff(v)))[:8]:
        a, b, fa, fb = float(x[at]), float(x[at + 1]), float(v[at]), float(v[at + 1])
        for _ in range(40):
            middle = (a + b) / 2
            fm = float(function(middle))
            if abs(fm - fa) >= abs(fb - fm):
                b, fb = middle, fm
            else:
                a, fa = middle, fm
        if abs(fb - fa) > 1e-6 * scale:
            raise ValueError(
                f"loss must be continuous, but it jumps by {abs(fb - fa):g} near {a:g}"
            )


def _to_integers(
    upper: Floats, lower: Floats, atom: float
) -> tuple[list[int], list[int], int, int]:
    exponent = math.frexp(float(np.abs(upper).max()))[1]
    scale = 2.0 ** (_BITS - (exponent if exponent >= _TINY else 1))
    slack = _SLACK * float(np.abs(upper).max())
    # Large costs are multiples of a power of two, small ones parts of one.
    unit, denominator = max(1, int(1 / scale)), max(1, int(scale))
    up = [math.ceil(v * scale) * unit for v in upper + _SLACK * np.abs(upper)]
    low = [math.floor(v * scale) * unit for v in lower - _SLACK * np.abs(lower) - slack * 2.0**-8]
    return up, low, math.ceil(atom * scale) * unit, denominator


def on_grid(function: Function, step: int, reach: int, inner: Floats | None = None) -> Floats:
    """Values at the multiples of 1/step from -reach to reach.

    :param inner: those of them around 0 that are known already
    """
    if inner is None:
        return _values(function, np.arange(-reach, reach + 1) / step)
    missing = np.arange(len(inner) // 2 + 1, reach + 1) / step
    left, right = _values(function, -missing[::-1]), _values(function, missing)
    return np.concatenate([left, inner, right])


def splits(shape: str, radius: int) -> int:
    """Into how many parts a cell of a lattice is divided for samples of a loss of this shape.

    Long noise has few: its cells are small beside it, and samples take time.

    :param shape: of the loss
    :param radius: cells on each side of 0
    """
    return max(2, min(_SPLITS[shape], _MOST_SAMPLES // (2 * radius + 3) & ~1))


def integer_cost(values: Floats) -> tuple[list[int], list[int], int, int]:
    """Upper and lower integers for noise on the integers, from the values there."""
    return _to_integers(values, values, float(values[len(values) // 2]))


def lattice_cost(
    values: Floats, shape: str, lipschitz: float | None, cells: int, splits: int
) -> tuple[list[int], list[int], int, int]:
    """Upper (cell averages) and lower (chords nowhere above the loss) integers on the lattice.

    :param values: samples at step 1/(cells * splits), one cell further than needed on both sides
    :param splits: parts of a cell, an even number
    """
    reach = len(values) // 2
    radius, step = reach // splits - 1, 1.0 / (cells * splits)
    left, right = values[:-1], values[1:]
    if shape == "convex":
        # The extension of a neighbouring chord lies below a convex function.
        slope = np.diff(values)
        before = np.concatenate([slope[:1], slope[:-1]])
        after = np.concatenate([slope[1:], slope[-1:]])
        mean = (left + right) / 2
        bend = after - before
        # The two extensions meet at this part of the interval (anywhere, if there is no bend).
        meet = np.divide(slope - before, bend, out=np.zeros_like(bend), where=bend > 0)
        meet = 1 - np.clip(meet, 0.0, 1.0)
        meet[0], meet[-1] = 0.0, 1.0  # one neighbour only, so one line only
        dip = np.minimum(left + before * meet, right - after * (1 - meet))
        dip[0], dip[-1] = right[0] - after[0], left[-1] + before[-1]
    else:
        mean = np.maximum(left, right)
        dip = np.minimum(left, right)
        meet = np.zeros_like(mean)
        if lipschitz is not None:
            mean = (left + right) / 2 + lipschitz * step / 4
            dip = (left + right - lipschitz * step) / 2
    half = splits // 2
    # Cell i covers the sub-intervals [i*splits - half, i*splits + half).
    first = np.arange(-radius, radius + 1) * splits + reach - half
    upper = np.add.reduceat(mean, np.column_stack([first, first + splits]).ravel())[::2] / splits
    lower = values[splits:-splits:splits] - _chord_excess(values, dip, meet, splits, shape)
    return _to_integers(upper, lower, float(values[reach]))


def _chord_excess(values: Floats, dip: Floats, meet: Floats, splits: int, shape: str) -> Floats:
    """How far chords between lattice points may rise above the loss, at most, around each point."""
    nodes = values[::splits]
    along = nodes[:-1, None] + np.diff(nodes)[:, None] * np.arange(splits + 1) / splits
    start, end = along[:, :-1], along[:, 1:]
    low = dip.reshape(-1, splits)
    if shape == "convex":
        # Chord minus loss is bounded by a concave function: look at its three corners.
        where = meet.reshape(-1, splits)
        excess = np.maximum(
            start + (end - start) * where - low,
            np.maximum(
                start - values[:-1].reshape(-1, splits), end - values[1:].reshape(-1, splits)
            ),
        )
    else:
        excess = np.maximum(start, end) - low
    worst = np.maximum(0.0, excess.max(axis=1))
    return np.asarray(np.maximum(worst[:-1], worst[1:]))
