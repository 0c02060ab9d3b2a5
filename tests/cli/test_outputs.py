"""What commands write: JSON that every reader takes, and files that are checked before any work."""

import json
import math
import runpy
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

import opendp_optimal
from opendp_optimal.cli import run
from opendp_optimal.cli.terminal import json_text


def refuse(name):
    raise AssertionError(f"{name} is not JSON")


def test_numbers_that_are_not_finite_are_null():
    value = {
        "a": math.inf,
        "b": [-math.inf, math.nan, 1.5],
        "c": np.array([[1.0, np.inf]]),
        "d": (np.float64(2.0), np.int64(3), np.float32("nan"), True, None, "Infinity"),
        "e": float("1e308"),
    }
    assert json.loads(json_text(value), parse_constant=refuse) == {
        "a": None,
        "b": [None, None, 1.5],
        "c": [[1.0, None]],
        "d": [2.0, 3, None, True, None, "Infinity"],
        "e": 1e308,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("solve", "24", "0"),
        ("compare", "24", "0"),
        ("show", "2", "0.9", "--range", "0", "1", "--sensitivity", "1", "--bins", "1"),
        ("advise", "2", "0.9", "--bounds", "0", "1", "--integer", "--prior", "1,0"),
    ],
)
def test_commands_print_json(arguments, capsys):
    run([*arguments, "--json"])
    json.loads(capsys.readouterr().out, parse_constant=refuse)


def commands_with(option):
    from opendp_optimal import plugins

    for name, added in plugins.load().commands.items():
        if added.distribution != "opendp-optimal":
            continue
        if any(option in p.opts for p in added.value.params if isinstance(p, click.Option)):
            yield name


TARGET = ["1", "1e-3"]
NEEDED = {**dict.fromkeys(("advise", "compare", "keys", "show"), TARGET), "demo": []}


def test_every_picture_is_checked_before_any_work(tmp_path, monkeypatch, capsys):
    def solve(*args, **kwargs):
        raise AssertionError("work was done")

    monkeypatch.setattr(opendp_optimal, "solve", solve)
    monkeypatch.setattr("opendp_optimal.search.noise.solve", solve)
    (tmp_path / "file").write_text("no folder")
    names = sorted(commands_with("--plot"))
    assert names == sorted(NEEDED)
    for name in names:
        for place in ("none/x.png", "file/x.png", ".", "x.nonsense", "x"):
            code = run([name, *NEEDED[name], "--plot", str(tmp_path / place)])
            assert code == 2, (name, place)
            assert not capsys.readouterr().out


@pytest.mark.process
def test_the_package_runs_as_a_module(tmp_path: Path):
    command = [sys.executable, "-m", "opendp_optimal", "cache", "path", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_the_module_has_the_exit_codes_of_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["opendp_optimal", "nonsense"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("opendp_optimal", run_name="__main__")
    assert ended.value.code == 2
    assert "opendp-optimal" in capsys.readouterr().err
