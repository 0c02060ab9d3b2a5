"""Many users, each with a budget of their own, asked by the local protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.budget import (
    ApproxGpFilter,
    CgpFilter,
    Filter,
    GaussianFilter,
    GpFilter,
)
from opendp_optimal.extend import (
    choice,
    moderate,
    positive,
    power_of_two,
    require_features,
    share,
    whole,
)
from opendp_optimal_geo.allowances import Allowances, Mask, Payment, Price
from opendp_optimal_geo.answer import Answer, DensityMap, Round, density_map
from opendp_optimal_geo.curator import Curator
from opendp_optimal_geo.elimination import KeepAll, Part, Reading, Rule, State, start
from opendp_optimal_geo.grid import Grid, to_grid
from opendp_optimal_geo.look import Clients, People
from opendp_optimal_geo.plan import METHODS, Look, Plan, shares
from opendp_optimal_geo.query import (
    KernelDensity,
    Nearest,
    Points,
    Query,
    RangeCount,
    check_map,
)
from opendp_optimal_geo.score import Score, SignedDistance
from opendp_optimal_geo.state import exact, load_allowances, save_allowances

__all__ = ["Population"]

FloatArray = NDArray[np.float64]
Progress = Callable[[int, int], None]
"""Called with users x looks done and at most to do."""

GRID = 2.0**-4
PRIVACY = ("cgp", "gp", "approx-gp")
SAVED = ("budget", "privacy", "grid", "delta", "reach", "tight")
ELIMINATION_SHARE = 0.25
"""Part of the failure probability that goes to the eliminations (Remark 6)."""


class Looked(NamedTuple):
    """What the looks of a query left."""

    state: State
    rounds: tuple[Round, ...]
    saving: float


class Population:
    """Users with points and budgets.

    Each user answers with noise of their own (the local model) and pays for it; a price beyond
    what is left halts the user for good (Algorithm 1). The guarantee is about points on the grid:
    rounding moves a point by at most half a grid step per coordinate.

    :param points: one row per user, or a callable that asks clients of their own
    :param budget: per user: epsilon per unit ("gp", "approx-gp") or rho per squared unit ("cgp")
    :param privacy: "cgp" (Gaussian noise), "gp" (Laplace noise) or "approx-gp" (Gaussian noise,
        epsilon per unit up to ``reach`` with probability ``1 - delta``)
    :param grid: grid step of the points, a power of two; 1/16 by default
    :param delta: for "approx-gp"
    :param reach: for "approx-gp": the largest distance that is protected
    :param tight: for "approx-gp": the exact Gaussian curve in place of equation (10); for
        clients of their own, whose noise nothing checks, it needs OpenDP's feature
        "honest-but-curious"
    :param size: number of users, for clients of their own
    :param dimension: length of the points, for clients of their own
    :param journal: file that holds the budgets, rewritten before every look
    :param central_budget: rho for central threshold queries, apart from the users' budgets

    >>> from opendp_optimal_geo import RangeCount, rectangle
    >>> people = Population([[0.0, 0.0], [900.0, 0.0], [5000.0, 0.0]], budget=0.01)
    >>> answer = people.ask(RangeCount(rectangle((0, 0), 2000, 2000)), budget=0.005)
    >>> answer.value, answer.error_bound, answer.saving > 0.5
    (2, 0, True)
    """

    engine: Callable[..., Iterable[FloatArray]] = staticmethod(map)
    """Maps a look over blocks of users, in order: ``map``, or that of an executor."""

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
            self.size = whole("size", size)
        elif size is not None or dimension is not None:
            raise ValueError("size and dimension must be left out: the points have them")
        else:
            points = to_grid(points, self.grid)
            self.size = len(points)
        self._keep("data", points, dimension)
        self.allowances = Allowances(self._filter().capacity, self.size)
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
        from opendp_optimal_geo.projection import project

        return cls(project(longitude, latitude, crs), **options)

    def __repr__(self) -> str:
        """Show how many users there are and how they are protected, not where they are."""
        return (
            f"{type(self).__name__}({self.size} users, budget={self.budget:g}, "
            f"privacy={self.privacy!r}, grid={self.grid:g})"
        )

    def _filter(self) -> Filter:
        if self.privacy == "gp":
            return GpFilter(self.budget)
        if self.privacy == "cgp":
            return CgpFilter(self.budget)
        kind = GaussianFilter if self.tight else ApproxGpFilter
        return kind(self.budget, delta=self.delta, reach=self.reach)

    def _keep(self, name: str, data: Grid | Clients, dimension: int | None) -> None:
        """Keep data, or clients, under a name."""
        if isinstance(data, np.ndarray):
            self._components[name], self._dimensions[name] = data, data.shape[1]
            return
        if self.privacy == "approx-gp" and self.tight:  # that their noise is Gaussian is believed
            require_features("contrib", "honest-but-curious")
        self._dimensions[name] = whole("dimension", dimension)
        self._components[name] = data

    def add_component(self, name: str, points: Any, *, dimension: int | None = None) -> None:
        """Add more data of the same users, or the same data after it changed.

        Components share the budgets: the guarantee is for the maximum of their distances.

        :param name: not yet taken
        :param points: one row per user, or a callable that asks clients of their own
        :param dimension: length of the points, for clients of their own
        """
        if not name or name in self._components:
            raise ValueError(f"name ({name!r}) must be new: changed data is a new component")
        if not callable(points):
            points = to_grid(points, self.grid)
            if len(points) != self.size:
                raise ValueError(f"points ({len(points)} rows) must have {self.size}, one per user")
        self._keep(name, points, dimension)

    @property
    def capacity(self) -> Fraction:
        """What each user may spend in all, in the unit of prices, exactly."""
        return self.allowances.capacity

    @property
    def spent(self) -> FloatArray:
        """What each user has paid, rounded up."""
        return self.allowances.spent()

    @property
    def remaining(self) -> FloatArray:
        """What each user has left, rounded down."""
        return self.allowances.remaining()

    @property
    def central_remaining(self) -> Fraction:
        """What is left for central queries, exactly."""
        return Fraction(0) if self._curator is None else self._curator.remaining

    @property
    def halted(self) -> Mask:
        """Who was asked for more than was left, and answers no more."""
        return self.allowances.halted.copy()

    @property
    def bytes_per_user(self) -> float:
        """Memory held between queries, per user."""
        held = self.allowances.paid.nbytes + self.allowances.halted.nbytes
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
        save_allowances(Path(path), self.allowances, settings)

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
        allowances, settings = load_allowances(Path(path))
        if not isinstance(settings, dict) or set(settings) - {"central"} != set(SAVED):
            raise ValueError(f"path ({Path(path).name}) must hold budgets with their settings")
        if "central" in settings:
            if "central_budget" in options:
                raise ValueError("central_budget must be left out: the file says what is left")
            options["central_budget"] = _central(settings.pop("central"), Path(path).name)
        population = cls(points, **settings, **options)
        if population.capacity != allowances.capacity:
            raise ValueError(
                f"path ({Path(path).name}) must hold budgets that fit their settings: nobody "
                "has paid from more than was there"
            )
        if population.size != allowances.size:
            raise ValueError(
                f"points ({population.size} users) must belong to the {allowances.size} users saved"
            )
        population.allowances = allowances
        population.journal = None if journal is None else Path(journal)
        population.commit()
        return population

    def commit(self) -> None:
        """Write the budgets to the journal, if there is one; called before a look is run."""
        if self.journal is not None:
            self.save(self.journal)

    def allotment(self, budget: Any) -> Price:
        """Return a budget in ticks of ``capacity / 2**40``, rounded down.

        :param budget: one positive number for all, or one at least 0 for each user
        """
        if np.ndim(budget) == 0:
            value = positive("budget", budget)
            if Fraction(value) > self.capacity:
                raise ValueError(
                    f"budget ({budget!r}) must be at most the whole, {float(self.capacity):g}"
                )
            return self.allowances.allotment(value)
        values = np.asarray(budget, np.float64)
        if values.shape != (self.size,):
            raise ValueError(f"budget (shape {values.shape}) must be one number, or one per user")
        if not (np.isfinite(values).all() and (values >= 0.0).all() and values.any()):
            raise ValueError("budget must be finite and at least 0, for somebody above 0")
        return self.allowances.allotment(values)

    def ask(
        self,
        query: Query,
        *,
        budget: Any,
        method: str = "point",
        looks: Any = ("doubling", 10),
        beta: float = 0.05,
        baseline: bool = False,
        component: str = "data",
        progress: Progress | None = None,
    ) -> Answer:
        """Ask everybody a question, several times and cheaply, as long as they may still matter.

        :param query: :class:`RangeCount`, :class:`KernelDensity`, :class:`Nearest`
            or :class:`Points`
        :param budget: what each user may spend on it: one number, or one for each user
        :param method: users send noisy points ("point") or noisy distances ("distance")
        :param looks: ("even", c), ("doubling", c), or prices that add up to the budget
        :param beta: failure probability of the error bound
        :param baseline: one look at the whole price for everybody, nobody is eliminated
        :param component: which data
        :param progress: called with users x looks done and at most to do
        """
        score = query.score(self.size, self._dimension(component))
        baseline = baseline or isinstance(query, Points)
        if isinstance(query, Points) and method != "point":
            raise ValueError(f"method ({method!r}) must be 'point' for points")
        plan = self._plan(score, budget, method, looks, baseline, component)
        beta = share("beta", beta)
        deciding = 0.0 if baseline else ELIMINATION_SHARE * beta
        rule = KeepAll() if baseline else query.rule(deciding)
        state, rounds, saving = self._take_looks(plan, rule, progress)
        last = beta if baseline else (1.0 - ELIMINATION_SHARE) * beta
        value, bound, missing = query.estimate(plan, state, last, baseline)
        return Answer(value, bound, beta, saving, rounds, missing, state.decided_at)

    def _dimension(self, component: str) -> int:
        if component not in self._components:
            raise ValueError(f"component ({component!r}) must be one that was added")
        return self._dimensions[component]

    def _plan(
        self, score: Score, budget: Any, method: str, looks: Any, baseline: bool, component: str
    ) -> Plan:
        """Check what all queries have in common; nothing is charged."""
        method, dimension = choice("method", method, METHODS), self._dimension(component)
        if score.dimension != dimension:
            raise ValueError(
                f"component ({component!r}) has {dimension} coordinates, {score.dimension} wanted"
            )
        limit = self.grid * 2.0**31
        if score.extent >= limit:
            raise ValueError(f"coordinates (up to {score.extent:g}) must be below {limit:g}")
        split = shares(("even", 1) if baseline else looks, budget)
        pure, tick = self.privacy == "gp", self.allowances.tick
        allotment = self.allotment(budget)
        plan = Plan(score, method, pure, self.grid, split, allotment, self.size, tick, component)
        if isinstance(self._components[component], np.ndarray):
            plan.check_noise()
        return plan

    def _take_looks(self, plan: Plan, rule: Rule, progress: Progress | None = None) -> Looked:
        """Look as often as the plan says, or until nobody is left to look at."""
        data, rounds, begun = self._components[plan.component], list[Round](), 0
        people, state = People(data, plan), start(plan)
        at_once = self.journal is None and isinstance(data, np.ndarray)
        payment = Payment(self.allowances, plan.allotment, at_once=at_once)
        try:
            for look in plan.looks:
                if not rule.goes_on(state):
                    break
                asked = [payment.charge(b.users, look.price(b.users)) for b in state.blocks]
                self.commit()
                begun, before = begun + 1, state
                state = self._take_look(people, look, rule, state, asked, progress)
                rounds.append(_round(look, before, state, asked))
        finally:
            everybody = np.zeros(0, np.intp)
            prices = [look.price(everybody) for look in plan.looks]
            payment.settle(state.decided_at, prices, begun)
        return Looked(state, tuple(rounds), payment.saving)

    def _take_look(
        self,
        people: People,
        look: Look,
        rule: Rule,
        state: State,
        asked: list[Mask | None],
        progress: Progress | None,
    ) -> State:
        """Look at those who were charged: everybody, before the first noise is drawn."""
        users = [
            block.users if mask is None else block.users[mask]
            for block, mask in zip(state.blocks, asked, strict=True)
        ]
        parts: list[Part] = []
        values = iter(self.engine(partial(people.look, look), users))
        for block, mask, some in zip(state.blocks, asked, users, strict=True):
            parts.append(rule.step(state, block, Reading(look, next(values), mask)))
            if progress is not None:
                progress(len(some), len(some) * (len(look.plan.split) - look.number))
        return rule.merge(look.plan, state, parts)

    def range_count(self, region: Any, *, shift: bool = True, **options: Any) -> Answer:
        """Count the users inside a region: :meth:`ask` with :class:`RangeCount`.

        :param region: a shapely Polygon or MultiPolygon; see :func:`~opendp_optimal_geo.rectangle`
        :param shift: for "distance": move the threshold as in appendix B
        :param options: as for :meth:`ask`
        """
        return self.ask(RangeCount(region, shift), **options)

    def kde(self, point: Any, bandwidth: float, **options: Any) -> Answer:
        """Estimate a density at a point: :meth:`ask` with :class:`KernelDensity`.

        :param point: where
        :param bandwidth: of the kernel, in the units of the points
        :param options: as for :meth:`ask`
        """
        return self.ask(KernelDensity(point, bandwidth), **options)

    def nearest(self, point: Any, k: int, **options: Any) -> Answer:
        """Find the k users nearest to a point: :meth:`ask` with :class:`Nearest`.

        :param point: where
        :param k: how many, at most as many as there are users
        :param options: as for :meth:`ask`
        """
        return self.ask(Nearest(point, k), **options)

    def release_points(self, **options: Any) -> FloatArray:
        """Let every user send one noisy point: the value of :class:`Points`.

        :param options: ``budget``, ``component`` and ``progress`` of :meth:`ask`
        """
        released: FloatArray = self.ask(Points(), **options).value
        return released

    def density_map(
        self, bounds: Any, cells: int, bandwidth: float, *, component: str = "data", **options: Any
    ) -> DensityMap:
        """Estimate the density on a map, from one noisy point per user.

        :param bounds: (west, south, east, north)
        :param cells: cells of the map along each side
        :param bandwidth: of the Gaussian smoothing, in the units of the points
        :param component: which data
        :param options: ``budget`` and ``progress`` of :meth:`ask`
        """
        corners, cells, width = check_map(bounds, cells, bandwidth)
        if self._dimension(component) != 2:
            raise ValueError(f"component ({component!r}) must hold points of the plane")
        released = self.release_points(component=component, **options)
        return density_map(released, corners, cells, width)

    def threshold(
        self, region: Any, fraction: float, *, component: str = "data", **options: Any
    ) -> Answer:
        """Say whether fewer than a fraction of the users are inside a region, in the central model.

        A trusted curator counts; the price comes out of ``central_budget`` (rho, users differing
        in one record). See :meth:`Curator.threshold`.

        :param region: a shapely Polygon or MultiPolygon
        :param fraction: strictly between 0 and 1
        :param component: which data
        :param options: ``budget``, ``method``, ``looks``, ``beta`` and ``baseline`` of
            :meth:`Curator.threshold`
        """
        if self._curator is None:
            raise ValueError("central_budget (None) must be given for central queries")
        data = self._components.get(component)
        if not isinstance(data, np.ndarray) or data.shape[1] != 2:
            raise ValueError(f"component ({component!r}) must hold points of the plane")
        score, grid = SignedDistance(region), self.grid
        return self._curator._decide(
            lambda: score(data.astype(np.float64) * grid) < 0.0, fraction, **options
        )


def _round(look: Look, before: State, after: State, asked: list[Mask | None]) -> Round:
    """Return what a look was like."""
    refused = sum(len(mask) - int(mask.sum()) for mask in asked if mask is not None)
    inside, outside = after.found - before.found, after.eliminated - before.eliminated
    return Round(look.number + 1, look.share, before.open - refused, refused, inside, outside)


def _central(written: Any, name: str) -> Filter:
    """Return the filter of central queries as it was saved; its prices are Gaussian."""
    try:
        if not isinstance(written, list):
            raise ValueError
        capacity, total = map(exact, written)
        return Filter(capacity, total)
    except ValueError:
        raise ValueError(f"path ({name}) must hold what is left of the central budget") from None
