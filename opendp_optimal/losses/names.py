"""Losses that plugins have added by name."""

from __future__ import annotations

from collections.abc import Callable

from opendp_optimal.losses.base import Loss, is_reserved, parse

_named: dict[str, Loss] = {}


def add_loss(loss: Loss) -> None:
    """Make a loss usable by its name; a taken name raises ``ValueError``."""
    if not isinstance(loss, Loss):
        raise ValueError(f"loss ({loss!r}) must be a Loss")
    if is_reserved(loss.name) or loss.name in _named:
        raise ValueError(f"loss name ({loss.name!r}) is taken")
    _named[loss.name] = loss


def loss_of(loss: str | Loss | Callable[[float], float]) -> Loss:
    """Like :func:`parse`, and knows the names that plugins added."""
    if isinstance(loss, str) and loss in _named:
        return _named[loss]
    return parse(loss)


def loss_names() -> list[str]:
    """All names that can be used."""
    return ["l1", "l2", "pinball:LEVEL", *sorted(_named)]
