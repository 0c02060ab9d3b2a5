"""What the budgets of a population mean: the notion of privacy, its parameters, the grid."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from opendp_optimal.budget import ApproxGpFilter, GaussianFilter
from opendp_optimal.extend import choice, moderate, power_of_two, share

PRIVACY = ("cgp", "gp", "approx-gp")


@dataclass(frozen=True)
class Terms:
    """Checked parameters; populations in a ledger are opened with the ones they were made with.

    :param budget: of each user
    :param privacy: "cgp", "gp" or "approx-gp"
    :param grid: grid step of the points, a power of two
    :param delta: for "approx-gp"
    :param reach: for "approx-gp": the largest distance that is protected
    :param tight: for "approx-gp": the exact Gaussian curve in place of equation (10)
    """

    budget: Any
    privacy: str
    grid: float
    delta: float | None
    reach: float | None
    tight: bool

    def __post_init__(self) -> None:
        """Check everything."""
        delta, reach = self.delta, self.reach
        checked = {
            "privacy": choice("privacy", self.privacy, PRIVACY),
            "grid": power_of_two("grid", self.grid),
            "budget": moderate("budget", self.budget),
            "tight": bool(self.tight),
        }
        approximate = self.privacy == "approx-gp"
        if (delta is not None) != approximate or (reach is not None) != approximate:
            raise ValueError(
                f"delta ({delta!r}) and reach ({reach!r}) must be given for 'approx-gp' only"
            )
        if approximate:
            checked |= {"delta": share("delta", delta), "reach": moderate("reach", reach)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def capacity(self) -> Fraction:
        """What each user may spend in all, in the unit of prices, exactly."""
        if self.privacy != "approx-gp":
            return Fraction(self.budget)
        kind = GaussianFilter if self.tight else ApproxGpFilter
        return kind(self.budget, delta=self.delta, reach=self.reach).capacity
