"""The real data of the experiments, from a folder laid out like the one the README describes."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opendp_optimal_geo.files import read_columns
from opendp_optimal_geo.projection import project

FloatArray = NDArray[np.float64]

PICKUPS = "geo/nyc_uber_pickups.csv.gz"
ACCIDENTS = "geo/uk_road_accidents.csv.gz"
COLLISIONS = "nyc_collisions/nyc_collisions_202201_202301.csv.gz"
IMAGES = "mnist/train-images-idx3-ubyte.gz"
TEST_IMAGES = "mnist/t10k-images-idx3-ubyte.gz"
HOUSEHOLDS = "income/cps_households.csv.gz"

NEW_YORK = "EPSG:32618"
BRITAIN = "EPSG:27700"


def _file(folder: Path, name: str) -> Path:
    path = Path(folder) / name
    if not path.is_file():
        raise ValueError(f"data ({Path(folder).name}) must hold the file {name}")
    return path


@cache
def pickups(folder: Path) -> FloatArray:
    """Return pickups in New York, in metres: 315,055 with repetitions.

    :param folder: where the data is
    """
    rows = read_columns(_file(folder, PICKUPS), ("lng", "lat", "count"))
    repeated = np.repeat(rows[:, :2], rows[:, 2].astype(np.int64), axis=0)
    return project(repeated[:, 0], repeated[:, 1], NEW_YORK)


@cache
def accidents(folder: Path) -> FloatArray:
    """Return road accidents in Great Britain, in metres.

    :param folder: where the data is
    """
    rows = read_columns(_file(folder, ACCIDENTS), ("lng", "lat"))
    return project(rows[:, 0], rows[:, 1], BRITAIN)


@cache
def collisions(folder: Path) -> FloatArray:
    """Return motor vehicle collisions in New York that have a place, in metres.

    :param folder: where the data is
    """
    with gzip.open(_file(folder, COLLISIONS), "rt", encoding="utf-8", newline="") as lines:
        places = [
            (float(row["longitude"]), float(row["latitude"]))
            for row in csv.DictReader(lines)
            if row["longitude"] and row["latitude"] and float(row["longitude"]) < -70.0
        ]
    degrees = np.array(places)
    return project(degrees[:, 0], degrees[:, 1], NEW_YORK)


@cache
def images(folder: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the images of MNIST as vectors: 60,000 to search, 10,000 to search with.

    :param folder: where the data is
    """
    return _idx(_file(folder, IMAGES)), _idx(_file(folder, TEST_IMAGES))


@cache
def incomes(folder: Path) -> FloatArray:
    """Return the incomes of households.

    :param folder: where the data is
    """
    return read_columns(_file(folder, HOUSEHOLDS), ("income",))[:, 0]


def _idx(path: Path) -> NDArray[np.uint8]:
    try:
        with gzip.open(path) as file:
            head = np.frombuffer(file.read(16), ">i4")
            body = np.frombuffer(file.read(), np.uint8)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path.name} must be a whole gzipped file: {error}") from None
    sizes = [int(size) for size in head]
    if len(sizes) != 4 or sizes[0] != 2051 or body.size != math.prod(sizes[1:]) or not body.size:
        raise ValueError(f"{path.name} must be an IDX file of images")
    return body.reshape(sizes[1], -1)
