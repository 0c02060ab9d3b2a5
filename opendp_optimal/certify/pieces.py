"""A number below a function everywhere: the piece that looks worst is halved, again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from heapq import heapify, heappush, heapreplace
from itertools import pairwise


def least_down(
    below: Callable[[Fraction, Fraction], Fraction],
    places: Iterable[int],
    enough: Fraction,
    halves: int,
) -> Fraction:
    """A number below a function between the first place and the last, at most ``enough``.

    :param below: what is proved to be below the function from one place to another
    :param places: ascending; pieces are those between neighbours
    :param enough: a piece that is proved to be above it is not halved
    :param halves: so often at most a piece is halved
    """
    pieces = [(below(low, high), low, high) for low, high in pairwise(map(Fraction, places))]
    heapify(pieces)
    while pieces[0][0] < enough and halves > 0:
        _, low, high = pieces[0]
        middle = (low + high) / 2
        heapreplace(pieces, (below(low, middle), low, middle))
        heappush(pieces, (below(middle, high), middle, high))
        halves -= 1
    return min(enough, pieces[0][0])
