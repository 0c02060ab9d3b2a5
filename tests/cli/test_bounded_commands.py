"""The family of noises at the terminal."""

import json
from pathlib import Path

import pytest

from opendp_optimal import cli, solve_bounded
from opendp_optimal.table import store as tables
from opendp_optimal.table.files.bounded import KIND as BOUNDED

SHOW = ("show", "1", "0.2", "--range", "0", "4", "--sensitivity", "2", "--bins", "4")


def test_show_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(SHOW) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "what is released, by answer:"
    assert [line.split()[0] for line in lines[1:6]] == ["0", "1", "2", "3", "4"]
    assert "no mechanism below" in lines[-1]
    assert "at any one answer" in lines[-1]


@pytest.mark.slow
def test_show_json_and_plot(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "family.svg"
    assert cli.run([*SHOW, "--json", "--cap", "1.5", "--plot", str(picture)]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    table = solve_bounded(1.0, 0.2, sensitivity=2, range=(0, 4), bins=4, cap=1.5)
    assert found["upper"] == table.upper
    assert found["largest_conditional_loss"] <= 1.5
    assert [sum(row) for row in found["chances"]] == pytest.approx([1.0] * 5)
    assert "answer 2" in picture.read_text() or picture.stat().st_size > 10000
    assert "saved" in captured.err


def test_integers(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["show", "1", "1e-6", "--range", "0", "5", "--integer", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "integer"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "1", "0.1", "--range", "0", "4"], "needs either --sensitivity or --integer"),
        (["show", "1", "0.1", "--cap", "3"], "need --range"),
        (
            ["show", "1", "0.1", "--range", "4", "0", "--sensitivity", "1"],
            "range (4.0, 0.0) must have its low end below its high end",
        ),
        (["show", "1", "0.1", "--range", "0", "4", "--sensitivity", "2", "--bins", "7"], "divide"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(arguments) == 2
    assert words in capsys.readouterr().err


def test_stored_tables_are_verified_listed_and_cleared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    solve_bounded(1.0, 0.2, sensitivity=2, range=(0, 4), bins=4)
    (place,) = tables.stored_files(BOUNDED)
    assert cli.run(["verify", str(place)]) == 0
    assert "1 of 1 tables verified" in capsys.readouterr().out
    assert cli.run(["cache", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["sensitivity"] == 2.0
    damaged = bytearray(place.read_bytes())
    damaged[-50] ^= 1
    place.write_bytes(bytes(damaged))
    assert cli.run(["verify", str(place)]) == 1
    assert cli.run(["cache", "clear", "--yes"]) == 0
    assert not list(tables.stored_files(BOUNDED))
