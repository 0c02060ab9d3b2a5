"""``opendp-optimal advise``."""

import json

import pytest

from opendp_optimal import plugins
from opendp_optimal.cli import run


@pytest.mark.slow
def test_table(capsys) -> None:
    assert run(["advise", "1", "1e-6"]) == 0
    out = capsys.readouterr().out
    assert "staircase" in out
    assert "make_optimal_noise(input_domain, input_metric, d_in=1.0" in out
    assert "no loss below 0.9593" in out
    assert "use gaussian from" in out


@pytest.mark.slow
def test_json_with_everything(capsys, tmp_path) -> None:
    picture = tmp_path / "advice.png"
    arguments = "0.5 1e-3 --integer --bounds 0 3 --prior 0.1,0.2,0.3,0.4 --loss l2 --releases 2"
    code = run(["advise", *arguments.split(), "--json", "--plot", str(picture)])
    assert code == 0
    found = json.loads(capsys.readouterr().out)
    assert found["releases"] == 2
    assert found["bounds"] == [0.0, 3.0]
    losses = [c["loss"] for c in found["candidates"]]
    assert losses == sorted(losses)
    assert found["lower"] <= losses[0]
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["0"], "epsilon (0.0) must be in"),
        (["1", "--prior", "0.5,0.5"], "prior must come with bounds"),
        (["1", "--prior", "a", "--bounds", "0", "1"], "must be numbers separated by commas"),
        (["1", "--loss", "l0"], "loss ('l0') must be"),
        (["1", "--bounds", "2", "1"], "must have lo below hi"),
    ],
)
def test_bad_arguments(arguments, message, capsys) -> None:
    assert run(["advise", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_failures_are_told(capsys, monkeypatch) -> None:
    def broken(request):
        raise RuntimeError("out of order")

    found = dict(plugins.load().candidates)
    found["broken"] = plugins.Registered("broken", broken, "somebody", "it")
    monkeypatch.setitem(vars(plugins.load()), "candidates", found)
    assert run(["advise", "1"]) == 1
    assert "failed: broken of somebody: out of order" in capsys.readouterr().err
