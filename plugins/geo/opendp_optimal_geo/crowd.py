"""Who is asked, and what each may spend: points on a grid, budgets in arrays, files of budgets."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.budget.filters import (
    ApproxGpFilter,
    CgpFilter,
    Filter,
    GaussianFilter,
    GpFilter,
)
from opendp_optimal.sample.integers import LARGEST_DIMENSION
from opendp_optimal_geo._checks import METHODS, choice, count, moderate, positive, power_of_two
from opendp_optimal_geo._opendp import require_features
from opendp_optimal_geo.allowances import Ledger, Ticks, Users
from opendp_optimal_geo.curator import Curator
from opendp_optimal_geo.look import Clients, Grid, GridLooker
from opendp_optimal_geo.plan import check_ticks, shares
from opendp_optimal_geo.projection import project
from opendp_optimal_geo.score import Score
from opendp_optimal_geo.state import exact, load_ledger, save_ledger

FloatArray = NDArray[np.float64]

GRID = 2.0**-4
PRIVACY = ("cgp", "gp", "approx-gp")
SAVED = ("budget", "privacy", "grid", "delta", "reach", "tight")


class Crowd:
    """Users with points and budgets, who are charged before they are asked."""

    def __init__(
        self,
        points: Any,
        *,
        budget: Any,
        privacy: str = "cgp",
        grid: float = GRID,
        delta: float | None = None,
        reach: float | None = None,
        tight: bool = True,
        size: int | None = None,
        dimension: int | None = None,
        journal: Path | str | None = None,
        central_budget: Any = None,
    ) -> None:
        """Check everything; nobody is asked yet."""
        self.privacy = choice("privacy", privacy, PRIVACY)
        self.grid = power_of_two("grid", grid)
        self.budget = moderate("budget", budget)
        self.delta, self.reach, self.tight = delta, reach, bool(tight)
        if (delta is None) != (privacy != "approx-gp") or (reach is None) != (delta is None):
            raise ValueError(
                f"delta ({delta!r}) and reach ({reach!r}) must be given for 'approx-gp' only"
            )
        self._components: dict[str, Grid | Clients] = {}
        self._dimensions: dict[str, int] = {}
        if callable(points):
            self._check_clients()
            self.size = count("size", size)
            self._components["data"] = points
            self._dimensions["data"] = count("dimension", dimension)
        else:
            if size is not None or dimension is not None:
                raise ValueError("size and dimension must be left out: the points have them")
            self._components["data"] = self._gridded(points)
            self.size, self._dimensions["data"] = self._gridded_shape("data")
        self.ledger = Ledger(self._filter().capacity, self.size)
        self.journal = None if journal is None else Path(journal)
        self._curator: Curator | None = None
        if central_budget is not None:
            self._curator = Curator(range(self.size), budget=central_budget, commit=self.commit)
        if self.journal is not None:
            self.save(self.journal)

    @classmethod
    def from_lonlat(cls, longitude: Any, latitude: Any, *, crs: str, **options: Any) -> Self:
        """Make a population from degrees, projected into metres.

        :param longitude: degrees
        :param latitude: degrees
        :param crs: projected coordinate system, chosen without looking at the data
        :param options: as for :class:`Population`
        """
        return cls(project(longitude, latitude, crs), **options)

    def __repr__(self) -> str:
        """Show how many users there are and how they are protected, not where they are."""
        return (
            f"{type(self).__name__}({self.size} users, budget={self.budget:g}, "
            f"privacy={self.privacy!r}, grid={self.grid:g})"
        )

    def _check_clients(self) -> None:
        """Ask for the feature under which it is believed that clients use Gaussian noise."""
        if self.privacy == "approx-gp" and self.tight:
            require_features("contrib", "honest-but-curious")

    def _filter(self) -> Filter:
        if self.privacy == "gp":
            return GpFilter(self.budget)
        if self.privacy == "cgp":
            return CgpFilter(self.budget)
        kind = GaussianFilter if self.tight else ApproxGpFilter
        return kind(self.budget, delta=self.delta, reach=self.reach)

    def _gridded(self, points: Any) -> Grid:
        try:
            raw = np.asarray(points)
            if raw.dtype.kind not in "fiu":
                raise ValueError
        except ValueError:
            raise ValueError("points must be an array of numbers, one row per user") from None
        if raw.ndim != 2 or not raw.shape[0] or not raw.shape[1]:
            raise ValueError(f"points (shape {raw.shape}) must have one row per user")
        result = np.empty(raw.shape, np.int32)
        rows = max(1, (1 << 20) // raw.shape[1])
        for begin in range(0, len(raw), rows):
            part = _steps(raw[begin : begin + rows], self.grid)
            if not (np.isfinite(part).all() and (np.abs(part) < 2.0**31 - 1.0).all()):
                limit = self.grid * 2.0**31
                raise ValueError(f"points must be finite, with coordinates below {limit:g}")
            result[begin : begin + rows] = part
        return result

    def _gridded_shape(self, name: str) -> tuple[int, int]:
        data = self._components[name]
        assert isinstance(data, np.ndarray)
        return data.shape[0], data.shape[1]

    def add_component(self, name: str, points: Any, *, dimension: int | None = None) -> None:
        """Add more data of the same users, or the same data after it changed.

        Components share the budgets: the guarantee is for the maximum of their distances.

        :param name: not yet taken
        :param points: one row per user, or a callable that asks clients of their own
        :param dimension: length of the points, for clients of their own
        """
        if not name or name in self._components:
            raise ValueError(f"name ({name!r}) must be new: changed data is a new component")
        if callable(points):
            self._check_clients()
            length = count("dimension", dimension)
            self._components[name], self._dimensions[name] = points, length
            return
        data = self._gridded(points)
        if len(data) != self.size:
            raise ValueError(f"points ({len(data)} rows) must have {self.size}, one per user")
        self._components[name], self._dimensions[name] = data, data.shape[1]

    @property
    def capacity(self) -> Fraction:
        """What each user may spend in all, in the unit of prices, exactly."""
        return self.ledger.capacity

    @property
    def spent(self) -> FloatArray:
        """What each user has paid, rounded up."""
        return self.ledger.spent()

    @property
    def remaining(self) -> FloatArray:
        """What each user has left, rounded down."""
        return self.ledger.remaining()

    @property
    def central_remaining(self) -> Fraction:
        """What is left for central queries, exactly."""
        return Fraction(0) if self._curator is None else self._curator.remaining

    @property
    def halted(self) -> NDArray[np.bool_]:
        """Who was asked for more than was left, and answers no more."""
        return self.ledger.halted.copy()

    @property
    def bytes_per_user(self) -> float:
        """Memory held between queries, per user."""
        held = self.ledger.paid.nbytes + self.ledger.halted.nbytes
        held += sum(d.nbytes for d in self._components.values() if isinstance(d, np.ndarray))
        return held / self.size

    def save(self, path: Path | str) -> None:
        """Write the budgets to a file, all or nothing. The points are not written.

        :param path: file to replace
        """
        settings = {name: getattr(self, name) for name in SAVED}
        if self._curator is not None:
            central = self._curator.filter
            settings["central"] = [str(central.capacity), str(central.total)]
        save_ledger(Path(path), self.ledger, settings)

    @classmethod
    def restore(
        cls, points: Any, path: Path | str, *, journal: Path | str | None = None, **options: Any
    ) -> Self:
        """Make a population whose budgets go on where a file left off.

        :param points: as before, or a callable that asks clients of their own
        :param path: file written by :meth:`save` or as a journal
        :param journal: file to go on writing to
        :param options: ``size``, ``dimension``, and ``central_budget`` if there was none
        """
        ledger, settings = load_ledger(Path(path))
        if not isinstance(settings, dict) or set(settings) - {"central"} != set(SAVED):
            raise ValueError(f"path ({Path(path).name}) must hold budgets with their settings")
        if "central" in settings:
            if "central_budget" in options:
                raise ValueError("central_budget must be left out: the file says what is left")
            options["central_budget"] = _central(settings.pop("central"), Path(path).name)
        population = cls(points, **settings, **options)
        if population.capacity != ledger.capacity:
            raise ValueError(
                f"path ({Path(path).name}) must hold budgets that fit their settings: nobody "
                "has paid from more than was there"
            )
        if population.size != ledger.size:
            raise ValueError(
                f"points ({population.size} users) must belong to the {ledger.size} users saved"
            )
        population.ledger = ledger
        population.journal = None if journal is None else Path(journal)
        if population.journal is not None:
            population.save(population.journal)
        return population

    def charge(self, users: Users, ticks: Ticks) -> NDArray[np.bool_]:
        """Charge users for a look; return who may be asked.

        :param users: indices, each at most once
        :param ticks: prices in ticks of ``capacity / 2**40``
        """
        return self.ledger.charge(users, ticks)

    def commit(self) -> None:
        """Write the budgets to the journal, if there is one; called before a look is run."""
        if self.journal is not None:
            self.save(self.journal)

    def allotment(self, budget: Any) -> Ticks:
        """Return a budget in ticks for each user, rounded down.

        :param budget: one positive number for all, or one at least 0 for each user
        """
        if np.ndim(budget) == 0:
            value = positive("budget", budget)
            if Fraction(value) > self.capacity:
                raise ValueError(
                    f"budget ({budget!r}) must be at most the whole, {float(self.capacity):g}"
                )
            return self.ledger.allotment(value)
        values = np.asarray(budget, np.float64)
        if values.shape != (self.size,):
            raise ValueError(f"budget (shape {values.shape}) must be one number, or one per user")
        if not (np.isfinite(values).all() and (values >= 0.0).all() and values.any()):
            raise ValueError("budget must be finite and at least 0, for somebody above 0")
        return self.ledger.allotment(values)

    def _dimension(self, component: str) -> int:
        if component not in self._components:
            raise ValueError(f"component ({component!r}) must be one that was added")
        return self._dimensions[component]

    def _looker(
        self, score: Score, budget: Any, method: str, looks: Any, baseline: bool, component: str
    ) -> GridLooker:
        """Check what all queries have in common; nothing is charged."""
        method = choice("method", method, METHODS)
        dimension = self._dimension(component)
        if score.dimension != dimension:
            raise ValueError(
                f"component ({component!r}) has {dimension} coordinates, {score.dimension} wanted"
            )
        limit = self.grid * 2.0**31
        if score.extent >= limit:
            raise ValueError(f"coordinates (up to {score.extent:g}) must be below {limit:g}")
        split = shares(("even", 1) if baseline else looks, budget)
        allotment = self.allotment(budget)
        check_ticks(allotment, split)
        pure = self.privacy == "gp"
        if pure and method == "point" and dimension > LARGEST_DIMENSION:
            raise ValueError(
                f"method ('point') must be 'distance' for Laplace noise beyond "
                f"{LARGEST_DIMENSION} coordinates"
            )
        looker = GridLooker(
            self,
            self._components[component],
            self.grid,
            dimension,
            score,
            method,
            pure,
            split,
            allotment,
            component,
        )
        looker.check_noise()
        return looker


def _steps(points: NDArray[Any], grid: float) -> NDArray[Any]:
    """Return the grid step nearest to each coordinate, of any type of number, without error."""
    bits = math.frexp(grid)[1] - 1
    if points.dtype.kind in "iu" and bits > 0:  # whole numbers beyond 2^53 are not floats
        whole = points if points.dtype == np.uint64 else points.astype(np.int64)
        return (whole >> bits) + ((whole >> (bits - 1)) & 1)
    with np.errstate(all="ignore"):  # what overflows is refused
        return np.rint(np.asarray(points, np.result_type(points, np.float64)) / grid)


def _central(written: Any, name: str) -> Filter:
    """Return the filter of central queries as it was saved; its prices are Gaussian."""
    try:
        if not isinstance(written, list):
            raise ValueError
        capacity, total = map(exact, written)
        return Filter(capacity, total)
    except ValueError:
        raise ValueError(f"path ({name}) must hold what is left of the central budget") from None
