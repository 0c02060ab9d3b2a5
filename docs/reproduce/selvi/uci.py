"""The 13 data sets of the UCI repository as the paper's experiments use them.

Nothing is bundled: a directory with the files is given, and a missing file is named.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["NAMES", "Mixed", "load"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Row = dict[str, str]


@dataclass(frozen=True)
class Mixed:
    """A classification task with numerical and categorical features, everything encoded.

    :param name: what the paper calls it
    :param numbers: numerical features, scaled to [0, 1] by their smallest and largest value
    :param codes: categorical features, as indices
    :param sizes: how many categories each of them has
    :param labels: classes, as indices
    :param classes: how many classes there are
    :param units: how long the range of each number was before it was scaled
    :param order: the classes as they first appear in the file
    """

    name: str
    numbers: Floats
    codes: Codes
    sizes: tuple[int, ...]
    labels: Codes
    classes: int
    units: tuple[float, ...] = ()
    order: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """Number of records."""
        return len(self.labels)

    def binary(self) -> Codes:
        """Labels -1 and +1: the largest class against the others where there are more than two."""
        if self.classes == 2:
            return 2 * self.labels - 1
        largest = np.bincount(self.labels).argmax()
        return np.where(self.labels == largest, 1, -1)

    def dense(self) -> Floats:
        """A constant, the numbers in [-1, 1] and one column for each category but the first."""
        columns = [np.ones((self.rows, 1)), 2 * self.numbers - 1]
        for j, size in enumerate(self.sizes):
            columns.append(np.eye(size)[self.codes[:, j]][:, 1:])
        return np.hstack(columns)


@dataclass(frozen=True)
class _Recipe:
    file: str
    target: str
    numerical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    label: Callable[[str], str | None] = field(default=lambda value: value)
    missing: str = "drop"  # or "keep": a category of its own, and the mean of a number
    rarest: float = 1.0  # categorical columns in which one value has more than this share go


def _named(*names: str) -> tuple[str, ...]:
    return names


_RECIPES: dict[str, _Recipe] = {
    "post-operative": _Recipe(
        "post_operative.csv",
        "decision",
        _named("COMFORT"),
        label=lambda v: None if v.strip() == "I" else v.strip(),
    ),
    "adult": _Recipe(
        "adult.csv.gz",
        "income",
        _named("age", "education_num", "capital_gain", "capital_loss", "hours_per_week"),
        _named("fnlwgt", "split"),
    ),
    "breast-cancer": _Recipe("breast_cancer_wisconsin.csv", "class", drop=_named("id")),
    "contraceptive": _Recipe(
        "contraceptive.csv",
        "Contraceptive_method_used",
        _named("Wifes_age", "Number_of_children_ever_born"),
    ),
    "dermatology": _Recipe(
        "dermatology.csv", "class", _named("erythema", "scaling"), missing="keep"
    ),
    "cylinder-bands": _Recipe(
        "cylinder_bands.csv",
        "band_type",
        _named(
            "proof_cut",
            "viscosity",
            "caliper",
            "ink_temperature",
            "humifity",
            "roughness",
            "blade_pressure",
            "varnish_pct",
            "press_speed",
            "ink_pct",
            "solvent_pct",
            "ESA_Voltage",
            "ESA_Amperage",
            "wax",
            "hardener",
            "roller_durometer",
            "current_density",
            "anode_space_ratio",
            "chrome_content",
        ),
        _named("timestamp", "cylinder_number", "customer", "job_number"),
        missing="keep",
    ),
    "annealing": _Recipe(
        "annealing.csv",
        "class",
        _named("carbon", "hardness", "strength", "thick", "width", "len"),
        missing="keep",
        rarest=0.98,
    ),
    "spect": _Recipe("spect.csv", "OVERALL_DIAGNOSIS", drop=_named("split")),
    "bank": _Recipe("bank_full.csv.gz", "y", _named("age", "balance", "duration", "pdays")),
    "abalone": _Recipe(
        "abalone.csv",
        "Class_Rings",
        _named(
            "Length",
            "Diameter",
            "Height",
            "Whole weight",
            "Shucked weight",
            "Viscera weight",
            "Shell weight",
        ),
        label=lambda v: "old" if float(v) > 9 else "young",
    ),
    "spambase": _Recipe("spambase.csv", "", _named("*")),
    "ecoli": _Recipe(
        "ecoli.csv",
        "class",
        _named("mcg", "gvh", "aac", "alm1", "alm2"),
        label=lambda v: "cp" if v == "cp" else "other",
    ),
    "absent": _Recipe(
        "absenteeism.csv",
        "Absenteeism time in hours",
        _named(
            "ID",
            "Transportation expense",
            "Distance from Residence to Work",
            "Service time",
            "Age",
            "Work load Average/day",
            "Hit target",
            "Son",
            "Pet",
            "Weight",
            "Height",
            "Body mass index",
        ),
        label=lambda v: "long" if float(v) > 2 else "short",
    ),
}

NAMES = tuple(_RECIPES)
"""The data sets, in the paper's order."""


