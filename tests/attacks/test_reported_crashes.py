"""What was reported of 0.1.0 about errors, wrong answers and outputs: each must be untrue.

See ``test_reported.py``.
"""

import contextlib
import importlib.util
import json
import math
import os
import stat
import subprocess
import sys
import warnings
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_optimal as oo
import opendp_optimal_bayes as bayes
import opendp_optimal_learn as learn
import opendp_optimal_select as select
from opendp_optimal.cli import main

dp.enable_features("contrib", "honest-but-curious")

REAL = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
WARM = ("warm", "--epsilon", "2", "--delta", "0.1", "--gap", "1", "--jobs", "1")
SQUARE = "POLYGON((0 0, 0 10, 10 10, 10 0, 0 0))"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("OPENDP_OPTIMAL_CACHE", str(folder))
    return folder


def command(*arguments):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as left:
        main(arguments)
    return left.value.code


@contextlib.contextmanager
def refusing(words):
    """Nothing but an answer, or a refusal in these words."""
    try:
        yield
    except ValueError as error:
        if words not in str(error):
            raise


def proved(table):
    table.verify()
    assert 0 <= table.lower <= table.upper < math.inf
    return table


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oo.GapWarning)
        yield


@pytest.mark.usefixtures("quiet")
def test_large_losses():
    proved(oo.solve(5e-4, 1e-6, loss="l2", gap=0.1, cache=False))
    money = proved(oo.solve(1.0, 1e-6, loss=lambda x: 1e7 * abs(x), gap=0.1, cache=False))
    assert money.lower > 0.9e7
    names = [candidate.name for candidate in oo.advise(5e-4, 1e-6, loss="l2").ranking]
    assert "optimal table" in names


@pytest.mark.usefixtures("quiet")
def test_a_range_of_forty_sensitivities():
    table = proved(oo.solve_bounded(10.0, 0.0, sensitivity=1.0, range=(0, 40), cache=False))
    assert table.upper < 1.02 * math.exp(5) / math.expm1(10)


def test_everybody_can_read_warmed_tables(cache):
    before = os.umask(0o022)
    try:
        assert command(*WARM) == 0
    finally:
        os.umask(before)
    (file,) = cache.rglob("*.noise")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_tables_that_cannot_be_kept_are_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OPENDP_OPTIMAL_CACHE", str(tmp_path / "file" / "below"))
    assert command(*WARM) != 0


@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_a_table_that_is_no_file(cache, kind):
    """In a process of its own, which may neither wait nor take memory."""
    oo.solve(2.0, 0.1, gap=1.0)
    (file,) = cache.rglob("*.noise")
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    text = (
        "import resource, opendp_optimal as oo;"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30));"
        "oo.solve(2.0, 0.1, gap=1.0).verify()"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60, capture_output=True)


def test_a_map_that_cannot_be_written_costs_nobody_anything(tmp_path, capsys):
    people = tmp_path / "people.csv"
    people.write_text("id,x,y\na,5,5\nb,50,50\nc,1,1\n")
    asked = ["geo", "count", str(people), "--budget", "1", "--state", str(tmp_path / "state")]
    asked += ["--columns", "x,y", "--region", SQUARE]
    if importlib.util.find_spec("opendp_optimal.budget"):
        asked += ["--id", "id"]
    assert command(*asked, "--map", "/no/such/x.png") != 0
    capsys.readouterr()
    assert command(*asked, "--json") == 0
    assert json.loads(capsys.readouterr().out)["rounds"][0]["asked"] == 3


def test_compose_at_any_epsilon():
    for epsilon in (1000.0, math.inf):
        assert 0 < oo.compose([oo.solve(1.0, 1e-6)] * 3, epsilon=epsilon)[1] <= 3e-6


def test_compose_prices_bounded_noise():
    options = {"range": (0, 4), "bins": 4, "gap": 10.0, "cache": False}
    table = oo.solve_bounded(1.0, 0.01, sensitivity=1, **options)
    noise = oo.make_optimal_bounded_noise(*REAL, 1.0, (1.0, 0.01), **options)
    for release in (table, noise):
        assert 1.0 < oo.compose([release] * 4, delta=0.1)[0] <= 4.0


