"""The mechanisms of the theory as channels: geometric, N-step geometric, pixelated Laplace.

Fernandes, McIver, Morgan, *The Laplace mechanism has optimal utility for differential privacy over
continuous queries*. Privacy is stated by ``epsilon`` or, exactly, by ``decay = exp(-epsilon)``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.extend import chances, fraction, positive, whole
from opendp_optimal_bayes.channel import Channel

_MOST_BITS = 4096
_MOST_STEPS = 4096
"""A channel has the square of this in entries."""


def geometric_channel(n: int, *, epsilon: Any = None, decay: Any = None) -> Channel:
    """The geometric mechanism on 0..n, its tails folded onto the ends.

    Of all epsilon-private mechanisms it is the best for every prior and every legal loss, after
    the right remap (Ghosh, Roughgarden, Sundararajan).

    :param n: largest answer
    :param epsilon: privacy loss for each step of 1
    :param decay: exp(-epsilon), exactly; give one of the two

    >>> geometric_channel(2, decay=Fraction(1, 2)).rows[0]
    (Fraction(2, 3), Fraction(1, 6), Fraction(1, 6))
    """
    n = whole("n", n, most=_MOST_STEPS)
    a: Any = _decay(epsilon, decay)
    powers = _powers(a, n)
    if isinstance(powers[1], float):
        a = powers[1]
    places = np.arange(n + 1)
    rows = (1 - a) / (1 + a) * powers[abs(places - places[:, None])]
    rows[:, 0] = powers / (1 + a)
    rows[:, n] = rows[::-1, 0]
    return Channel(rows)


def step_geometric_channel(n: int, *, epsilon: Any = None, decay: Any = None) -> Channel:
    """The N-step geometric mechanism on {0, 1/n, ..., 1}: epsilon-private in the distance.

    Its steps decay by exp(-epsilon / n) (formula 11).

    :param n: number of steps
    :param epsilon: privacy loss from 0 to 1
    :param decay: exp(-epsilon), exactly; give one of the two

    >>> for row in step_geometric_channel(2, decay=Fraction(1, 16)).rows:  # epsilon = 2 ln 4
    ...     print(*row)
    4/5 3/20 1/20
    1/5 3/5 1/5
    1/20 3/20 4/5
    """
    n = whole("n", n, most=_MOST_STEPS)
    return geometric_channel(n, decay=_decay(epsilon, decay, n))


def pixelated_laplace_channel(
    n: int, t: int, *, epsilon: Any = None, decay: Any = None, ends: bool = False
) -> Channel:
    """Truncated Laplace on the answers {0, 1/n, ..., 1}, observed in t pixels (formula 12).

    The masses at 0 and 1 belong to the first and last pixel, or have columns of their own.

    :param n: number of steps between answers
    :param t: number of pixels, a multiple of n
    :param epsilon: privacy loss from 0 to 1
    :param decay: exp(-epsilon), exactly; give one of the two
    :param ends: whether the point masses at 0 and 1 are observed as such (t + 2 columns)

    >>> print(*pixelated_laplace_channel(1, 2, decay=Fraction(1, 4)).rows[0])
    3/4 1/4
    """
    n, t = whole("n", n, most=_MOST_STEPS), whole("t", t, most=_MOST_STEPS)
    if t % n:
        raise ValueError(f"t ({t}) must be a multiple of n ({n})")
    b = _decay(epsilon, decay, t)  # decay across one pixel
    answers, edges = np.arange(0, t + 1, t // n), np.arange(t + 1)
    beyond = _powers(b, t)[abs(edges - answers[:, None])] / 2  # chance to fall beyond an edge
    rows = np.hstack([beyond[:, :1], abs(np.diff(beyond)), beyond[:, -1:]])
    if not ends:
        rows[:, 1] += rows[:, 0]
        rows[:, -2] += rows[:, -1]
        rows = rows[:, 1:-1]
    return Channel(rows)


def laplace_excess_bound(n: int, epsilon: float, lipschitz: float = 1.0) -> float:
    """What truncated Laplace can lose on n-step data beyond the optimum, whatever the prior.

    ``3 lipschitz / (n (1 - exp(-epsilon))**2)`` (Theorem 14), for answers in [0, 1] and a loss
    whose slope in the answer is at most ``lipschitz``.

    :param n: number of steps between 0 and 1
    :param epsilon: privacy loss from 0 to 1
    :param lipschitz: bound on the slope: 1 for the distance, 2 for its square

    >>> round(laplace_excess_bound(100, 2.0), 4)
    0.0401
    """
    n, epsilon = whole("n", n), positive("epsilon", epsilon)
    return 3.0 * positive("lipschitz", lipschitz) / (n * math.expm1(-epsilon) ** 2)


def pixelated_prior(prior: Callable[[float], float], n: int) -> tuple[Fraction, ...]:
    """A distribution on [0, 1] gathered onto {0, 1/n, ..., 1}, each part on its left end.

    :param prior: the cumulative distribution function: the chance of at most x
    :param n: number of steps

    >>> print(*pixelated_prior(lambda x: x, 2))
    1/2 1/2 0
    """
    n = whole("n", n, most=_MOST_STEPS)
    if not callable(prior):
        raise ValueError(f"prior ({prior!r}) must be a cumulative distribution function")
    at = [0.0, *(float(prior(k / n)) for k in range(1, n)), 1.0]
    parts = [Fraction(b) - Fraction(a) for a, b in itertools.pairwise(at)]
    return chances("prior", [*parts, Fraction(0)], n + 1)


def _powers(a: Fraction, most: int) -> NDArray[Any]:
    """Powers of a decay: exact while their digits are few, else floats, which rows make good."""
    if a.denominator.bit_length() * most <= _MOST_BITS:
        return np.array([a**k for k in range(most + 1)])
    return np.array([math.exp(k * math.log(a)) for k in range(most + 1)])


def _decay(epsilon: Any, decay: Any, steps: int = 1) -> Fraction:
    """The decay of each of so many steps, from that of all."""
    if (epsilon is None) == (decay is None):
        raise ValueError(f"give one of epsilon ({epsilon!r}) and decay ({decay!r})")
    if decay is None:
        a = Fraction(math.exp(-positive("epsilon", epsilon) / steps))
        if a in (0, 1):
            each = "-epsilon" if steps == 1 else f"-epsilon / {steps}"
            raise ValueError(f"epsilon ({epsilon!r}) must be such that exp({each}) is in (0, 1)")
        return a
    a = fraction("decay", decay)
    if not 0 < a < 1:
        raise ValueError(f"decay ({decay!r}) must be in (0, 1): it is exp(-epsilon)")
    return a if steps == 1 else _root(a, steps)


def _root(value: Fraction, degree: int) -> Fraction:
    """The root of a fraction: exact where it is rational, the nearest float's fraction otherwise.

    :param value: above 0
    :param degree: which root

    >>> _root(Fraction(1, 16), 4)
    Fraction(1, 2)
    """
    exact = Fraction(_whole_root(value.numerator, degree), _whole_root(value.denominator, degree))
    if exact**degree == value:
        return exact
    return Fraction(math.exp((math.log(value.numerator) - math.log(value.denominator)) / degree))


def _whole_root(n: int, degree: int) -> int:
    """The largest integer whose power is at most n."""
    low, high = 0, 1 << (n.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= n:
            low = middle
        else:
            high = middle - 1
    return low
