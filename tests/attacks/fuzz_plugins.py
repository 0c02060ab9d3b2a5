"""Hostile inputs for the parsers of the plugins: messages, regions, points, budgets, data."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from tests.attacks.hostile import (
    FuzzError,
    file,
    folder,
    mutate_bytes,
    mutate_json,
    mutate_rows,
    mutate_text,
)

# --- messages between parties --------------------------------------------------------------------


def _message(rng: random.Random, document: dict[str, Any]) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return mutate_bytes(rng, json.dumps(document).encode())
    changed = mutate_json(rng, document)
    if kind == 1 and isinstance(changed, dict):
        changed = mutate_json(rng, changed)
    return json.dumps(changed).encode()


REQUESTS: list[dict[str, Any]] = [
    {"kind": "request", "signal": 1.5, "noise": "laplace", "scale": 1.0, "k": 3},
    {"kind": "request", "signal": [1.5, 2.0], "noise": "gaussian", "scale": 0.5, "k": 1},
]
RESPONSE: dict[str, Any] = {
    "kind": "response",
    "answers": [{"item": "a", "position": 1.0}, {"item": 2, "position": [0.5, 1]}],
}


def select_request(rng: random.Random) -> bool:
    """What a client of multi-selection sends."""
    from opendp_optimal_select.messages import FORMAT, MessageError, Request

    data = _message(rng, {"format": FORMAT, **rng.choice(REQUESTS)})
    try:
        request = Request.decode(data)
    except MessageError:
        return False
    if Request.decode(request.encode()) != request:
        raise FuzzError("an accepted request does not survive being written")
    return True


def select_response(rng: random.Random) -> bool:
    """What a server of multi-selection sends back."""
    from opendp_optimal_select.messages import FORMAT, MessageError, Response

    data = _message(rng, {"format": FORMAT, **RESPONSE})
    try:
        response = Response.decode(data, k=2)
    except MessageError:
        return False
    if Response.decode(response.encode(), k=2) != response:
        raise FuzzError("an accepted response does not survive being written")
    return True


def select_catalogue(rng: random.Random) -> bool:
    """A CSV file of a catalogue."""
    from opendp_optimal_select.commands import _read_catalogue

    data = mutate_rows(rng, b"item,position\na,0.5\nb,-2\nc,1e3\n")
    try:
        catalogue = _read_catalogue(file("items.csv", data))
    except ValueError:
        return False
    return len(catalogue) > 0


# --- regions, points and budgets ------------------------------------------------------------------

REGIONS = [
    "POLYGON ((0 0, 4 0, 4 3, 0 3, 0 0))",
    "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 5, 6 6, 5 5)))",
    '{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,3],[0,3],[0,0]]]}',
    '{"type":"FeatureCollection","features":[{"type":"Feature","properties":{},"geometry":'
    '{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,3],[0,0]]]}}]}',
]


def geo_region(rng: random.Random) -> bool:
    """A region as WKT or GeoJSON."""
    from opendp_optimal_geo.arguments import read_region

    text = rng.choice(REGIONS)
    if text.startswith("{") and rng.random() < 0.5:
        text = json.dumps(mutate_json(rng, json.loads(text)))
    else:
        text = mutate_text(rng, text)
    try:
        region = read_region(text, None)
    except ValueError:
        return False
    if region.is_empty or not region.is_valid or not 0 < region.area < float("inf"):
        raise FuzzError("a region was accepted that has no area")
    return True


POINTS = b"id,x,y\n1,0.5,2\n2,-3e5,1e-3\n"


def _points(name: str, data: bytes) -> bool:
    """Points as numbers: one row is made of every record; now and then columns are looked for."""
    from opendp_optimal_geo.files import coordinate_columns, read_columns

    place = file(name, data)
    names = ("x", "y")
    try:
        if not data or data[-1] % 8 == 0:
            names, _ = coordinate_columns(place)
        points = read_columns(place, names)
    except ValueError:
        return False
    if points.ndim != 2 or points.shape[1] != 2 or points.dtype != np.float64:
        raise FuzzError("points were accepted that are none")
    return True


def geo_points(rng: random.Random) -> bool:
    """A CSV file of points, plain or gzipped; the packed one damaged before or after."""
    kind = rng.randrange(4)
    if kind == 0:
        return _points("points.csv.gz", mutate_bytes(rng, _packed()))
    if kind == 1:
        return _points("points.csv.gz", gzip.compress(mutate_rows(rng, POINTS), 1))
    return _points("points.csv", mutate_rows(rng, POINTS))


@cache
def _packed() -> bytes:
    return gzip.compress(POINTS, 6, mtime=0)


@cache
def _columns() -> list[bytes]:
    import pyarrow
    from pyarrow.parquet import write_table

    out = []
    for columns, compression in (
        ({"id": [1, 2], "x": [0.5, -3e5], "y": [2.0, 1e-3]}, "none"),
        ({"x": [1, 2, None], "y": ["1.5", "2", "3e2"]}, "snappy"),
    ):
        store = io.BytesIO()
        write_table(pyarrow.table(columns), store, compression=compression)
        out.append(store.getvalue())
    return out


def geo_column_points(rng: random.Random) -> bool:
    """A Parquet file of points."""
    return _points("points.parquet", mutate_bytes(rng, rng.choice(_columns())))


PEOPLE = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 1.0], [5.0, 5.0]])


@cache
def _budgets() -> tuple[Any, list[Any]]:
    """Budgets in a ledger, and their pieces."""
    from opendp_optimal.budget import open_ledger
    from opendp_optimal_geo.population import Population
    from opendp_optimal_geo.query import Points
    from opendp_optimal_geo.schedule import Schedule

    ledger = open_ledger(folder() / "people.db")
    people = Population(PEOPLE, budget=Fraction(3, 2), ledger=ledger, ids=["a", "b", "c", "d"])
    Schedule(people, 3).ask(Points())
    people.ask(Points(), budget=np.array([0.5, 1.5, 0.0, 0.25]))
    pieces = [(piece.sort, piece.content) for piece in ledger.columns("people").since(0)]
    return people.allowances, [*pieces, ("fold", people.allowances._folded())]


def geo_budgets(rng: random.Random) -> bool:
    """Pieces of the budgets of people: damaged, or changed and packed again."""
    from opendp_optimal.budget import LedgerError
    from opendp_optimal_geo.accounts import _pack, _unpack
    from opendp_optimal_geo.allowances import WHOLE

    kept, pieces = _budgets()
    chosen = rng.randrange(len(pieces))
    sort, content = pieces[chosen]
    if rng.random() < 0.5:
        content = mutate_bytes(rng, content)
    else:
        head, columns = _unpack(content)
        head = mutate_json(rng, head)
        content = _pack(head if isinstance(head, dict) else {}, **columns)
    kept._begin(0)
    try:
        for number, piece in enumerate([*pieces[:chosen], (sort, content)], start=1):
            kept._take(number, *piece)
    except LedgerError:
        return False
    if (kept._paid < 0).any() or (kept._paid > WHOLE).any() or kept._paid.dtype != np.int64:
        raise FuzzError("budgets were accepted that nobody can have")
    return True


LOOKS = ["even:4", "doubling:10", "0.1,0.2,0.3", "1"]


def geo_words(rng: random.Random) -> bool:
    """Looks and lists of numbers in options."""
    from opendp_optimal_geo.arguments import read_looks, read_numbers

    text = mutate_text(rng, rng.choice(LOOKS))
    accepted = True
    for parse in (read_looks, lambda words: read_numbers("point", words, 2)):
        try:
            parse(text)
        except ValueError:
            accepted = False
    return accepted


# --- data of the experiments ----------------------------------------------------------------------


def select_ratings(rng: random.Random) -> bool:
    """Ratings and titles in the layout of MovieLens."""
    from docs.reproduce.goel.ratings import load_ratings

    titles = b"movieId,title,genres\n1,One,A\n2,Two,B\n"
    given = b"userId,movieId,rating,timestamp\n1,1,4.0,9\n1,2,3.5,9\n2,2,1,9\n"
    changed = rng.random() < 0.3
    file("movies.csv", mutate_rows(rng, titles) if changed else titles)
    file("ratings.csv", given if changed else mutate_rows(rng, given))
    try:
        ratings = load_ratings(folder())
    except ValueError:
        return False
    if not ((ratings.values >= 0) & (ratings.values <= 10)).all():
        raise FuzzError("ratings were accepted beyond the scale")
    return True


def bayes_incomes(rng: random.Random) -> bool:
    """Incomes with weights, packed, and incomes alone."""
    from docs.reproduce.fernandes.income import read_incomes

    (folder() / "income").mkdir(exist_ok=True)
    name = rng.choice(("cps", "oregon"))
    if name == "cps":
        data = mutate_rows(rng, b"income,weight_x100\n100,250\n2000,100\n")
        packed = gzip.compress(data, 1)
        file(
            "income/cps_households.csv.gz",
            packed if rng.random() < 0.7 else mutate_bytes(rng, packed),
        )
    else:
        file(
            "income/pums_oregon_hincp.csv", mutate_rows(rng, b"SERIALNO,HINCP\n1,500\n2,\n3,700\n")
        )
    try:
        incomes, weights = read_incomes(folder(), name)
    except ValueError:
        return False
    if len(incomes) != len(weights) or not (np.isfinite(incomes) & (weights >= 0)).all():
        raise FuzzError("incomes were accepted that are none")
    return True


def learn_data(rng: random.Random) -> bool:
    """A data set for learning."""
    from docs.reproduce.selvi import uci

    (folder() / "uci").mkdir(exist_ok=True)
    data = b"mcg,gvh,aac,alm1,alm2,class\n.1,.2,.3,.4,.5,cp\n.2,.3,.4,.5,.6,im\n.5,?,.1,.2,.3,pp\n"
    file("uci/ecoli.csv", mutate_rows(rng, data))
    try:
        task = uci.load("ecoli", folder())
    except ValueError:
        return False
    if not np.isfinite(task.numbers).all():
        raise FuzzError("data were accepted that are not numbers")
    return True


def geo_images(rng: random.Random) -> bool:
    """Images in the layout of MNIST."""
    from docs.reproduce.liang.datasets import _idx

    whole = (2051).to_bytes(4) + (2).to_bytes(4) + (2).to_bytes(4) * 2 + bytes(range(8))
    packed = gzip.compress(mutate_bytes(rng, whole), 1)
    data = packed if rng.random() < 0.7 else mutate_bytes(rng, packed)
    try:
        return bool(_idx(file("images.gz", data)).ndim == 2)
    except ValueError:
        return False


def experiment_data(rng: random.Random) -> bool:
    """A file of the public data that the experiments are run on."""
    return rng.choice((select_ratings, bayes_incomes, geo_images, learn_data))(rng)


PARSERS: dict[str, Callable[[random.Random], bool]] = {
    "select requests": select_request,
    "select responses": select_response,
    "select catalogue files": select_catalogue,
    "geo region files": geo_region,
    "geo point files (CSV, gzipped CSV)": geo_points,
    "geo point files (Parquet)": geo_column_points,
    "geo budget files": geo_budgets,
    "geo words of options": geo_words,
    "data of the experiments (ratings, incomes, images, UCI)": experiment_data,
}
