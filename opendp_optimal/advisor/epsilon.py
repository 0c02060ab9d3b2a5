"""epsilon_for: how much privacy an acceptable error needs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

from opendp_optimal import known
from opendp_optimal.checks import finite, positive
from opendp_optimal.errors import GapWarning
from opendp_optimal.exact.halving import least
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.problem.noise import MAX_EPSILON, check_target
from opendp_optimal.search.noise import solve

_CLOSE = 1e-3
_LEAST = 1e-4
_CANDIDATES = ("staircase", "laplace", "truncated_laplace", "tulap")


def epsilon_for(
    error: float,
    *,
    delta: float = 0.0,
    sensitivity: float = 1.0,
    loss: str | Loss | Callable[[float], float] = "l1",
) -> float:
    """Return the least epsilon that reaches an expected loss, within a part of 10^-3.

    A certified table for the epsilon that is returned has at most this expected loss.

    :param error: the largest acceptable expected loss, in the answer's own units
    :param delta: the probability of a larger privacy loss
    :param sensitivity: the largest change of the answer between neighbours
    :param loss: of which the error is the expectation: "l1" for the absolute error
    :raises ValueError: if no epsilon between 1e-4 and 32 reaches the error

    >>> 0.96 < epsilon_for(1.0, sensitivity=1.0) < 0.965
    True
    """
    parsed = loss_of(loss)
    _, chance = check_target(_LEAST, finite("delta", delta))
    if not parsed.power:
        raise ValueError(f"loss ({parsed.name}) must be l1, l2 or pinball: others do not scale")
    wanted = positive("error", error) / positive("sensitivity", sensitivity) ** parsed.power

    def about(epsilon: float) -> float:
        return min(known.expected_loss(name, epsilon, chance, parsed) for name in _CANDIDATES)

    if about(_LEAST) <= wanted:
        return _LEAST
    guess = least(lambda e: about(e) <= wanted, _LEAST, MAX_EPSILON, close=1e-6)
    at = _rounded(min(guess, MAX_EPSILON))
    # By which part the loss falls with a part of epsilon: so much wider may the gap be.
    steep = max(1.0, math.log(about(at / 1.01) / about(at)) / math.log(1.01))

    def reached(epsilon: float) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GapWarning)
            return solve(epsilon, chance, loss=parsed, gap=_CLOSE / 2 * steep).upper

    low, high, pace = 0.0, math.inf, 1.0
    while True:
        found = reached(at)
        low, high = (low, at) if found <= wanted else (at, high)
        if found > wanted and at == MAX_EPSILON:
            raise ValueError(
                f"error ({error!r}) must be larger: no epsilon up to {MAX_EPSILON:g} reaches it at "
                f"delta ({delta!r}) and sensitivity ({sensitivity!r})"
            )
        # The staircase is optimal without a delta (Geng, Viswanath 2014).
        if high <= max(_LEAST, low * (1 + _CLOSE)) or (chance == 0 and high < math.inf):
            return high
        aside = 1 - _CLOSE / 2 if found <= wanted else 1 + _CLOSE / 2
        root = at * ((found / wanted) ** (1 / steep) * aside) ** pace
        # What is known in closed form may be far above.
        pace = 1.0 if low > 0 else 2 * pace
        if not low < root < high:
            root = math.sqrt(low * high) if low and high < math.inf else at * aside**4
        at = min(MAX_EPSILON, max(_LEAST, _rounded(root)))
        if at == high:
            return high


def _rounded(epsilon: float) -> float:
    """A number of four figures, rounded up."""
    digits = 4 - math.ceil(math.log10(epsilon))
    return math.ceil(epsilon * 10.0**digits - 1e-9) / 10.0**digits
