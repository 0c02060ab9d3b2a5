"""What Gaussian and Laplace noise cost, rounded up: special functions from Arb, with error bounds.

A real Gaussian that is rounded obeys the analytic curve (Balle, Wang 2018), by post-processing. The
discrete Gaussian does not: its delta is a sum of its own. For both the largest change is the
worst: where noise loses by a change, it loses more by a larger one, since chances fall with the
distance from 0.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

from opendp_optimal.exact.numbers import float_up

_BITS = (128, 256, 512, 1024, 4096)
_ACCURATE = 40
"""Relative bits that an answer must have, unless more precision does not help."""
_FORGOTTEN = 200.0
"""Weights below exp of minus this are bounded, not summed."""


def _above(compute: Any) -> float:
    """The least float that is proved not to be below a number of Arb's."""
    from flint import ctx

    from opendp_optimal.certify.balls import precision, up

    with precision():
        for bits in _BITS:
            ctx.prec = bits
            ball = compute()
            if ball.rel_accuracy_bits() >= _ACCURATE:
                break
        return float_up(up(ball)) if ball.is_finite() else math.inf


def _exact(value: Fraction | float | int) -> Any:
    from opendp_optimal.certify.balls import ball

    return ball(value)


def _below_normal(x: Any) -> Any:
    """The chance that a standard Gaussian is below x."""
    from flint import arb

    return (-x / arb(2).sqrt()).erfc() / 2


@lru_cache(maxsize=4096)
def gaussian_delta_up(square: Fraction, epsilon: float) -> float:
    """The delta of Gaussian noise at an epsilon, rounded up.

    :param square: of the distance between neighbours in standard deviations
    :param epsilon: at least 0

    >>> round(gaussian_delta_up(Fraction(1), 1.0), 6)
    0.126937
    """
    if square == 0:
        return 0.0

    def delta() -> Any:
        mu, loss = _exact(square).sqrt(), _exact(epsilon)
        first = _below_normal(mu / 2 - loss / mu)
        return first - loss.exp() * _below_normal(-mu / 2 - loss / mu)

    return min(1.0, max(0.0, _above(delta)))


def discrete_gaussian_delta_up(rate: float, shift: int, epsilon: float) -> float:
    """The delta of discrete Gaussian noise at an epsilon, rounded up, by its own sum.

    The chance of k is proportional to ``exp(-rate * k**2)``.

    :param rate: of the noise
    :param shift: the largest change, a whole number
    :param epsilon: at least 0

    >>> round(discrete_gaussian_delta_up(0.5, 1, 1.0), 6)  # the analytic curve says 0.126937
    0.141351
    """
    if shift == 0:
        return 0.0
    exact, loss = Fraction(rate), Fraction(epsilon)
    tails, rest = _tails(rate)
    reach = len(tails) // 2
    # p(k) > e^epsilon p(k + shift) exactly where 2 k shift + shift^2 > epsilon / rate.
    first = math.floor((loss / exact - shift * shift) / (2 * shift)) + 1
    kept = tails[min(max(first, -reach), reach) + reach] + rest
    there = first + shift + reach  # beyond the middle, and maybe all that is summed
    lost = sum(tails[there : there + 1])
    return min(1.0, max(0.0, _above(lambda: (kept - _exact(loss).exp() * lost) / tails[0])))


@lru_cache(maxsize=16)
def _tails(rate: float) -> tuple[list[Any], Any]:
    """Sums of the weights from each k on up to a reach, and a bound on those beyond."""
    from flint import arb

    from opendp_optimal.certify.balls import precision

    with precision(_BITS[2]):
        exact = Fraction(rate)
        reach = math.ceil(math.sqrt(_FORGOTTEN / rate)) + 1
        side = [(-_exact(exact * k * k)).exp() for k in range(reach + 1)]
        tails = [arb(0)] * (2 * reach + 1)
        total = arb(0)
        for k in range(reach, -reach - 1, -1):
            total = total + side[abs(k)]
            tails[k + reach] = total
        # Beyond the reach weights fall faster than a geometric series of this ratio.
        beyond = side[-1] / (1 - (-_exact(exact * (2 * reach + 1))).exp())
        return tails, beyond


def pure_rho_up(epsilon: float) -> float:
    """The zCDP price of a pure release: ``epsilon * tanh(epsilon / 2)``, rounded up.

    Randomised response has the largest Rényi divergences of all pure releases, and theirs, divided
    by the order, are largest as the order falls to 1.

    >>> round(pure_rho_up(1.0), 6)
    0.462117
    """
    return _above(lambda: _exact(epsilon) * (_exact(epsilon) / 2).tanh()) if epsilon else 0.0


def laplace_rho_up(epsilon: Fraction) -> float:
    """The zCDP price of real Laplace noise: ``epsilon + exp(-epsilon) - 1``, rounded up.

    :param epsilon: its pure price

    >>> round(laplace_rho_up(Fraction(1)), 6)
    0.367879
    """
    return _above(lambda: _exact(epsilon) + (-_exact(epsilon)).expm1()) if epsilon else 0.0


def laplace_delta_up(epsilon: Fraction, at: float) -> float:
    """The delta of real Laplace noise of a pure price, at an epsilon, rounded up."""
    gain = max(Fraction(0), epsilon - Fraction(at))
    return _above(lambda: -(-_exact(gain) / 2).expm1())
