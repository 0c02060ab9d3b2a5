"""The seed's experiments: savings and errors of elimination (PM) against one look (BM).

Noise is the real thing, from the secure generator. Which users are drawn, and where the queries
are, comes from a seeded simulation generator; nothing here is a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from docs.reproduce.liang import datasets
from docs.reproduce.liang.sweep import Cell, Figure, Outcome, Progress, sweep
from opendp_optimal_geo.allowances import Allowances
from opendp_optimal_geo.answer import Answer
from opendp_optimal_geo.curator import Curator
from opendp_optimal_geo.population import Population
from opendp_optimal_geo.region import rectangle
from opendp_optimal_geo.schedule import Schedule, even_rule, saving_rule
from opendp_optimal_geo.score import SignedDistance

FloatArray = NDArray[np.float64]
Methods = Sequence[tuple[str, dict[str, Any]]]
"""Names, with what to pass to a query."""

SPLITS: dict[str, tuple[str, int]] = {
    "c4": ("even", 4),
    "c64": ("even", 64),
    "log-c10": ("doubling", 10),
}
SOURCES: dict[str, Callable[[Path], FloatArray]] = {
    "pickups": datasets.pickups,
    "accidents": datasets.accidents,
    "collisions": datasets.collisions,
}
USERS = 10_000
WIDTHS = (1000.0, 2000.0, 4000.0)
BUDGETS = (1e-6, 1e-5, 1e-4, 1e-3)


def _methods(splits: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, method in enumerate(("point", "distance")):
        yield f"BM_{index}", {"method": method, "baseline": True}
        for name in splits:
            yield f"PM_{index} {name}", {"method": method, "looks": SPLITS[name]}


def places(folder: Path, source: str) -> FloatArray:
    """Return one of the sets of points.

    :param folder: where the data is
    :param source: "pickups", "accidents" or "collisions"
    """
    if source not in SOURCES:
        raise ValueError(f"source ({source!r}) must be one of {', '.join(SOURCES)}")
    return SOURCES[source](folder)


def _sample(points: FloatArray, users: int, rng: np.random.Generator) -> FloatArray:
    return points[rng.choice(len(points), min(users, len(points)), replace=False)]


def _square(points: FloatArray, width: float, rng: np.random.Generator) -> tuple[BaseGeometry, int]:
    """Return a square at a random angle around a random user, and the count inside.

    Squares with fewer than 20 users are drawn again, where there are others: relative errors of
    tiny counts say little.
    """
    best, most = None, 0
    for _ in range(100):
        centre = points[rng.integers(len(points))]
        region = rectangle(centre, width, width, angle=float(rng.uniform(0.0, 90.0)))
        inside = int((SignedDistance(region)(points) < 0.0).sum())
        if inside > most:
            best, most = region, inside
        if inside >= 20:
            break
    assert best is not None  # a square around a user holds that user
    return best, most


def figure_2(
    folder: Path, *, source: str = "pickups", budget: float = 1e-4
) -> tuple[Population, FloatArray, BaseGeometry, Answer]:
    """Range count over everybody: the users, their places, the range, and who was decided when.

    :param folder: where the data is
    :param source: "pickups", "accidents" or "collisions"
    :param budget: rho per square metre
    """
    points = places(folder, source)
    region = rectangle(np.median(points, axis=0), 3000.0, 2000.0, angle=29.0)
    people = Population(points, budget=budget)
    return people, points, region, people.range_count(region, budget=budget)


def range_counts(
    folder: Path,
    methods: Methods,
    *,
    name: str,
    title: str,
    seed: int,
    repetitions: int = 50,
    source: str = "pickups",
    widths: Sequence[float] = WIDTHS,
    budgets: Sequence[float] = BUDGETS,
    progress: Progress | None = None,
) -> Figure:
    """Counts of users in random squares: savings and errors against the budget of one query.

    :param folder: where the data is
    :param methods: names, with what to pass to a query
    :param name: of the figure
    :param title: of the figure
    :param seed: of the simulation generator that draws users and squares
    :param repetitions: squares per point of a line
    :param source: "pickups", "accidents" or "collisions"
    :param widths: sides of the squares, in metres
    :param budgets: rho per square metre
    :param progress: called with work done and to do
    """
    rng, spots = np.random.default_rng(seed), places(folder, source)

    def trial(_: int, width: float, budget: float) -> Iterator[Outcome]:
        points = _sample(spots, USERS, rng)
        region, inside = _square(points, width, rng)
        for method, options in methods:
            people = Population(points, budget=budget)
            answer = people.range_count(region, budget=budget, **options)
            yield method, answer.saving, abs(answer.value - inside) / inside

    cells: list[Cell] = [
        ([(f"w = {width:g} m", budget)], partial(trial, width=width, budget=budget))
        for width in widths
        for budget in budgets
    ]
    figure = Figure(name, f"{title}, {source}", "rho per m^2", "relative count error")
    return sweep(figure, cells, repetitions, progress)


def figure_3(folder: Path, *, seed: int = 3, **options: Any) -> Figure:
    """Range counting with points and with distances.

    :param folder: where the data is
    :param seed: of the simulation generator that draws users and squares
    :param options: the other options of :func:`range_counts`
    """
    methods = list(_methods(list(SPLITS)))
    return range_counts(folder, methods, name="3", title="range counts", seed=seed, **options)


def figure_4(
    folder: Path,
    *,
    repetitions: int = 20,
    source: str = "pickups",
    users: int = 200_000,
    bandwidths: Sequence[float] = (250.0, 500.0, 1000.0),
    budgets: Sequence[float] = BUDGETS,
    seed: int = 4,
    progress: Progress | None = None,
) -> Figure:
    """Kernel density: savings and errors against the budget of one query.

    :param folder: where the data is
    :param repetitions: places per point of a line
    :param source: "pickups", "accidents" or "collisions"
    :param users: how many are drawn
    :param bandwidths: in metres
    :param budgets: rho per square metre
    :param seed: of the simulation generator that draws users and places
    :param progress: called with work done and to do
    """
    rng = np.random.default_rng(seed)
    methods = list(_methods(["c4", "log-c10"]))
    points = _sample(places(folder, source), users, rng)
    corners = np.quantile(points, [0.02, 0.98], axis=0)

    def trial(_: int, bandwidth: float, budget: float) -> Iterator[Outcome]:
        spot = rng.uniform(corners[0], corners[1])
        squares = ((points - spot) ** 2).sum(axis=1)
        truth = float(np.exp(-squares / (2.0 * bandwidth**2)).mean())
        for name, options in methods:
            people = Population(points, budget=budget)
            answer = people.kde(spot, bandwidth, budget=budget, **options)
            yield name, answer.saving, abs(answer.value - truth)

    cells: list[Cell] = [
        ([(f"b = {bandwidth:g} m", budget)], partial(trial, bandwidth=bandwidth, budget=budget))
        for bandwidth in bandwidths
        for budget in budgets
    ]
    figure = Figure("4", f"kernel density, {source}", "rho per m^2", "absolute error")
    return sweep(figure, cells, repetitions, progress)


def figure_5(
    folder: Path,
    *,
    repetitions: int = 10,
    point_repetitions: int = 1,
    users: int = 60_000,
    ks: Sequence[int] = (10, 100),
    budgets: Sequence[float] = (1e-4, 1e-3, 1e-2),
    seed: int = 5,
    progress: Progress | None = None,
) -> Figure:
    """Nearest neighbours among images: savings and errors against the budget of one query.

    :param folder: where the data is
    :param repetitions: query images per point of a line, sending distances
    :param point_repetitions: as many for whole noisy images (784 draws per user and look)
    :param users: how many images are searched
    :param ks: neighbours wanted
    :param budgets: rho per squared grey level
    :param seed: of the simulation generator that draws the query images
    :param progress: called with work done and to do
    """
    rng = np.random.default_rng(seed)
    train, test = datasets.images(folder)
    train = train[:users]
    methods = [m for m in _methods(list(SPLITS)) if m[0] != "PM_0 c64"]
    base = Population(train, budget=1.0, grid=1.0)

    def trial(turn: int, k: int, budget: float) -> Iterator[Outcome]:
        query = test[rng.integers(len(test))].astype(np.float64)
        distance = np.sqrt(((train.astype(np.float32) - query.astype(np.float32)) ** 2).sum(1))
        best = float(np.sort(distance)[:k].sum())
        for name, options in methods:
            if options["method"] == "point" and turn >= point_repetitions:
                continue
            # A fresh budget for every repetition: the images are public.
            base.allowances = Allowances(base.capacity, base.size)
            answer = base.nearest(query, k, budget=budget, **options)
            # In the same order as the best: rounding cannot make it better than that.
            found = float(np.sort(distance[list(answer.value)]).sum())
            yield name, answer.saving, (found - best) / best

    cells: list[Cell] = [
        ([(f"k = {k}", budget)], partial(trial, k=k, budget=budget))
        for k in ks
        for budget in budgets
    ]
    label = "rho per squared grey level"
    figure = Figure("5", "nearest neighbours, MNIST", label, "distance error")
    return sweep(figure, cells, repetitions, progress)


def figure_6(
    folder: Path,
    *,
    repetitions: int = 5,
    source: str = "pickups",
    widths: Sequence[float] = WIDTHS,
    queries: Sequence[int] = (7, 14, 28, 56),
    budgets: Sequence[float] = (1e-5, 1e-4, 1e-3),
    seed: int = 6,
    progress: Progress | None = None,
) -> Figure:
    """Many range counts with one budget: mean error of PM with Algorithm 3 against BM.

    :param folder: where the data is
    :param repetitions: runs per point of a line
    :param source: "pickups", "accidents" or "collisions"
    :param widths: sides of the squares, in metres
    :param queries: numbers of queries m, at the middle budget
    :param budgets: total rho per square metre, at the largest m
    :param seed: of the simulation generator that draws users and ranges
    :param progress: called with work done and to do
    """
    rng, spots = np.random.default_rng(seed), places(folder, source)
    methods = list(_methods(["c4", "log-c10"]))

    def trial(_: int, width: float, m: int, budget: float) -> Iterator[Outcome]:
        points = _sample(spots, USERS, rng)
        ranges = [_square(points, width, rng) for _ in range(m)]
        for name, options in methods:
            people = Population(points, budget=budget)
            rule = even_rule if options.get("baseline") else saving_rule
            schedule = Schedule(people, m, rule)
            answers = schedule.run([("range_count", region) for region, _ in ranges], **options)
            errors = [
                abs(answer.value - inside) / inside
                for answer, (_, inside) in zip(answers, ranges, strict=True)
            ]
            yield name, float(people.remaining.mean()) / budget, float(np.mean(errors))

    middle, most = budgets[len(budgets) // 2], max(queries)
    cells: list[Cell] = []
    for width in widths:
        by_m, by_b = f"w = {width:g} m, B = {middle:g}", f"w = {width:g} m, m = {most}"
        # What both panels show is measured once.
        settings = {(m, middle): [(by_m, float(m))] for m in queries}
        for budget in budgets:
            settings.setdefault((most, budget), []).append((by_b, budget))
        cells += [
            (where, partial(trial, width=width, m=m, budget=budget))
            for (m, budget), where in settings.items()
        ]
    figure = Figure("6", f"many range counts, {source}", "m or B", "mean relative count error")
    return sweep(figure, cells, repetitions, progress)


def figure_8(folder: Path, *, seed: int = 8, **options: Any) -> Figure:
    """Noisy distances with and without the shifted threshold of appendix B.

    :param folder: where the data is
    :param seed: of the simulation generator that draws users and squares
    :param options: the other options of :func:`range_counts`
    """
    methods = [
        (f"{method}{'' if shift else ' NoShift'}", {**how, "shift": shift})
        for method, how in _methods(["log-c10"])
        if how["method"] == "distance"
        for shift in (True, False)
    ]
    return range_counts(folder, methods, name="8", title="shifted threshold", seed=seed, **options)


def figure_9(
    folder: Path,
    *,
    repetitions: int = 200,
    households: int = 10_000,
    fractions: Sequence[float] = (0.03, 0.05, 0.1),
    budgets: Sequence[float] = (*BUDGETS, 1e-2),
    seed: int = 9,
    progress: Progress | None = None,
) -> Figure:
    """Central threshold queries about incomes: savings and wrong answers against the budget.

    :param folder: where the data is
    :param repetitions: samples of households per point of a line
    :param households: in a sample
    :param fractions: q of the threshold
    :param budgets: rho
    :param seed: of the simulation generator that draws the households
    :param progress: called with work done and to do
    """
    rng, income = np.random.default_rng(seed), datasets.incomes(folder)
    methods: list[tuple[str, dict[str, Any]]] = [("BM_1", {"baseline": True})]
    methods += [(f"PM_1 {name}", {"looks": split}) for name, split in SPLITS.items()]

    def trial(_: int, q: float, budget: float) -> Iterator[Outcome]:
        drawn = income[rng.choice(len(income), households, replace=False)]
        truth = bool((drawn <= 10_000.0).sum() < q * households)
        for name, options in methods:
            curator = Curator(drawn, budget=budget)
            answer = curator.threshold(lambda x: x <= 10_000.0, q, budget=budget, **options)
            yield name, answer.saving, float(answer.value != truth)

    cells: list[Cell] = [
        ([(f"q = {q:g}", budget)], partial(trial, q=q, budget=budget))
        for q in fractions
        for budget in budgets
    ]
    figure = Figure("9", "threshold, household incomes", "rho", "share of wrong answers")
    return sweep(figure, cells, repetitions, progress)


FIGURES: dict[str, Callable[..., Figure]] = {
    "3": figure_3,
    "4": figure_4,
    "5": figure_5,
    "6": figure_6,
    "8": figure_8,
    "9": figure_9,
}