def load(name: str, directory: str | Path) -> Mixed:
    """Read one data set.

    :param name: one of :data:`NAMES`
    :param directory: where the folder ``uci`` is
    :raises ValueError: for an unknown name
    :raises FileNotFoundError: naming the file that is missing
    """
    if name not in _RECIPES:
        raise ValueError(f"name ({name!r}) must be one of {', '.join(NAMES)}")
    return _encode(name, _RECIPES[name], _rows(_RECIPES[name], directory))


def _rows(recipe: _Recipe, directory: str | Path) -> list[Row]:
    path = Path(directory) / "uci" / recipe.file
    if not path.exists():
        raise FileNotFoundError(f"directory ({str(directory)!r}) must hold uci/{recipe.file}")
    raw = path.read_bytes()
    try:
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
        lines = csv.DictReader(io.StringIO(text))
        return [{k: v.strip() for k, v in row.items()} for row in lines]
    except (*_MALFORMED, AttributeError) as error:  # a row that is too long or too short
        raise ValueError(f"{path.name} must be a whole CSV file: {error}") from None


_MALFORMED = (EOFError, zlib.error, gzip.BadGzipFile, csv.Error, UnicodeDecodeError)


def _encode(name: str, recipe: _Recipe, rows: list[Row]) -> Mixed:
    header = list(rows[0]) if rows else []
    target = recipe.target or (header or [""])[-1]
    missing = {target, *recipe.numerical} - {*header, "*"}
    if missing:
        raise ValueError(f"{recipe.file} must have the columns {', '.join(sorted(missing))}")
    inputs = [c for c in header if c != target and c not in recipe.drop]
    numerical = inputs if recipe.numerical == ("*",) else list(recipe.numerical)
    if recipe.missing == "drop":
        rows = [r for r in rows if all(r[c] not in ("?", "") for c in [*inputs, target])]
    kept = [(r, label) for r in rows if (label := recipe.label(r[target])) is not None]
    rows = [r for r, _ in kept]
    names = sorted({label for _, label in kept})
    labels = np.array([names.index(label) for _, label in kept])

    columns, sizes = [], []
    for c in inputs:
        if c in numerical:
            continue
        counts = Counter(r[c] for r in rows)
        if len(counts) < 2 or max(counts.values()) > recipe.rarest * len(rows):
            continue
        index = {value: i for i, value in enumerate(sorted(counts))}
        columns.append([index[r[c]] for r in rows])
        sizes.append(len(index))
    codes = np.array(columns, dtype=np.int64).reshape(len(columns), len(rows)).T
    numbers = np.array([_numbers([r[c] for r in rows]) for c in numerical])
    numbers = numbers.reshape(len(numerical), len(rows)).T
    low, high = numbers.min(axis=0), numbers.max(axis=0)
    if not (np.isfinite(high - low).all() and (high > low).all()):
        raise ValueError(f"{recipe.file} must hold finite numbers that differ in every column")
    units = tuple((high - low).tolist())
    order = tuple(dict.fromkeys(labels.tolist()))
    scaled = (numbers - low) / (high - low)
    return Mixed(name, scaled, codes, tuple(sizes), labels, len(names), units, order)


def _numbers(texts: list[str]) -> Floats:
    values = np.array([np.nan if t in ("?", "") else float(t) for t in texts])
    if not np.isfinite(values[~np.isnan(values)]).any():
        raise ValueError("a column must hold at least one number")
    values[np.isnan(values)] = np.nanmean(values)
    return values
