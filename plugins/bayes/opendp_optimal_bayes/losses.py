"""Losses of acting as w when the answer is x, as matrices."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from opendp_optimal.extend import Loss, fraction, loss_of, matrix

LossLike = str | Loss | Callable[[Any, Any], Any] | Sequence[Sequence[Any]]


def loss_matrix(
    loss: LossLike, answers: Sequence[Any], actions: Sequence[Any] | None = None
) -> list[list[Fraction]]:
    """The table loss[w][x], checked.

    :param loss: "l1", "l2", "pinball:LEVEL", a registered name or a ``Loss`` (of the error
        w - x), a function of (w, x), or a matrix with a row for each action
    :param answers: the true answers x
    :param actions: the actions w; the answers themselves by default

    >>> [[int(v) for v in row] for row in loss_matrix("l1", range(3))]
    [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    """
    points = [fraction("answers", x) for x in answers]
    chosen = points if actions is None else [fraction("actions", w) for w in actions]
    if isinstance(loss, str | Loss):
        of = loss_of(loss)
        return [[of.value(w - x) for x in points] for w in chosen]
    if callable(loss):
        return [[fraction("loss", loss(w, x)) for x in answers] for w in (actions or answers)]
    return matrix("loss", loss, None if actions is None else len(chosen), len(points))


def bayes_risk(size: int) -> list[list[int]]:
    """The loss of guessing wrong: 0 where w is x, else 1.

    :param size: number of answers

    >>> bayes_risk(2)
    [[0, 1], [1, 0]]
    """
    return [[int(w != x) for x in range(size)] for w in range(size)]


def is_legal(loss: Any) -> bool:
    """Whether a square loss matrix grows with the distance of w from x, for every x.

    Legal losses are those for which the geometric mechanism is optimal: m(|w - x|, x), never
    falling in its first argument.

    :param loss: loss[w][x] with actions and answers at the same places

    >>> is_legal(loss_matrix("l2", range(4))), is_legal([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    (True, False)
    """
    table = matrix("loss", loss, None, None)
    size = len(table)
    if len(table[0]) != size:
        return False
    for x in range(size):
        by_distance = sorted((abs(w - x), table[w][x]) for w in range(size))
        for (near, less), (far, more) in itertools.pairwise(by_distance):
            if less > more or (near == far and less != more):
                return False
    return True
