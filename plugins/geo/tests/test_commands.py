import gzip
import json

import numpy as np
import pytest
from click.testing import CliRunner

from opendp_optimal_geo.commands import geo


def run(*arguments):
    return CliRunner().invoke(geo, [str(a) for a in arguments])


@pytest.fixture
def points(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "points.csv"
    rows = rng.normal(0.0, 1000.0, (400, 2))
    path.write_text("x,y\n" + "\n".join(f"{x},{y}" for x, y in rows.tolist()) + "\n")
    return path


@pytest.fixture
def degrees(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "points.csv.gz"
    rows = np.array([-74.0, 40.7]) + rng.normal(0.0, 0.02, (200, 2))
    with gzip.open(path, "wt") as file:
        file.write("id,lng,lat\n" + "\n".join(f"a,{x},{y}" for x, y in rows.tolist()) + "\n")
    return path


SQUARE = "POLYGON ((-500 -500, 500 -500, 500 500, -500 500, -500 -500))"


def test_count(points):
    result = run("count", points, "--budget", 1e-2, "--region", SQUARE, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["users"] == 400
    assert report["saving"] > 0.3
    text = run("count", points, "--budget", 1e-2, "--region", SQUARE, "--method", "distance")
    assert "error bound" in text.stdout
    assert "look 1" in text.stdout


def test_degrees_and_geojson(degrees, tmp_path):
    region = tmp_path / "region.geojson"
    shape = {
        "type": "Polygon",
        "coordinates": [
            [[-74.02, 40.68], [-73.98, 40.68], [-73.98, 40.72], [-74.02, 40.72], [-74.02, 40.68]]
        ],
    }
    feature = {"type": "Feature", "properties": {}, "geometry": shape}
    region.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    options = ("--budget", 1e-2, "--region", region, "--crs", "EPSG:32618", "--degrees", "--json")
    result = run("count", degrees, *options)
    assert result.exit_code == 0, result.output
    assert 40 < json.loads(result.stdout)["value"] < 160


def test_state_goes_on(points, tmp_path):
    state = tmp_path / "budgets"
    options = (points, "--budget", 1e-2, "--region", SQUARE, "--state", state, "--json")
    first = json.loads(run("count", *options, "--price", 5e-3, "--baseline").stdout)
    assert first["mean_remaining"] == pytest.approx(5e-3)
    second = json.loads(run("count", *options, "--price", 5e-3, "--baseline").stdout)
    assert second["mean_remaining"] == pytest.approx(0.0, abs=1e-9)
    third = json.loads(run("count", *options, "--price", 5e-3, "--baseline").stdout)
    assert third["halted"] == 400
    other = run("count", points, "--budget", 1, "--region", SQUARE, "--state", state)
    assert other.exit_code == 2


def test_neighbours_and_kde(points):
    result = run("neighbours", points, "--budget", 1e-2, "--at", "0,0", "--k", 3, "--json")
    assert len(json.loads(result.stdout)["value"]) == 3
    result = run("kde", points, "--budget", 1e-2, "--at", "0,0", "--bandwidth", 200, "--json")
    assert 0.0 < json.loads(result.stdout)["value"] < 1.0


def test_pictures(points, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra opendp-optimal-geo[plot] is missing")
    picture = tmp_path / "map.png"
    run("count", points, "--budget", 1e-2, "--region", SQUARE, "--map", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    heat, table = tmp_path / "heat.svg", tmp_path / "heat.csv"
    bounds = "-2000,-2000,2000,2000"
    options = ("--bounds", bounds, "--cells", 20, "--bandwidth", 200)
    result = run("density", points, "--budget", 1e-2, *options, "--output", heat, "--table", table)
    assert result.exit_code == 0, result.output
    assert "<svg" in heat.read_text()
    assert np.loadtxt(table, delimiter=",").shape == (20, 20)


def test_parquet(points, tmp_path):
    parquet = pytest.importorskip(
        "pyarrow.parquet", reason="the extra opendp-optimal-geo[parquet] is missing"
    )
    from pyarrow import csv

    path = tmp_path / "points.parquet"
    parquet.write_table(csv.read_csv(points), path)
    result = run("count", path, "--budget", 1e-2, "--region", SQUARE, "--json")
    assert json.loads(result.stdout)["users"] == 400
    assert run("count", path, "--budget", 1, "--region", SQUARE, "--columns", "x,z").exit_code == 2


@pytest.mark.parametrize(
    "options",
    [
        ("--budget", 0, "--region", SQUARE),
        ("--budget", -1, "--region", SQUARE),
        ("--budget", "nan", "--region", SQUARE),
        ("--budget", 1, "--price", 2, "--region", SQUARE),
        ("--budget", 1, "--region", "POLYGON EMPTY"),
        ("--budget", 1, "--region", "POLYGON ((0 0, 1 1, 1 0, 0 1, 0 0))"),
        ("--budget", 1, "--region", "a circle"),
        ("--budget", 1, "--region", SQUARE, "--looks", "odd:3"),
        ("--budget", 1, "--region", SQUARE, "--looks", "0.1,0.2"),
        ("--budget", 1, "--region", SQUARE, "--columns", "x"),
        ("--budget", 1, "--region", SQUARE, "--privacy", "approx-gp"),
    ],
)
def test_bad_arguments_are_usage_errors(points, options):
    result = run("count", points, *options)
    assert result.exit_code == 2, result.output
    assert "must" in result.stderr


def test_bad_files(tmp_path):
    path = tmp_path / "points.csv"
    for text in ("", "a,b\n1,2\n", "x,y\n1\n", "x,y\n1,z\n", "x,y\n1,nan\n", "lng,lat\n1,2\n"):
        path.write_text(text)
        assert run("count", path, "--budget", 1, "--region", SQUARE).exit_code == 2
    path.write_text("x,y\n12345,secret\n")
    assert "secret" not in run("count", path, "--budget", 1, "--region", SQUARE).stderr
    assert run("neighbours", path, "--budget", 1, "--at", "0").exit_code == 2


def test_audit():
    report = json.loads(run("audit", "--draws", 5000, "--json").stdout)
    assert report["violated"] is False
    assert "not refuted" in run("audit", "--draws", 500, "--privacy", "gp").stdout


def test_the_host_finds_the_plugin():
    from opendp_optimal import plugins

    loaded = plugins.load()
    assert loaded.commands["geo"].distribution == "opendp-optimal-geo"
    assert loaded.mechanisms["grid_gaussian"].distribution == "opendp-optimal-geo"
