import gzip
import json

import numpy as np
import pytest
from click.testing import CliRunner

from opendp_optimal.budget import open_ledger
from opendp_optimal.cli.budget import budget
from opendp_optimal_geo.commands import geo


def run(*arguments):
    return CliRunner().invoke(geo, [str(a) for a in arguments])


@pytest.fixture
def points(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "points.csv"
    rows = rng.normal(0.0, 1000.0, (400, 2))
    lines = [f"p{i},{x},{y}" for i, (x, y) in enumerate(rows.tolist())]
    path.write_text("who,x,y\n" + "\n".join(lines) + "\n")
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


def test_budgets_go_on_in_a_ledger(points, tmp_path):
    kept = ("--ledger", tmp_path / "budgets.db", "--id", "who")
    options = ("--region", SQUARE, "--price", 5e-3, "--baseline", *kept)
    asked = ("count", points, "--budget", 1e-2, *options, "--json")
    first = json.loads(run(*asked).stdout)
    assert first["mean_remaining"] == pytest.approx(5e-3)
    lines = points.read_text().splitlines()
    points.write_text("\n".join([lines[0], *reversed(lines[1:])]))  # the same people
    second = json.loads(run(*asked).stdout)
    assert second["mean_remaining"] == pytest.approx(0.0, abs=1e-9)
    assert second["generation"] == first["generation"] + 1
    points.write_text("\n".join([*lines[:200], "newcomer,1,2"]))
    third = json.loads(run(*asked).stdout)
    assert (third["users"], third["halted"], third["missing"]) == (200, 199, 199)
    text = run("count", points, "--budget", 1e-2, *options).stdout
    assert f"generation   {third['generation'] + 1}" in text
    kept = ("--ledger", str(tmp_path / "budgets.db"))
    log = CliRunner().invoke(budget, ["log", "people", *kept, "--json"])
    paid = [line for line in json.loads(log.stdout) if "look" in line["note"]]
    assert [line["price"] for line in paid[:2]] == ["0.005 from 400"] * 2
    assert "people" in CliRunner().invoke(budget, ["show", *kept]).stderr
    assert "whole" in CliRunner().invoke(budget, ["verify", *kept]).stdout


@pytest.mark.parametrize(
    "changed",
    [
        ("--budget", 1),
        ("--privacy", "gp"),
        ("--privacy", "approx-gp", "--delta", 1e-6, "--reach", 10),
        ("--key", "other.key"),
        ("--id", "nobody"),
        ("--ledger", "points.csv"),
    ],
)
def test_a_ledger_with_other_parameters_is_refused(points, tmp_path, changed):
    changed = [tmp_path / a if a in ("other.key", "points.csv") else a for a in changed]
    (tmp_path / "other.key").write_text("ab" * 32)
    (tmp_path / "other.key").chmod(0o600)
    kept = ("--state", tmp_path / "budgets.db", "--id", "who")
    asked = ("count", points, "--budget", 1e-2, "--region", SQUARE, "--price", 1e-3, *kept)
    assert run(*asked).exit_code == 0
    before = open_ledger(tmp_path / "budgets.db").generation
    result = run(*asked, *changed)
    assert result.exit_code == 2, result.output
    assert "must" in result.stderr
    assert "ab" * 8 not in result.stderr
    assert open_ledger(tmp_path / "budgets.db").generation == before


def test_a_ledger_needs_to_know_who_is_who(points, tmp_path):
    for given in (("--ledger", tmp_path / "budgets.db"), ("--id", "who")):
        result = run("count", points, "--budget", 1, "--region", SQUARE, *given)
        assert result.exit_code == 2
        assert "together" in result.stderr
    points.write_text("who,x,y\nann,1,2\nann,3,4\n")
    kept = ("--ledger", tmp_path / "budgets.db", "--id", "who")
    result = run("count", points, "--budget", 1, "--region", SQUARE, *kept)
    assert result.exit_code == 2
    assert "different" in result.stderr
    assert "ann" not in result.stderr


def test_neighbours_and_kde(points):
    result = run("neighbours", points, "--budget", 1e-2, "--at", "0,0", "--k", 3, "--json")
    assert len(json.loads(result.stdout)["value"]) == 3
    result = run("kde", points, "--budget", 1e-2, "--at", "0,0", "--bandwidth", 200, "--json")
    assert 0.0 < json.loads(result.stdout)["value"] < 1.0


@pytest.mark.slow
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
    kept = ("--ledger", tmp_path / "budgets.db", "--id", "who")
    asked = ("--budget", 1e-2, "--region", SQUARE, "--price", 5e-3, "--baseline", *kept, "--json")
    assert json.loads(run("count", path, *asked).stdout)["halted"] == 0
    left = json.loads(run("count", points, *asked).stdout)["mean_remaining"]  # the same people
    assert left == pytest.approx(0.0, abs=1e-9)
    for wrong in ("x", "y"):
        assert run("count", path, *asked, "--id", wrong).exit_code == 2


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
    assert loaded.mechanisms["signed_distance"].distribution == "opendp-optimal-geo"


@pytest.mark.parametrize("option", ["--map", "--map-with-true-points"])
@pytest.mark.parametrize("name", ["nowhere/map.png", "map.nonsense", ""])
def test_files_are_checked_before_anybody_is_asked(points, tmp_path, option, name):
    pytest.importorskip("matplotlib", reason="the extra opendp-optimal-geo[plot] is missing")
    state = tmp_path / "budgets.db"
    kept = ("--ledger", state, "--id", "who")
    options = ("--budget", 1e-2, "--region", SQUARE, *kept, "--json")
    assert run("count", points, *options, "--price", 1e-3).exit_code == 0
    before = open_ledger(state).generation
    result = run("count", points, *options, option, tmp_path / name)
    assert result.exit_code == 2
    assert "file" in result.stderr
    assert open_ledger(state).generation == before


@pytest.mark.parametrize("option", ["--output", "--table"])
def test_files_of_other_commands_are_checked_first(points, tmp_path, option):
    pytest.importorskip("matplotlib", reason="the extra opendp-optimal-geo[plot] is missing")
    state, missing = tmp_path / "budgets", tmp_path / "nowhere" / "x.png"
    where = ("--bounds", "-9,-9,9,9", "--bandwidth", 2)
    kept = ("--ledger", state, "--id", "who")
    result = run("density", points, "--budget", 1e-2, *kept, *where, option, missing)
    assert result.exit_code == 2
    assert not state.exists()


def test_the_answer_is_printed_before_anything_is_drawn(points, tmp_path, monkeypatch):
    plots = pytest.importorskip("opendp_optimal_geo.plots")
    pytest.importorskip("matplotlib", reason="the extra opendp-optimal-geo[plot] is missing")

    def full(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr(plots, "plot_count", full)
    monkeypatch.setattr(plots, "plot_density", full)
    picture = tmp_path / "x.png"
    result = run("count", points, "--budget", 1e-2, "--region", SQUARE, "--json", "--map", picture)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["users"] == 400
    where = ("--bounds", "-9,-9,9,9", "--bandwidth", 2, "--output", picture)
    result = run("density", points, "--budget", 1e-2, "--json", *where)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["answered"] == 400


@pytest.mark.slow
def test_a_map_shows_what_was_released(points, tmp_path):
    """The function that draws it is not given the points; the secret picture says so by name."""
    pytest.importorskip("matplotlib", reason="the extra opendp-optimal-geo[plot] is missing")
    from opendp_optimal_geo import plots

    assert set(plots.plot_count.__annotations__) == {"path", "answer", "region", "return"}
    secret, released = tmp_path / "secret.svg", tmp_path / "released.svg"
    options = ("--map", released, "--map-with-true-points", secret)
    result = run("count", points, "--budget", 1e-2, "--region", SQUARE, *options)
    assert result.exit_code == 0, result.output
    assert "<image" in secret.read_text()  # the points, as one picture
    assert "<image" not in released.read_text()
    assert "true-points" in run("count", "--help").output


def test_json_has_no_infinity(points, tmp_path):
    kept = ("--ledger", tmp_path / "budgets.db", "--id", "who")
    options = ("--budget", 1e-2, "--at", "0,0", *kept, "--json", "--baseline")
    run("neighbours", points, *options)
    result = run("neighbours", points, *options)  # nobody has anything left
    assert json.loads(result.stdout, parse_constant=pytest.fail)["error_bound"] is None


def test_errors_about_files_do_not_quote_them(tmp_path):
    path = tmp_path / "points.csv"
    path.write_bytes(b"x,y\n1,\xe9secret\n")
    result = run("count", path, "--budget", 1, "--region", SQUARE)
    assert result.exit_code == 2
    assert "UTF-8" in result.stderr
    assert "0xe9" not in result.stderr
    parquet = pytest.importorskip(
        "pyarrow.parquet", reason="the extra opendp-optimal-geo[parquet] is missing"
    )
    import pyarrow

    path = tmp_path / "points.parquet"
    parquet.write_table(pyarrow.table({"x": ["secret", "1"], "y": ["2", "3"]}), path)
    result = run("count", path, "--budget", 1, "--region", SQUARE)
    assert result.exit_code == 2
    assert "secret" not in result.stderr
