import json
import os

import pytest
from click.testing import CliRunner

from opendp_optimal_select.commands import select


def run(*arguments):
    return CliRunner().invoke(select, [str(a) for a in arguments])


def test_offsets():
    result = run("offsets", "--k", 3, "--epsilon", 1, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["cost"] == 0.5
    assert "cost 0.500000000" in run("offsets", "--k", 3).stdout
    assert run("offsets", "--disutility", "sqrt").exit_code == 0


def test_bad_arguments_are_usage_errors():
    for arguments in (("offsets", "--k", 0), ("offsets", "--epsilon", "nan"), ("ring", "--k", 99)):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "must be" in result.stderr


def test_audit():
    report = json.loads(run("audit", "--draws", 300, "--json").stdout)
    assert report["violated"] is False
    assert report["claimed"] == pytest.approx(1.0)


@pytest.mark.slow
def test_ring():
    result = run("ring", "--tolerance", 0.05, "--cells", 8, "--json")
    report = json.loads(result.stdout)
    assert report["lower"] <= 0.7087 <= report["upper"] + 1e-2
    assert "certified" in run("ring", "--tolerance", 0.1, "--cells", 8).stdout


@pytest.mark.slow
def test_plots(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra opendp-optimal-select[plot] is missing")
    for name, options in (("offsets", ()), ("cost", ()), ("ring", ("--tolerance", 0.1))):
        path = tmp_path / f"{name}.png"
        assert run("plot", name, "--output", path, *options).exit_code == 0
        assert path.read_bytes().startswith(b"\x89PNG")


def test_catalogue_files(tmp_path):
    path = tmp_path / "catalogue.csv"
    for text in ("", "x,y\n", "item,position\na\n", "item,position\na,b\n", "item,position\n"):
        path.write_text(text)
        assert run("serve", "--catalogue", path).exit_code == 2
    path.write_text("item,position\na,nan\n")
    assert "finite" in run("serve", "--catalogue", path).stderr


def test_asking_nobody():
    result = run("ask", "--url", "http://127.0.0.1:9", "--value", 3)
    assert result.exit_code == 1
    assert "no answer from the service" in result.stderr


def test_pictures_are_checked_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("opendp_optimal_select.ring.optimum.optimal_ring", None)
    for place in ("none/x.png", "x.nonsense", "."):
        for name in ("offsets", "cost", "ring"):
            result = run("plot", name, "--output", tmp_path / place)
            assert result.exit_code == 2, result.output
            assert not result.stdout


@pytest.mark.skipif(os.name == "nt", reason="pipes")
def test_a_pipe_is_no_catalogue(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    result = run("serve", "--catalogue", tmp_path / "pipe.csv")
    assert result.exit_code != 0
    assert "not a regular file" in result.output + str(result.exception)
