"""Commands on tables of every kind: vectors, means, and what does not go together."""

import json

import pytest

from opendp_optimal import cli
from opendp_optimal.cli.warm import Job, attempt
from opendp_optimal.table import store as tables


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.run(arguments)
    return code, capsys.readouterr().out


def test_bundled_vectors_and_means_are_shown(capsys):
    code, out = called(capsys, "solve", "1", "1e-6", "--size", "10", "--loss", "l2", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["gap"] < 5e-3
    code, out = called(capsys, "show", "1", "1e-6", "--size", "2", "--loss", "l2")
    assert code == 0
    assert "no mechanism below" in out
    code, out = called(capsys, "show", "1", "1e-6", "--mean", "--loss", "l2", "--gap", "0.01")
    assert code == 0
    assert "centred sum" in out


@pytest.mark.parametrize(
    "arguments",
    [("1", "--size", "2", "--norm", "linf"), ("1", "1e-6", "--size", "10", "--loss", "l2")],
)
def test_shown_lengths_are_densities(capsys, arguments):
    shown = json.loads(called(capsys, "show", *arguments, "--json")[1])
    widths = [b - a for a, b in zip(shown["edges"], shown["edges"][1:], strict=False)]
    mass = sum(d * w for d, w in zip(shown["density"], widths, strict=True))
    assert 0.999 < mass <= 1 + 1e-9


def test_what_does_not_go_together_is_said(capsys):
    for arguments in (
        ("solve", "1", "1e-6", "--mean", "--size", "2"),
        ("solve", "1", "1e-6", "--mean", "--integer", "2"),
        ("show", "1", "1e-6", "--range", "0", "1", "--sensitivity", "1", "--mean"),
    ):
        assert called(capsys, *arguments)[0] == 2


def test_warmed_tables_of_every_kind_are_there_the_next_time(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENDP_OPTIMAL_CACHE", str(tmp_path))
    jobs = [
        Job(3.0, 0.0, "l2", None, 0.5, size=4, norm="l1"),
        Job(3.0, 1e-2, "l2", None, 0.5, size=3),
        Job(3.0, 1e-2, "l2", None, 0.5, mean=True),
    ]
    assert [attempt(job).status for job in jobs] == ["solved"] * 3
    assert [attempt(job).status for job in jobs] == ["there"] * 3
    kept = {place.suffix for place in tables.cache_directory().iterdir()}
    assert kept == {".radial", ".pair"}
