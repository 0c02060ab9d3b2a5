"""A loss: quadratic for small errors, linear for large ones (Huber 1964)."""

from __future__ import annotations

from opendp_optimal import Loss


def huber(x: float) -> float:
    """Return x^2 / 2 up to 1 and |x| - 1/2 beyond.

    >>> huber(0.5), huber(-3.0)
    (0.125, 2.5)
    """
    size = abs(x)
    return size * size / 2 if size <= 1 else size - 0.5


HUBER = Loss(huber, "huber")
