"""Expected losses of known noise, for any loss and sensitivity, in floats: they prove nothing.

Noise at sensitivity 1 comes as the chance of exceeding x, on one side; all of it is symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.known import real as baselines
from opendp_optimal.losses.base import Loss

Floats = NDArray[np.float64]

_STEPS = 20_000
_TAIL = 1e-14


def power(loss: Loss) -> int:
    """1 for losses that grow with the error, 2 for its square, 0 for a user's function."""
    if loss.function is not None:
        return 0
    return 2 if loss.name == "l2" else 1


def even(loss: Loss) -> float:
    """What a unit of |noise| or of noise squared costs, on average over both signs."""
    return 0.5 if loss.name.startswith("pinball:") else 1.0


def scaled(loss: Loss, unit: float) -> Loss:
    """The loss of noise in units of the sensitivity, for noise that is then scaled by it."""
    if loss.function is None or unit == 1:
        return loss
    slope = None if loss.lipschitz is None else loss.lipschitz * unit
    return Loss(lambda x: loss(x * unit), f"{loss.name}:{unit:g}", slope)


def real_loss(name: str, epsilon: float, delta: float, loss: Loss, unit: float) -> float:
    """The expected loss of one of :mod:`opendp_optimal.known.real`, scaled by ``unit``."""
    kind = power(loss)
    if kind == 1:
        return even(loss) * unit * baselines.expected_loss(name, epsilon, delta, "l1")
    if kind == 2:
        return unit**2 * baselines.expected_loss(name, epsilon, delta, "l2")
    return from_tails(lambda x: 1.0 - baselines.cdf(name, epsilon, delta, x), loss, unit)


def gaussian_loss(sigma: float, loss: Loss) -> float:
    """The expected loss of Gaussian noise."""
    if power(loss) == 1:
        return even(loss) * sigma * math.sqrt(2 / math.pi)
    if power(loss) == 2:
        return sigma**2
    from scipy.special import ndtr

    return from_tails(lambda x: np.asarray(ndtr(-x)), loss, sigma)


def from_tails(tail: Callable[[Floats], Floats], loss: Loss, unit: float) -> float:
    """Integrate a loss over symmetric noise given by its tail."""
    end = 1.0
    while float(tail(np.array([end]))[0]) > _TAIL and end < 1e9:
        end *= 2
    edges = np.concatenate([np.linspace(0, 1, _STEPS // 4), np.geomspace(1, end, _STEPS)[1:]])
    at = tail(edges)
    weights = np.append(at[:-1] - at[1:], at[-1])
    middles = np.append((edges[:-1] + edges[1:]) / 2, end) * unit
    costs = np.array([loss(x) + loss(-x) for x in middles.tolist()])
    atom = max(0.0, 1.0 - 2.0 * float(at[0]))
    return float((weights * costs).sum()) + atom * loss(0.0)


def integer_loss(weights: Callable[[Floats], Floats], reach: int, loss: Loss) -> float:
    """The expected loss of symmetric integer noise with weights up to ``reach``, normalised."""
    at = np.arange(reach + 1, dtype=np.float64)
    mass = weights(at)
    total = 2 * float(mass.sum()) - float(mass[0])
    if power(loss) == 1:
        costs = 2 * even(loss) * at
    elif power(loss) == 2:
        costs = 2 * at**2
    else:
        costs = np.array([loss(x) + loss(-x) for x in at.tolist()])
        costs[0] /= 2
    return float((mass * costs).sum()) / total


def discrete_laplace_loss(rate: float, loss: Loss) -> float:
    """The expected loss of integer noise with weights exp(-rate |x|)."""
    a = math.exp(-rate)
    if power(loss) == 1:
        return even(loss) * 2 * a / (-math.expm1(-2 * rate))
    if power(loss) == 2:
        return 2 * a / math.expm1(-rate) ** 2
    return integer_loss(lambda x: np.exp(-rate * x), math.ceil(45 / rate) + 2, loss)


def discrete_gaussian_loss(sigma: float, loss: Loss) -> float:
    """The expected loss of the discrete Gaussian."""
    return integer_loss(lambda x: np.exp(-0.5 * (x / sigma) ** 2), math.ceil(12 * sigma) + 2, loss)
