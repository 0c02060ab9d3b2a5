"""How to search, whatever the problem: checked once, then handed on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from opendp_optimal.arrays import Progress
from opendp_optimal.checks import choice, positive, whole
from opendp_optimal.errors import GapWarning

METHODS = {
    "noise": ("auto", "interior", "highs", "cutting-planes", "partition-cuts"),
    "channel": ("auto", "interior", "highs"),
}
"""What each kind of programme can be solved by."""
SLOWER = dict.fromkeys(("highs", "cutting-planes", "partition-cuts"), 50)
"""How much longer methods take that do not use the interior-point method."""


def silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What a caller may ask of every search.

    :param kind: of the programmes to solve: "noise" or "channel"
    :param gap: largest acceptable certified relative gap (upper - lower) / lower
    :param method: one of the kind's ``METHODS``
    :param cache: look for the table on disk first, and keep it there
    :param cells: force the lattice cells per unit of sensitivity
    :param progress: called with a line of text at each step
    """

    kind: str
    gap: float = 1e-3
    method: str = "auto"
    cache: bool = True
    cells: int | None = None
    progress: Progress = silent

    def __post_init__(self) -> None:
        """Check what was asked."""
        object.__setattr__(self, "gap", positive("gap", self.gap))
        choice("method", self.method, METHODS[self.kind])
        if self.cells is not None:
            object.__setattr__(self, "cells", whole("cells", self.cells, most=4096))

    def warn(self, reached: float, epsilon: float, delta: float) -> None:
        """Warn the caller's caller where the gap that was reached is larger than asked for."""
        if reached > self.gap:
            warnings.warn(
                f"the certified gap is {reached:.3%}, above the {self.gap:.3%} asked for: this is "
                f"the best reached at epsilon ({epsilon}) and delta ({delta})",
                GapWarning,
                stacklevel=3,
            )
