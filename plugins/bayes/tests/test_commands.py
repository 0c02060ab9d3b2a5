"""``opendp-optimal bayes``."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from opendp_optimal import solve
from opendp_optimal_bayes.commands import bayes


def run(*arguments):
    return CliRunner().invoke(bayes, list(arguments))


def test_geometric(golden):
    done = run("geometric", "--n", "4", "--decay", "1/16", "--json")
    assert done.exit_code == 0
    assert json.loads(done.output) == golden["G_4"]["rows"]
    assert "3/20" in run("geometric", "--n", "2", "--decay", "1/16").output


def test_refine():
    assert "True, exactly" in run("refine").output
    found = json.loads(run("refine", "--n", "2", "--t", "4", "--json").output)
    assert found["holds"]
    assert found["residual"] == "0"
    assert not found["converse"]
    assert found["separated_by"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["geometric", "--n", "2", "--decay", "x"], "must be a fraction"),
        (["geometric", "--n", "0", "--decay", "1/2"], "n (0) must be in [1, 4096]"),
        (["refine", "--n", "3", "--t", "4"], "must be a multiple"),
    ],
)
def test_bad_arguments(arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.output


def released_files(folder):
    """A grid and rows under names, released."""
    import numpy as np

    rng = np.random.default_rng(0)
    axes = np.meshgrid(np.linspace(0, 3, 25), np.linspace(0, 3, 25), indexing="ij")
    p = 1 - np.exp(-0.5)
    true = rng.poisson(40 * np.exp(-(axes[0] ** 2 + axes[1] ** 2)))
    table = true + rng.geometric(p, (25, 25)) - rng.geometric(p, (25, 25))
    (folder / "grid.csv").write_text("\n".join(",".join(map(str, row)) for row in table.tolist()))
    rows = [f"{i},k{j},{table[i, j]}" for i in range(25) for j in range(25)]
    (folder / "rows.csv").write_text("\n".join(["age,kind,count", *rows]))
    return true, table


@pytest.mark.slow
def test_posterior(tmp_path):
    pytest.importorskip("matplotlib")
    _, table = released_files(tmp_path)
    grid, rows = str(tmp_path / "grid.csv"), str(tmp_path / "rows.csv")
    picture, output = tmp_path / "p.svg", tmp_path / "out.csv"
    done = run(
        *("posterior", grid, "--noise", "geometric:0.5", "--like", "neighbours", "--json"),
        *("--plot", str(picture), "--output", str(output)),
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["cells"] == 625
    assert found["gap"] < 1e-6
    assert found["error_after"] < 0.6 * found["error_before"]
    assert len(found["median"]) == len(found["low"][0]) == 25
    assert "<svg" in picture.read_text(encoding="utf-8")
    lines = output.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "row,column,released,median,mean,low,high"
    assert lines[1].startswith(f"0,0,{table[0, 0]},")
    assert len(lines) == 626
    text = run("posterior", rows, "--noise", "geometric:0.5", "--like", "margins").output
    assert "625 cells, fitted to within" in text
    assert f"total {table.sum()}, deviation" in text
    shaped = ("--shape", "25x25", "--like", "neighbours", "--json")
    again = json.loads(run("posterior", rows, "--noise", "geometric:0.5", *shaped).stdout)
    assert again["median"] == found["median"]
    named = run("posterior", rows, "--noise", "geometric:0.5", "--output", str(output))
    assert named.exit_code == 0
    assert output.read_text(encoding="utf-8").startswith(
        "age,kind,count,median,mean,low,high\n0,k0,"
    )


def test_posterior_of_optimised_noise(tmp_path):
    grid = tmp_path / "grid.csv"
    rng = np.random.default_rng(0)
    np.savetxt(grid, rng.poisson(1, (12, 12)) + rng.integers(-2, 3, (12, 12)), "%d", ",")
    counts = json.loads(run("posterior", str(grid), "--noise", "optimal:1,1e-6", "--json").stdout)
    assert np.array(counts["median"]).shape == (12, 12)
    table = solve(1.0, 1e-6, integer_sensitivity=1)
    assert counts["error_before"] == pytest.approx(table.upper, rel=1e-3)
    sums = json.loads(run("posterior", str(grid), "--noise", "optimal-sums:1,0,3", "--json").stdout)
    assert sums["error_before"] == pytest.approx(3 * solve(1.0, 0.0).upper, rel=1e-3)
    for noise, message in (
        ("optimal:1,1e-6,1.5", "must be an integer"),
        ("optimal:-1", "epsilon"),
        ("optimal:1,2,3,4", "must be one of"),
        ("optimal", "must be one of"),
    ):
        done = run("posterior", str(grid), "--noise", noise)
        assert done.exit_code == 2
        assert message in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--noise", "geometric"], "must be one of geometric:NUMBER"),
        (["--noise", "geometric:0"], "positive"),
        (["--noise", "geometric:0.5", "--column", "x"], "must be one of age, kind, count"),
        (["--noise", "geometric:0.5", "--column", "kind"], "'k0' is no number"),
        (["--noise", "geometric:0.5", "--bounds", "0"], "two numbers such as"),
        (["--noise", "geometric:0.5", "--bounds", "-1,"], "at least 0"),
        (["--noise", "geometric:0.5", "--shape", "3x3"], "9 cells, released has 625"),
        (["--noise", "geometric:0.5", "--shape", "3by3"], "such as 100x100"),
        (["--noise", "geometric:0.5", "--like", "x"], "must be 'margins', 'neighbours'"),
        (["--noise", "geometric:0.5", "--level", "2"], "level"),
        (["--noise", "geometric:0.5", "--like", "count"], "says nothing of itself"),
    ],
)
def test_bad_arguments_of_posterior(tmp_path, arguments, message):
    released_files(tmp_path)
    done = run("posterior", str(tmp_path / "rows.csv"), *arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_bad_files_of_posterior(tmp_path):
    path = tmp_path / "table.csv"
    for text, message in (
        ("", "is empty"),
        ("a,b\n", "no rows"),
        ("1,2\n3\n", "must have 2 values"),
        ("a,b,b\n1,2,3\n", "has two columns 'b'"),
    ):
        path.write_text(text)
        done = run("posterior", str(path), "--noise", "geometric:0.5")
        assert done.exit_code == 2
        assert message in done.output
    path.write_text("1,nan\n2,3\n")
    assert "finite" in run("posterior", str(path), "--noise", "geometric:0.5").output


def test_files_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "table.csv"
    for text, cells in (("1,2\n3,4\n", 4), ("place,count\na,1\nb,2\n", 2)):
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
        done = run("posterior", str(path), "--noise", "geometric:0.5", "--json")
        assert json.loads(done.stdout)["cells"] == cells
    assert run("posterior", str(path), "--noise", "geometric:0.5", "--like", "place").exit_code == 0
    path.write_bytes("a,b\nä,1\n".encode("latin-1"))
    done = run("posterior", str(path), "--noise", "geometric:0.5")
    assert "table.csv must be text in UTF-8" in f"{done.output}{done.exception}"
