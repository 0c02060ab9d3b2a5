"""Tables of real data: people by attributes, events by place and time, households by income."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Like = str | tuple[str, ...]

ADULT = "uci/adult.csv.gz"
ACCIDENTS = "geo/uk_road_accidents.csv.gz"
PICKUPS = "geo/nyc_uber_pickups.csv.gz"
COLLISIONS = "nyc_collisions/nyc_collisions_202201_202301.csv.gz"
HOUSEHOLDS = "income/cps_households.csv.gz"
_NUMBERS = ("age", "hours_per_week")
BOTH = ("margins", "neighbours")


@cache
def rows(folder: Path, name: str) -> tuple[dict[str, str], ...]:
    """The rows of a data file.

    :param folder: where the data is
    :param name: of the file in it
    """
    path = Path(folder) / name
    if not path.is_file():
        raise ValueError(f"data ({Path(folder).name}) must hold the file {name}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def people(folder: Path, *columns: str) -> Counts:
    """A margin of the adult data.

    :param folder: where the data is
    :param columns: whose values are the axes
    """
    codes, shape = [], []
    for column in columns:
        text = [row[column] for row in rows(folder, ADULT)]
        values = np.array([float(t) for t in text]) if column in _NUMBERS else np.array(text)
        found, code = np.unique(values, return_inverse=True)
        codes.append(code)
        shape.append(len(found))
    return _counted(np.ravel_multi_index(codes, shape), tuple(shape))


def _counted(places: Any, shape: tuple[int, ...], weights: Floats | None = None) -> Counts:
    found = np.bincount(places, weights, int(np.prod(shape)))
    return found.reshape(shape).astype(np.int64)


def _places(folder: Path, name: str, x: str, y: str) -> tuple[list[dict[str, str]], Floats]:
    kept = [row for row in rows(folder, name) if row[x] and row[y]]
    return kept, np.array([[float(row[x]), float(row[y])] for row in kept])


def _cut(values: Floats, cells: int, low: float, high: float) -> NDArray[np.int64]:
    part = np.floor((values - low) / (high - low) * cells)
    return np.clip(part, 0, cells - 1).astype(np.int64)


def _grid(points: Floats, cells: int, weights: Floats | None = None) -> Counts:
    at = [_cut(p, cells, float(p.min()), float(p.max())) for p in points.T]
    return _counted(np.ravel_multi_index(at, (cells, cells)), (cells, cells), weights)


def accidents(folder: Path, cells: int) -> Counts:
    """Road accidents in Great Britain on a square grid."""
    return _grid(_places(folder, ACCIDENTS, "lng", "lat")[1], cells)


def pickups(folder: Path, cells: int) -> Counts:
    """Pickups in New York on a square grid."""
    kept, points = _places(folder, PICKUPS, "lng", "lat")
    return _grid(points, cells, np.array([float(row["count"]) for row in kept]))


def collisions(folder: Path, cells: int, hours: int) -> Counts:
    """Collisions in New York on a grid, by the hour of the day if wanted."""
    kept, points = _places(folder, COLLISIONS, "longitude", "latitude")
    inside = (points[:, 0] < -70) & (points[:, 1] > 40)
    low, high = np.percentile(points[inside], [0.5, 99.5], axis=0)
    inside &= ((points >= low) & (points <= high)).all(axis=1)
    at = [_cut(p[inside], cells, *ends) for p, *ends in zip(points.T, low, high, strict=True)]
    shape = (cells, cells) if hours == 1 else (cells, cells, hours)
    if hours > 1:
        clock = np.array([int(row["crash_time"].split(":")[0]) for row in kept])[inside]
        at.append(clock * hours // 24)
    return _counted(np.ravel_multi_index(at, shape), shape)


def incomes(folder: Path, step: int) -> Counts:
    """Households by income, in equal steps up to half a million."""
    found = np.array([float(row["income"]) for row in rows(folder, HOUSEHOLDS)])
    kept = found[(found >= 0) & (found < 500_000)]
    count = 500_000 // step
    return _counted((kept // step).astype(np.int64), (count,))


@dataclass(frozen=True)
class Table:
    """A table to release.

    :param name: for people
    :param make: takes the folder of the data to the true counts
    :param likes: which of its cells are alike
    :param reachable: the figures known beforehand, by likeness and epsilon: error over that of
        the oracle
    """

    name: str
    make: Callable[[Path], Counts]
    likes: tuple[Like, ...] = ()
    reachable: tuple[tuple[Like, float, float], ...] = ()


def _figures(like: Like, *values: tuple[float, float]) -> tuple[tuple[Like, float, float], ...]:
    return tuple((like, epsilon, value) for epsilon, value in values)


LARGE = {
    "uk-100": Table(
        "UK accidents, 100 x 100",
        lambda folder: accidents(folder, 100),
        ("margins", "neighbours", BOTH),
        _figures("margins", (0.1, 0.813), (0.5, 0.904), (1.0, 0.959))
        + _figures("neighbours", (0.1, 0.648), (0.5, 0.769), (1.0, 0.818))
        + _figures(BOTH, (0.1, 0.648), (0.5, 0.771), (1.0, 0.820)),
    ),
    "uk-200": Table(
        "UK accidents, 200 x 200",
        lambda folder: accidents(folder, 200),
        ("neighbours",),
        _figures("neighbours", (0.1, 0.631), (0.5, 0.652), (1.0, 0.664)),
    ),
    "nyc-100": Table(
        "NYC pickups, 100 x 100",
        lambda folder: pickups(folder, 100),
        ("margins", "neighbours"),
        _figures("margins", (0.1, 0.850), (0.5, 0.783))
        + _figures("neighbours", (0.1, 0.659), (0.5, 0.677)),
    ),
    "age-hours": Table(
        "adult, age x hours",
        lambda folder: people(folder, "age", "hours_per_week"),
        ("margins", "neighbours", BOTH),
        _figures("margins", (0.1, 0.621), (0.5, 0.727))
        + _figures("neighbours", (0.1, 0.736), (0.5, 0.799))
        + _figures(BOTH, (0.1, 0.570), (0.5, 0.695)),
    ),
    "education-occupation-country": Table(
        "adult, education x occupation x country",
        lambda folder: people(folder, "education", "occupation", "native_country"),
        ("margins",),
        _figures("margins", (0.1, 0.753), (1.0, 0.688)),
    ),
    "collisions-hour": Table(
        "NYC collisions, 20 x 20 x 24 hours",
        lambda folder: collisions(folder, 20, 24),
        ("margins", "neighbours"),
    ),
    "incomes": Table(
        "household incomes in steps of 100", lambda folder: incomes(folder, 100), ("neighbours",)
    ),
    "nyc-200": Table(
        "NYC pickups, 200 x 200", lambda folder: pickups(folder, 200), ("neighbours",)
    ),
}
"""Tables of at least 5,000 cells."""

MIDDLE = {
    "education-occupation": Table(
        "adult, education x occupation",
        lambda folder: people(folder, "education", "occupation"),
    ),
    "uk-30": Table("UK accidents, 30 x 30", lambda folder: accidents(folder, 30), ("neighbours",)),
    "nyc-30": Table("NYC pickups, 30 x 30", lambda folder: pickups(folder, 30), ("neighbours",)),
}
"""Smaller ones."""


def _made(values: Any) -> Callable[[Path], Counts]:
    return lambda folder: np.asarray(values, dtype=np.int64)


FEW = {
    "one": Table("one cell: 3", _made([3])),
    "five": Table("five cells: 0, 1, 2, 5, 10", _made([0, 1, 2, 5, 10])),
    "race": Table("adult, race", lambda folder: people(folder, "race")),
    "zeros": Table("twenty zeros", _made(np.zeros(20))),
    "poisson": Table("twenty of Poisson(3)", _made(np.random.default_rng(5).poisson(3, 20))),
    "ladder": Table("0 to 19", _made(np.arange(20))),
    "uneven": Table(
        "twenty of a log-normal", _made(np.exp(np.random.default_rng(6).normal(3, 1.5, 20)))
    ),
    "age": Table("adult, age", lambda folder: people(folder, "age")),
    "age-sex": Table("adult, age x sex", lambda folder: people(folder, "age", "sex")),
}
"""Tables of 1 to 148 cells."""

SUMS = {
    "uk-100": LARGE["uk-100"],
    "nyc-100": LARGE["nyc-100"],
    "collisions": Table("NYC collisions, 100 x 100", lambda folder: collisions(folder, 100, 1)),
}
"""Grids whose blocks are added up."""
