"""Errors of databases, without their texts: they may quote a cell, or a password."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class WarehouseError(ConnectionError):
    """A database could not be reached, or did not answer."""


def quietly(message: str, function: Callable[[], T]) -> T:
    """Replace whatever error a database raises by one that says nothing of its data.

    :param message: all that is said
    :param function: asks the database
    """
    try:
        return function()
    except WarehouseError:
        raise
    except Exception:
        pass
    # Outside of the handler: nothing keeps what was raised.
    raise WarehouseError(message)
