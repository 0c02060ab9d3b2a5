"""The seed's experiments: savings and errors of elimination (PM) against one look (BM).

Noise is the real thing, from the secure generator. Which users are drawn, and where the queries
are, comes from a seeded simulation generator; nothing here is a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal_geo import datasets
from opendp_optimal_geo.answers import Answer
from opendp_optimal_geo.population import Population
from opendp_optimal_geo.regions import rectangle
from opendp_optimal_geo.schedule import Schedule, even_rule, saving_rule
from opendp_optimal_geo.scores import SignedDistance
from opendp_optimal_geo.threshold import Curator

FloatArray = NDArray[np.float64]
Progress = Callable[[int, int], None]

SPLITS: dict[str, tuple[str, int]] = {
    "c4": ("even", 4),
    "c64": ("even", 64),
    "log-c10": ("doubling", 10),
}
USERS = 10_000


@dataclass(frozen=True)
class Row:
    """One point of one line of a figure.

    :param panel: e.g. the width of the ranges
    :param method: e.g. "PM_1 log-c10"
    :param x: e.g. the budget
    :param saving: mean saving
    :param error: mean error
    :param low: first quartile of the error
    :param high: third quartile of the error
    :param repetitions: how many times
    """

    panel: str
    method: str
    x: float
    saving: float
    error: float
    low: float
    high: float
    repetitions: int


@dataclass
class Figure:
    """The numbers of one figure.

    :param name: "3", "4", ...
    :param title: what it shows
    :param x_label: what is varied
    :param error_label: what the error is
    :param rows: the numbers
    """

    name: str
    title: str
    x_label: str
    error_label: str
    rows: list[Row] = field(default_factory=list)

    def add(
        self, panel: str, method: str, x: float, savings: Sequence[float], errors: Sequence[float]
    ) -> None:
        """Add a point from repetitions."""
        low, high = np.quantile(errors, [0.25, 0.75])
        self.rows.append(
            Row(
                panel,
                method,
                x,
                float(np.mean(savings)),
                float(np.mean(errors)),
                float(low),
                float(high),
                len(errors),
            )
        )


def _methods(splits: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, method in enumerate(("point", "distance")):
        yield f"BM_{index}", {"method": method, "baseline": True}
        for name in splits:
            yield f"PM_{index} {name}", {"method": method, "looks": SPLITS[name]}


def _square(points: FloatArray, width: float, rng: np.random.Generator) -> tuple[Any, int]:
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


def places(folder: Path, source: str) -> FloatArray:
    """Return one of the sets of points.

    :param folder: where the data is
    :param source: "pickups", "accidents" or "collisions"
    """
    load = {
        "pickups": datasets.pickups,
        "accidents": datasets.accidents,
        "collisions": datasets.collisions,
    }
    if source not in load:
        raise ValueError(f"source ({source!r}) must be one of {', '.join(load)}")
    return load[source](folder)


def _sample(points: FloatArray, users: int, rng: np.random.Generator) -> FloatArray:
    return points[rng.choice(len(points), min(users, len(points)), replace=False)]


def figure_3(
    folder: Path,
    *,
    repetitions: int = 50,
    source: str = "pickups",
    widths: Sequence[float] = (1000.0, 2000.0, 4000.0),
    budgets: Sequence[float] = (1e-6, 1e-5, 1e-4, 1e-3),
    seed: int = 3,
    progress: Progress | None = None,
) -> Figure:
    """Range counting: savings and errors against the budget of one query.

    :param folder: where the data is
    :param repetitions: ranges per point of a line
    :param source: "pickups", "accidents" or "collisions"
    :param widths: sides of the squares, in metres
    :param budgets: rho per square metre
    :param seed: of the simulation generator that draws users and ranges
    :param progress: called with work done and to do
    """
    rng, spots = np.random.default_rng(seed), places(folder, source)
    methods = list(_methods(list(SPLITS)))
    figure = Figure("3", f"range counts, {source}", "rho per m^2", "relative count error")
    total, done = len(widths) * len(budgets) * repetitions, 0
    for width in widths:
        for budget in budgets:
            results: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in methods}
            for _ in range(repetitions):
                points = _sample(spots, USERS, rng)
                region, inside = _square(points, width, rng)
                for name, options in methods:
                    answer = Population(points, budget=budget).range_count(
                        region, budget=budget, **options
                    )
                    results[name].append((answer.saving, abs(answer.value - inside) / inside))
                done += 1
                if progress is not None:
                    progress(done, total)
            _add(figure, f"w = {width:g} m", budget, results)
    return figure


def _add(
    figure: Figure, panel: str, x: float, results: dict[str, list[tuple[float, float]]]
) -> None:
    for name, pairs in results.items():
        figure.add(panel, name, x, [p[0] for p in pairs], [p[1] for p in pairs])


def figure_4(
    folder: Path,
    *,
    repetitions: int = 20,
    source: str = "pickups",
    users: int = 200_000,
    bandwidths: Sequence[float] = (250.0, 500.0, 1000.0),
    budgets: Sequence[float] = (1e-6, 1e-5, 1e-4, 1e-3),
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
    rng, spots = np.random.default_rng(seed), places(folder, source)
    methods = list(_methods(["c4", "log-c10"]))
    figure = Figure("4", f"kernel density, {source}", "rho per m^2", "absolute error")
    total, done = len(bandwidths) * len(budgets) * repetitions, 0
    points = _sample(spots, users, rng)
    corners = np.quantile(points, [0.02, 0.98], axis=0)
    for bandwidth in bandwidths:
        for budget in budgets:
            results: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in methods}
            for _ in range(repetitions):
                spot = rng.uniform(corners[0], corners[1])
                squares = ((points - spot) ** 2).sum(axis=1)
                truth = float(np.exp(-squares / (2.0 * bandwidth**2)).mean())
                for name, options in methods:
                    answer = Population(points, budget=budget).kde(
                        spot, bandwidth, budget=budget, **options
                    )
                    results[name].append((answer.saving, abs(answer.value - truth)))
                done += 1
                if progress is not None:
                    progress(done, total)
            _add(figure, f"b = {bandwidth:g} m", budget, results)
    return figure


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
    figure = Figure(
        "5", "nearest neighbours, MNIST", "rho per squared grey level", "distance error"
    )
    total, done = len(ks) * len(budgets) * repetitions, 0
    base = Population(train, budget=1.0, grid=1.0)
    for k in ks:
        for budget in budgets:
            results: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in methods}
            for turn in range(repetitions):
                query = test[rng.integers(len(test))].astype(np.float64)
                distance = np.sqrt(
                    ((train.astype(np.float32) - query.astype(np.float32)) ** 2).sum(1)
                )
                best = float(np.sort(distance)[:k].sum())
                for name, options in methods:
                    if options["method"] == "point" and turn >= point_repetitions:
                        continue
                    # A fresh budget for every repetition: the images are public.
                    base.ledger.paid[:] = 0
                    answer = base.nearest(query, k, budget=budget, **options)
                    found = float(distance[list(answer.value)].sum())
                    results[name].append((answer.saving, (found - best) / best))
                done += 1
                if progress is not None:
                    progress(done, total)
            _add(figure, f"k = {k}", budget, {n: r for n, r in results.items() if r})
    return figure


def figure_6(
    folder: Path,
    *,
    repetitions: int = 5,
    source: str = "pickups",
    width: float = 2000.0,
    queries: Sequence[int] = (7, 14, 28, 56),
    budgets: Sequence[float] = (1e-5, 1e-4, 1e-3),
    seed: int = 6,
    progress: Progress | None = None,
) -> Figure:
    """Many range counts with one budget: mean error of PM with Algorithm 3 against BM.

    :param folder: where the data is
    :param repetitions: runs per point of a line
    :param source: "pickups", "accidents" or "collisions"
    :param width: side of the squares, in metres
    :param queries: numbers of queries m, at the middle budget
    :param budgets: total rho per square metre, at the largest m
    :param seed: of the simulation generator that draws users and ranges
    :param progress: called with work done and to do
    """
    rng, spots = np.random.default_rng(seed), places(folder, source)
    methods = list(_methods(["c4", "log-c10"]))
    figure = Figure("6", f"many range counts, {source}", "m or B", "mean relative count error")
    middle = budgets[len(budgets) // 2]
    cells = [(f"B = {middle:g}, by m", m, middle, float(m)) for m in queries]
    cells += [(f"m = {max(queries)}, by B", max(queries), b, b) for b in budgets]
    total, done = len(cells) * repetitions, 0
    for panel, m, budget, x in cells:
        results: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in methods}
        for _ in range(repetitions):
            points = _sample(spots, USERS, rng)
            ranges = [_square(points, width, rng) for _ in range(m)]
            for name, options in methods:
                people = Population(points, budget=budget)
                rule = even_rule if options.get("baseline") else saving_rule
                schedule = Schedule(people, m, rule)
                answers = schedule.run([("range_count", region) for region, _ in ranges], **options)
                errors = [
                    abs(a.value - inside) / inside
                    for a, (_, inside) in zip(answers, ranges, strict=True)
                ]
                saving = float(people.remaining.mean()) / budget
                results[name].append((saving, float(np.mean(errors))))
            done += 1
            if progress is not None:
                progress(done, total)
        _add(figure, panel, x, results)
    return figure


def figure_8(
    folder: Path,
    *,
    repetitions: int = 50,
    source: str = "pickups",
    widths: Sequence[float] = (1000.0, 2000.0, 4000.0),
    budgets: Sequence[float] = (1e-6, 1e-5, 1e-4, 1e-3),
    seed: int = 8,
    progress: Progress | None = None,
) -> Figure:
    """Noisy distances with and without the shifted threshold of appendix B.

    :param folder: where the data is
    :param repetitions: ranges per point of a line
    :param source: "pickups", "accidents" or "collisions"
    :param widths: sides of the squares, in metres
    :param budgets: rho per square metre
    :param seed: of the simulation generator that draws users and ranges
    :param progress: called with work done and to do
    """
    rng, spots = np.random.default_rng(seed), places(folder, source)
    methods = [
        (f"{name}{'' if shift else ' NoShift'}", {**options, "shift": shift})
        for name, options in _methods(["log-c10"])
        if options["method"] == "distance"
        for shift in (True, False)
    ]
    figure = Figure("8", f"shifted threshold, {source}", "rho per m^2", "relative count error")
    total, done = len(widths) * len(budgets) * repetitions, 0
    for width in widths:
        for budget in budgets:
            results: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in methods}
            for _ in range(repetitions):
                points = _sample(spots, USERS, rng)
                region, inside = _square(points, width, rng)
                for name, options in methods:
                    answer = Population(points, budget=budget).range_count(
                        region, budget=budget, **options
                    )
                    results[name].append((answer.saving, abs(answer.value - inside) / inside))
                done += 1
                if progress is not None:
                    progress(done, total)
            _add(figure, f"w = {width:g} m", budget, results)
    return figure


def figure_9(
    folder: Path,
    *,
    repetitions: int = 200,
    households: int = 10_000,
    fractions: Sequence[float] = (0.03, 0.05, 0.1),
    budgets: Sequence[float] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2),
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
    figure = Figure("9", "threshold, household incomes", "rho", "share of wrong answers")
    total, done = len(fractions) * len(budgets) * repetitions, 0
    for q in fractions:
        for budget in budgets:
            results: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in methods}
            for _ in range(repetitions):
                drawn = income[rng.choice(len(income), households, replace=False)]
                truth = bool((drawn <= 10_000.0).sum() < q * households)
                for name, options in methods:
                    answer: Answer = Curator(drawn, budget=budget).threshold(
                        lambda x: x <= 10_000.0, q, budget=budget, **options
                    )
                    results[name].append((answer.saving, float(answer.value != truth)))
                done += 1
                if progress is not None:
                    progress(done, total)
            _add(figure, f"q = {q:g}", budget, results)
    return figure


FIGURES: dict[str, Callable[..., Figure]] = {
    "3": figure_3,
    "4": figure_4,
    "5": figure_5,
    "6": figure_6,
    "8": figure_8,
    "9": figure_9,
}
