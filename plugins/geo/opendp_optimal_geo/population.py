"""Many users, each with a budget of their own, asked by the local protocol."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np

from opendp_optimal.budget import Ledger
from opendp_optimal.extend import Floats, choice, positive, require_features, share, whole
from opendp_optimal_geo.accounts import Accounts
from opendp_optimal_geo.allowances import Allowances, Mask, Payment, Price
from opendp_optimal_geo.answer import Answer
from opendp_optimal_geo.asking import Engine, Looked, Progress, take_looks
from opendp_optimal_geo.curator import Curator
from opendp_optimal_geo.density import DensityMap, check_knots, check_map, density_map
from opendp_optimal_geo.elimination import KeepAll, Rule
from opendp_optimal_geo.grid import Grid, to_grid
from opendp_optimal_geo.look import Clients, People
from opendp_optimal_geo.maps import CountMap, count_map, find_bayes
from opendp_optimal_geo.plan import METHODS, Plan, shares
from opendp_optimal_geo.query import KernelDensity, Nearest, Points, Query, RangeCount
from opendp_optimal_geo.score import Score, SignedDistance
from opendp_optimal_geo.terms import Terms

GRID = 2.0**-4
ELIMINATION_SHARE = 0.25
"""Part of the failure probability that goes to the eliminations (Remark 6)."""


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
    :param central_budget: rho for central queries, apart from the users' budgets
    :param ledger: keeps the budgets, also after this process; without it they end with it
    :param ids: with a ledger: an identifier for each user (whole numbers or texts), by which they
        are recognised in whatever order they come. Newcomers have a whole budget, and whoever is
        left out is remembered
    :param name: with a ledger: what the population is called there; another budget, privacy, grid
        or key than it was made with is refused
    :param key: with a ledger: file with the key under which identifiers are hashed, made with the
        population; beside a ledger in a file by default

    >>> from opendp_optimal_geo import RangeCount, rectangle
    >>> people = Population([[0.0, 0.0], [900.0, 0.0], [5000.0, 0.0]], budget=0.01)
    >>> answer = people.ask(RangeCount(rectangle((0, 0), 2000, 2000)), budget=0.005)
    >>> answer.value, answer.error_bound, answer.saving > 0.5
    (2, 0, True)
    """

    engine: Engine = staticmethod(map)
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
        central_budget: Any = None,
        ledger: Ledger | None = None,
        ids: Any = None,
        name: str = "people",
        key: Path | str | None = None,
    ) -> None:
        """Check everything; nobody is asked yet."""
        self.terms = Terms(budget, privacy, grid, delta, reach, tight)
        self.budget, self.privacy, self.grid = self.terms.budget, privacy, self.terms.grid
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
        capacity = self.terms.capacity
        if (ids is None) != (ledger is None):
            raise ValueError("ids and ledger must be given together: people are known by their ids")
        self.allowances: Allowances
        if ledger is None:
            self.allowances = Allowances(capacity, self.size)
        else:
            settings = asdict(self.terms)
            self.allowances = Accounts(ledger, name, ids, capacity, self.size, settings, key)
        self._curator: Curator | None = None
        if central_budget is not None:
            people = range(self.size)
            self._curator = Curator(people, budget=central_budget, ledger=ledger, name=name)

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

    def _keep(self, name: str, data: Grid | Clients, dimension: int | None) -> None:
        """Keep data, or clients, under a name."""
        if isinstance(data, np.ndarray):
            dimension = data.shape[1]
        elif self.privacy == "approx-gp" and self.terms.tight:  # Gaussian noise is believed
            require_features("contrib", "honest-but-curious")
        self._dimensions[name] = whole("dimension", dimension)
        self._components[name] = data

    def add_component(
        self, name: str, points: Any, *, dimension: int | None = None, ids: Any = None
    ) -> None:
        """Add more data of the same users, or the same data after it changed.

        Components share the budgets: the guarantee is for the maximum of their distances.

        :param name: not yet taken
        :param points: one row per user, or a callable that asks clients of their own
        :param dimension: length of the points, for clients of their own
        :param ids: with a ledger: whose points they are, in any order
        """
        if not name or name in self._components:
            raise ValueError(f"name ({name!r}) must be new: changed data is a new component")
        if not callable(points):
            points = to_grid(points, self.grid)
            if len(points) != self.size:
                raise ValueError(f"points ({len(points)} rows) must have {self.size}, one per user")
            if (ids is None) == isinstance(self.allowances, Accounts):
                raise ValueError("ids must be given for the points of people in a ledger, only")
            if isinstance(self.allowances, Accounts):
                points = points[self.allowances.rows_of(ids)]
        self._keep(name, points, dimension)

    @property
    def capacity(self) -> Fraction:
        """What each user may spend in all, in the unit of prices, exactly."""
        return self.allowances.capacity

    @property
    def spent(self) -> Floats:
        """What each user has paid, rounded up."""
        return self.allowances.spent()

    @property
    def remaining(self) -> Floats:
        """What each user has left, rounded down."""
        return self.allowances.remaining()

    @property
    def central_remaining(self) -> Fraction:
        """What is left for central queries, exactly."""
        return Fraction(0) if self._curator is None else self._curator.remaining

    @property
    def halted(self) -> Mask:
        """Who was asked for more than was left, and answers no more."""
        return self.allowances.halted

    @property
    def bytes_per_user(self) -> float:
        """Memory held between queries, per user."""
        held = self.allowances.paid.nbytes + self.allowances.halted.nbytes
        held += sum(d.nbytes for d in self._components.values() if isinstance(d, np.ndarray))
        return held / self.size

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
        note: str = "",
        progress: Progress | None = None,
        before: Callable[[], None] | None = None,
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
        :param note: for the log of the ledger: who asks, and what for
        :param progress: called with users x looks done and at most to do
        :param before: called once everything is checked, before anybody is charged
        """
        score = query.score(self.size, self._dimension(component))
        baseline = baseline or isinstance(query, Points)
        if isinstance(query, Points) and method != "point":
            raise ValueError(f"method ({method!r}) must be 'point' for points")
        plan = self._plan(score, budget, method, looks, baseline, component)
        beta = share("beta", beta)
        deciding = 0.0 if baseline else ELIMINATION_SHARE * beta
        rule = KeepAll() if baseline else query.rule(deciding)
        told = f"{type(query).__name__} {note}".strip()
        if before is not None:
            before()
        state, rounds, saving = self._take_looks(plan, rule, note=told, progress=progress)
        value, bound, missing = query.estimate(plan, state, beta - deciding, baseline)
        generation = self.allowances.generation
        return Answer(value, bound, beta, saving, rounds, missing, state.decided_at, generation)

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

    def _take_looks(self, plan: Plan, rule: Rule, **options: Any) -> Looked:
        """Take the looks of a plan, each of them paid before."""
        people = People(self._components[plan.component], plan)
        payment = Payment(self.allowances, plan.allotment)
        looked = take_looks(plan, rule, people, payment, engine=self.engine, **options)
        self.allowances.settle()
        return looked

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

    def release_points(self, **options: Any) -> Floats:
        """Let every user send one noisy point: the value of :class:`Points`.

        :param options: ``budget``, ``component`` and ``progress`` of :meth:`ask`
        """
        return np.asarray(self.ask(Points(), **options).value)

    def density_map(
        self,
        bounds: Any,
        cells: int,
        bandwidth: float,
        *,
        budget: Any,
        posterior: bool = False,
        component: str = "data",
        progress: Progress | None = None,
    ) -> DensityMap:
        """Estimate the density on a map, from one noisy point per user.

        :param bounds: (west, south, east, north)
        :param cells: cells of the map along each side
        :param bandwidth: of the Gaussian smoothing, in the units of the points
        :param budget: what each user may spend on it; see :meth:`ask`
        :param posterior: whether the noise of the points is taken out again, as far as all of them
            together tell; it costs nothing (extra "posterior"). Gaussian noise, and one budget for
            all. Noise below two bandwidths is smoothed away as well.
        :param component: which data
        :param progress: of :meth:`ask`
        """
        corners, cells, width = check_map(bounds, cells, bandwidth)
        if self._dimension(component) != 2:
            raise ValueError(f"component ({component!r}) must hold points of the plane")
        fit = deviation = None
        if posterior:
            fit, deviation = find_bayes().fit_weights, self._deviation(budget)
            check_knots(corners, width, deviation)
        released = self.release_points(component=component, budget=budget, progress=progress)
        return density_map(released, corners, cells, width, deviation, fit)

    def _deviation(self, budget: Any) -> float:
        """Of the noise along each axis, if it is Gaussian and the same for all."""
        if self.privacy != "cgp" or np.ndim(budget):
            raise ValueError("posterior (True) needs Gaussian noise (cgp) and one budget for all")
        return math.sqrt(0.5 / positive("budget", budget))

    def count_map(
        self,
        bounds: Any,
        cells: int,
        *,
        budget: Any,
        posterior: bool = False,
        component: str = "data",
    ) -> CountMap:
        """Count the users in each cell of a map, in the central model.

        A trusted curator counts and adds Gaussian noise; the price comes out of ``central_budget``
        (rho, users differing in one record).

        :param bounds: (west, south, east, north)
        :param cells: cells of the map along each side
        :param budget: rho
        :param posterior: whether the true counts are estimated from what was released, neighbours
            alike; it costs nothing (extra "posterior")
        :param component: which data
        """
        curator, points = self._central(component)
        return count_map(curator, points, bounds, cells, budget, posterior)

    def _central(self, component: str) -> tuple[Curator, Callable[[], Floats]]:
        """What a central query needs: somebody with a budget, who finds points of the plane."""
        if self._curator is None:
            raise ValueError("central_budget (None) must be given for central queries")
        data = self._components.get(component)
        if not isinstance(data, np.ndarray) or data.shape[1] != 2:
            raise ValueError(f"component ({component!r}) must hold points of the plane")
        return self._curator, lambda: data.astype(np.float64) * self.grid

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
        curator, points = self._central(component)
        score = SignedDistance(region)
        return curator._decide(lambda: score(points()) < 0.0, fraction, **options)
