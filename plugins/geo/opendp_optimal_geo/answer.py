"""What a query returns: a value, its error bound, its price, and what happened in each look."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Round:
    """One look: its share of the price, who was asked, who was decided.

    :param look: number of the look, from 1
    :param share: share of the query's budget that the look costs
    :param asked: users who were charged
    :param refused: users who halted instead
    :param inside: users found useful for certain (S_1)
    :param outside: users eliminated (S_0)
    """

    look: int
    share: float
    asked: int
    refused: int
    inside: int
    outside: int


@dataclass(frozen=True)
class Answer:
    """The answer to one query, with what is known about its error and its price.

    :param value: the estimate
    :param error_bound: the error is at most this, except with probability ``beta``
    :param beta: failure probability
    :param saving: mean share of the query's budget that users kept
    :param rounds: what happened in each look
    :param missing: users who gave no answer at all (halted, or nothing left)
    :param decided_at: for each user the look at which it was decided, 0 if never
    :param generation: of the ledger after the last look; None without one
    """

    value: Any
    error_bound: float
    beta: float
    saving: float
    rounds: tuple[Round, ...]
    missing: int = 0
    decided_at: NDArray[np.uint16] | None = field(default=None, repr=False, compare=False)
    generation: int | None = field(default=None, compare=False)
