"""What every problem whose tables are kept says of itself: plain values, and a digest of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any, ClassVar, Self

from opendp_optimal.errors import TableFormatError
from opendp_optimal.losses.base import Loss, from_fingerprint


def _plain(value: Any) -> Any:
    if isinstance(value, Loss):
        return value.fingerprint
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.hex() if isinstance(value, float) else value


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_restored(part) for part in value)
    return float.fromhex(value) if isinstance(value, str) else value


class Problem:
    """A frozen dataclass with a loss; its other fields are numbers, flags, or tuples of numbers."""

    LABEL: ClassVar[str] = ""
    """What distinguishes its digests from those of other kinds of problems."""

    def __getstate__(self) -> dict[str, Any]:
        """What was worked out is left behind in copies and pickles."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def describe(self) -> dict[str, Any]:
        """The problem as plain values, in a fixed order."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_description(cls, described: dict[str, Any], loss: Loss | None = None) -> Self:
        """The problem that :meth:`describe` described.

        :param described: plain values
        :param loss: the loss it must have; needed to evaluate a user's own
        """
        problem = cls(loss=loss or from_fingerprint(described["loss"]), **cls._values(described))  # type: ignore[call-arg]
        if problem.describe() != described:
            raise TableFormatError("the problem in the file is not the one that was asked for")
        return problem

    @classmethod
    def _values(cls, described: dict[str, Any]) -> dict[str, Any]:
        """The fields but the loss."""
        return {name: _restored(v) for name, v in described.items() if name != "loss"}

    @property
    def fingerprint(self) -> str:
        """The address of the problem's table: a digest of everything that was asked."""
        plain: Any = {self.LABEL: self.describe()} if self.LABEL else self.describe()
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
