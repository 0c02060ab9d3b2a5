"""What an error costs."""

from __future__ import annotations

from typing import Any

NAMED: dict[str, Any] = {}
"""What can be asked for by name: losses, and functions that make one when it is asked for.

A name that ends with a colon is a family's: its function gets what is behind the colon.
"""


def add_loss(loss: Any, name: str) -> None:
    """Let a loss, or what makes it, be asked for by name; the same one may be added again."""
    refuse_taken(loss, name)
    NAMED[name] = loss


def refuse_taken(loss: Any, name: str) -> None:
    """Raise if another loss has the name."""
    if NAMED.get(name, loss) != loss:
        raise ValueError(f"loss name ({name!r}) is taken")