def test_json_is_json(capsys):
    def refuse(word):
        raise AssertionError(word)

    command("show", "2", "0.9", "--range", "0", "1", "--sensitivity", "1", "--bins", "1", "--json")
    json.loads(capsys.readouterr().out, parse_constant=refuse)


def test_no_scale_makes_the_server_raise():
    positions = np.random.default_rng(0).normal(size=(20, 2))
    films = select.Server(select.FeatureSpace(positions, directions=1))
    places = select.Catalogue([1.0, 2.0, 3.0, 1e300], ["a", "b", "c", "d"])
    for scale in (5e-324, 1e-310, 1e-200, 1e-160, 1e200, 1.7e308):
        films.handle(select.Request((1.0, -1.0), "gaussian", scale, 3).encode())
        for cost in (None, lambda t: t, math.log1p):
            server = select.Server(places, disutility=cost)
            server.handle(select.Request(0.0, "laplace", scale, 3).encode())


@pytest.mark.usefixtures("quiet")
def test_a_cap_that_costs_nothing():
    proved(
        oo.solve_bounded(
            1.0, 0.9, sensitivity=1, range=(0, 1), cap=10, bins=4, gap=10.0, cache=False
        )
    )


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("unit", [1e-227, 1e271])
def test_ranges_at_the_ends_of_the_floats(unit):
    with refusing("floats do not hold"):
        proved(
            oo.solve_bounded(
                1.0, 0.1, sensitivity=unit, range=(0.0, 10 * unit), loss="l2", gap=10.0, cache=False
            )
        )


def test_noise_that_is_built_can_be_drawn():
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    noise = oo.make_optimal_noise(*space, 2**44, (1e-4, 1e-12), gap=10.0)
    assert -(2**63) <= noise(12345) < 2**63


def test_highs_without_delta():
    proved(oo.solve(1.0, 0.0, method="highs", gap=0.1, cache=False))


@pytest.mark.usefixtures("quiet")
def test_uneven_losses():
    assert proved(oo.solve(1.0, 1e-6, loss="pinball:1e-6", cache=False)).gap < 0.01
    proved(oo.solve(1.0, 1e-6, loss="pinball:1e-320", gap=1e6, cells=9, cache=False))


def test_a_clamp_says_nothing_of_the_release():
    space = dp.atom_domain(T="u64"), dp.absolute_distance(T="u64")
    noise = dp.m.make_laplace(*space, scale=1.0)
    release = noise >> bayes.clamp(0, 2**63 + 10)
    assert 0 <= release(2**63 + 5) <= 2**63 + 10


def test_an_epsilon_that_is_a_fraction():
    loss = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    found = bayes.optimal_channel(prior=[0.5, 0.25, 0.25], loss=loss, epsilon=Fraction(1, 3))
    found.verify()


def test_losses_beyond_floats():
    loss = [[0, 10**400], [10**400, 0]]
    with refusing("loss"):
        bayes.optimal_channel(prior=[0.5, 0.5], loss=loss, epsilon=1.0).verify()


def test_exact_witnesses():
    rng = np.random.default_rng(0)
    for inputs, outputs in ((2, 4), (3, 3), (3, 5), (4, 4), (5, 3)):
        sharp, after = (
            bayes.Channel([[Fraction(int(p), int(row.sum())) for p in row] for row in parts])
            for parts in (
                rng.integers(1, 40, (inputs, outputs)),
                rng.integers(0, 9, (outputs, 3)) + np.array([1, 0, 0]),
            )
        )
        found = bayes.refines(sharp, sharp >> after, tolerance=0)
        assert found
        assert sharp >> found.witness == sharp >> after


def test_what_is_spent_is_at_least_the_sum():
    for releases in range(1, 60):
        for epsilon in (0.1, 0.3, 0.7, 1.1):
            plan = learn.plan("laplace", epsilon, 0.0, releases, "total")
            spent = plan.spent()
            share = getattr(plan, "epsilon", None)
            assert spent[0] <= epsilon
            if share is not None:
                assert Fraction(spent[0]) >= Fraction(share) * releases


def test_the_package_is_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "opendp_optimal", "--version"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
