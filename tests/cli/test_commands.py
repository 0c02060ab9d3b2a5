"""Every command does its job: results on stdout, the rest on stderr, documented exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import opendp_optimal
from opendp_optimal import cli
from opendp_optimal.table import store as tables


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> Result:
        code = cli.run(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENDP_OPTIMAL_CACHE", str(tmp_path))
    return tables.cache_directory()


def test_solve(run: Run) -> None:
    result = run("solve", "1", "1e-6", "--json")
    assert result.code == 0
    assert result.json["upper"] == opendp_optimal.solve(epsilon=1.0, delta=1e-6).upper
    assert result.json["lower"] <= result.json["upper"]
    text = run("solve", "1", "1e-3", "--integer", "2", "--loss", "l2")
    assert "kind     integer" in text.out
    assert text.err.startswith("took")
    assert run("solve", "0.5").out.splitlines()[1] == "delta    0"


def test_solve_says_when_the_gap_is_not_reached(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opendp_optimal.solve(epsilon=1.0, delta=1e-6)
    monkeypatch.setattr(opendp_optimal, "solve", lambda **options: table)
    result = run("solve", "1", "1e-6", "--gap", "1e-12")
    assert result.code == 3
    assert "upper" in result.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("solve",),
        ("solve", "one"),
        ("solve", "-1", "1e-6"),
        ("solve", "--", "-1", "1e-6"),
        ("solve", "1", "2"),
        ("solve", "1", "1e-6", "--loss", "l9"),
        ("solve", "1", "1e-6", "--gap", "0"),
        ("solve", "1", "1e-6", "--integer", "0"),
        ("show", "nan"),
        ("compare",),
        ("warm", "--epsilon", "1"),
        ("warm", "--epsilon", "a,b", "--delta", "1e-6"),
        ("warm", "--epsilon", "1", "--delta", "1e-6", "--no-real"),
        ("nonsense",),
        ("verify", "no/such/file"),
        ("show", "1", "1e-3", "--plot", "picture.nonsense"),
    ],
)
def test_wrong_usage(
    run: Run, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.code == 2
    assert result.err


@pytest.mark.slow
def test_show(run: Run, tmp_path: Path) -> None:
    result = run("show", "1", "1e-3")
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == [
        "optimal",
        "laplace",
        "gaussian",
        "staircase",
    ]
    assert "█" in lines[0]
    assert "no mechanism below" in lines[-1]
    for ending in ("png", "svg"):
        picture = tmp_path / f"noise.{ending}"
        assert run("show", "1", "1e-3", "--plot", str(picture)).code == 0
        assert picture.stat().st_size > 1000


@pytest.mark.parametrize("arguments", [("1", "0.1"), ("1",), ("1", "1e-3", "--integer", "2")])
def test_shown_densities_are_densities(run: Run, arguments: tuple[str, ...]) -> None:
    shown = run("show", *arguments, "--json").json
    widths = [b - a for a, b in zip(shown["edges"], shown["edges"][1:], strict=False)]
    for name, density in shown["density"].items():
        mass = sum(d * w for d, w in zip(density, widths, strict=True))
        assert mass <= 1 + 1e-9
        assert mass > (0.999 if name == "optimal" else 0.8)
    assert ("gaussian" in shown["density"]) == (len(arguments) > 1)


@pytest.mark.slow
def test_compare(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "losses.png"
    result = run("compare", "5", "0.25", "--json", "--plot", str(picture))
    assert result.code == 0
    assert picture.exists()
    rows = {row["mechanism"]: row for row in result.json["mechanisms"]}
    assert rows["laplace"]["l1"] == pytest.approx(0.2)
    assert rows["no mechanism below"]["l1"] <= rows["optimal"]["l1"] < rows["staircase"]["l1"]
    for row in rows.values():
        if row["kind"] == "baseline":
            assert row["l1_ratio"] >= 1
            assert row["l2_ratio"] >= 1
    text = run("compare", "1", "1e-6")
    assert "canonical (tulap)" in text.out
    words = [line.split() for line in run("compare", "1").out.splitlines()]
    names = {"optimal", "staircase", "laplace"}
    shown = {line[0]: float(line[1]) for line in words if line and line[0] in names}
    assert shown["optimal"] <= shown["staircase"] < shown["laplace"]
    pure = {r["mechanism"]: r for r in run("compare", "1", "--json").json["mechanisms"]}
    assert pure["gaussian"]["l1"] is None
    whole = run("compare", "1", "1e-3", "--integer", "--json").json["mechanisms"]
    assert "discrete laplace" in [row["mechanism"] for row in whole]


def test_keys(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "keys.png"
    result = run("keys", "1", "1e-6", "--json", "--plot", str(picture))
    assert result.code == 0
    assert picture.exists()
    for row in result.json["counts"]:
        assert row["chance"] == pytest.approx(row["best"], rel=1e-4)
    many = run("keys", "1", "1e-6", "--keys", "10", "--move", "3")
    assert "up to 10 keys a person" in many.out
    assert run("keys", "1", "0").code == 2


@pytest.mark.slow
def test_warm_is_resumable(run: Run, own_cache: Path) -> None:
    # Targets that no bundled table answers.
    grid = ("warm", "--epsilon", "0.71,1.03", "--delta", "1.5e-3", "--integer", "2", "--jobs", "2")
    first = run(*grid, "--json")
    assert first.code == 0
    assert first.json["counts"]["solved"] == 4
    assert "4/4" in first.err
    assert len(list(own_cache.glob("*.noise"))) == 4
    one = next(own_cache.glob("*.noise"))
    one.unlink()
    second = run(*grid)
    assert second.out.strip() == "1 solved, 3 there, 0 gap not reached, 0 failed"


@pytest.mark.slow
def test_warm_reports_failures(run: Run, own_cache: Path) -> None:
    result = run("warm", "--epsilon", "1.03", "--delta", "1.5e-3,7", "--jobs", "1")
    assert result.code == 1
    assert "1 solved" in result.out
    assert "delta (7" in result.err


def test_verify_and_cache(run: Run, own_cache: Path) -> None:
    run("solve", "1.03", "1.5e-3")
    (file,) = own_cache.glob("*.noise")
    assert run("verify", str(file)).out.strip() == "1 of 1 tables verified"
    listed = run("cache", "list", "--json").json
    assert [entry["epsilon"] for entry in listed] == [1.03]
    assert "1.03" in run("cache", "list").out
    assert run("cache", "path").out.splitlines()[0] == str(own_cache)

    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    result = run("verify", str(file), "--json")
    assert result.code == 1
    assert result.json[0]["verified"] is False
    assert run("verify", str(file)).out.startswith(str(file))

    assert run("cache", "clear", "--yes").code == 0
    assert list(own_cache.glob("*.noise")) == []


def test_plugins(run: Run) -> None:
    result = run("plugins", "--json")
    assert result.code == 0, result.err
    names = [plugin["distribution"] for plugin in result.json["plugins"]]
    assert names[0] == "opendp-optimal"
    assert "opendp-optimal-example" in names
    assert result.json["failures"] == []
    (listed,) = [p for p in result.json["plugins"] if p["distribution"] == "opendp-optimal"]
    assert "optimal" in listed["adds"]["mechanisms"]
    assert "mechanisms: exact_gaussian" in run("plugins").out


@pytest.mark.slow
def test_demo(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "demo.png"
    result = run("demo", "--repeats", "20", "--plot", str(picture))
    assert result.code == 0, result.err
    assert picture.stat().st_size > 10_000
    for word in ("count", "sum of incomes", "mean income", "people by trade", "cut vs gaussian"):
        assert word in result.out
    told = run("demo", "--repeats", "150", "--json").json
    for query in told["queries"]:
        assert query["optimal_error"] < query["gaussian_error"]
        assert type(query["laplace"]) is type(query["optimal"])
    budgets = {"paid": 3, "refused": 1, "answers": 1, "client_asked": 4, "client_signals": 2}
    assert told["ledger"] == budgets
    assert told["table"]["estimated"] < 0.7 * told["table"]["clamped"]
    # The variances are in a ratio of about ten.
    assert told["mean"]["together"] < 0.6 * told["mean"]["divided"]


def test_version_and_help(run: Run) -> None:
    assert run("--version").out.startswith("opendp-optimal ")
    shown = run("--help").out
    for command in ("solve", "show", "compare", "warm", "verify", "cache", "plugins", "demo"):
        assert f"\n  {command} " in shown
    assert "130 interrupted" in shown


def test_an_error_while_working_is_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**options: object) -> None:
        raise opendp_optimal.CertificateError("a proof failed")

    monkeypatch.setattr(opendp_optimal, "solve", fail)
    result = run("solve", "1", "1e-6")
    assert result.code == 1
    assert "CertificateError: a proof failed" in result.err
