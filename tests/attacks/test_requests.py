"""Random requests over the documented range: a random sample here; all of them in ``make trust``.

All are drawn alike from their numbers. Those here are some dozens of the 2,000 for noise and of the
500 for noise within a range, each as likely as any other.
"""

import dataclasses
import math

import numpy as np
import pytest

from opendp_optimal import NoiseTable, solve, solve_bounded
from tests.attacks import request_checks, requests
from tests.attacks.request_checks import RequestError, check
from tests.attacks.request_draws import COUNTS, SAMPLE, request, sample
from tests.attacks.request_means import bounded_mean, clamped_mean, noise_mean


@pytest.mark.parametrize("number", sample("solve"))
def test_noise(number):
    found = requests.run(request("solve", number))
    assert not found.failure, str(found.asked)


@pytest.mark.parametrize("number", sample("bounded"))
def test_noise_for_a_range(number):
    found = requests.run(request("bounded", number))
    assert not found.failure, str(found.asked)


def test_requests_can_be_had_again_and_differ():
    for kind in COUNTS:
        drawn = [str(request(kind, n)) for n in range(40)]
        assert drawn == [str(request(kind, n)) for n in range(40)]
        assert len(set(drawn)) == 40


def test_those_here_are_a_random_sample():
    for kind, count in COUNTS.items():
        numbers = sample(kind)
        assert numbers == sample(kind)
        assert len(set(numbers)) == SAMPLE[kind]
        assert 0 <= numbers[0] < count / 4 < 3 * count / 4 < numbers[-1] < count


def test_a_run_goes_on_where_it_was_interrupted(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(requests, "FOLDER", tmp_path)
    asked = ["--kind", "solve", "--start", "2", "--stop", "4", "--workers", "1"]
    file = tmp_path / "solve-2-4.txt"
    file.write_text("2\tanswered\t0.50\t''\n3\tfailed\t0.50\t'ValueError: no'\n")
    made = []

    def outcomes(kind, numbers, **options):
        made.extend(numbers)
        return (requests.Outcome(request(kind, n), "answered", 0.1) for n in numbers)

    monkeypatch.setattr(requests, "outcomes", outcomes)
    assert requests.main([*asked, "--resume"]) == 0
    assert made == [3]
    assert [line.split("\t")[:2] for line in file.read_text().splitlines()] == [
        ["2", "answered"],
        ["3", "answered"],
    ]
    assert requests.main(asked) == 0
    assert made == [3, 2, 3]


def test_requests_cover_the_documented_range():
    drawn = [request("solve", n).arguments for n in range(COUNTS["solve"])]
    epsilons = [float(asked["epsilon"]) for asked in drawn]
    deltas = [float(asked["delta"]) for asked in drawn]
    assert (min(epsilons), max(epsilons)) == (1e-4, 32.0)
    assert {0.0, 1e-14, 1e-12, 0.99, 1 - 2.0**-53} <= set(deltas)
    assert {asked.get("integer_sensitivity") for asked in drawn} >= {None, 1, 2, 4096}
    assert {asked.get("method") for asked in drawn} == {
        None,
        "interior",
        "highs",
        "cutting-planes",
        "partition-cuts",
    }
    for option in ("symmetric", "monotone", "support", "impossible", "cells"):
        assert sum(option in asked for asked in drawn) > 50
    drawn = [request("bounded", n).arguments for n in range(COUNTS["bounded"])]
    lengths = [asked["range"][1] - asked["range"][0] for asked in drawn]
    assert min(lengths) < 1e-200
    assert max(lengths) > 1e250
    for option in ("prior", "cap", "integer", "bins", "method"):
        assert sum(option in asked for asked in drawn) > 25


def test_what_may_be_refused_is_known_before():
    pure = {"epsilon": 1.0, "delta": 0.0, "loss": "pinball:0.9", "gap": 0.1}
    assert check("solve", pure, {"loss"}) == "refused"
    with pytest.raises(ValueError, match=r"loss"):
        check("solve", pure, {"support"})


ASKED = {"epsilon": 1.0, "delta": 0.1, "loss": "l1", "gap": 0.2}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t: dataclasses.replace(t, upper=t.lower * 0.99),
        lambda t: dataclasses.replace(t, upper=t.upper * 3, lower=t.upper * 2),
        lambda t: dataclasses.replace(t, upper=t.upper * 30),
        lambda t: dataclasses.replace(t, weights=np.roll(t.weights, 3)),
        lambda t: dataclasses.replace(
            t, problem=dataclasses.replace(t.problem, epsilon=t.epsilon / 2)
        ),
    ],
    ids=["bounds crossed", "lower above all", "far from the optimum", "moved", "not private"],
)
def test_wrong_answers_are_noticed(wrong, monkeypatch):
    table = wrong(solve(1.0, 0.1, gap=0.2, cache=False))
    monkeypatch.setattr(NoiseTable, "verify", lambda self: None)
    monkeypatch.setattr(request_checks, "solve", lambda **asked: table)
    with pytest.raises(RequestError):
        check("solve", ASKED)


def test_thawed_arrays_are_noticed(monkeypatch):
    table = solve(1.0, 0.1, gap=0.2, cache=False)
    object.__setattr__(table, "weights", np.array(table.weights))
    monkeypatch.setattr(request_checks, "solve", lambda **asked: table)
    with pytest.raises(RequestError, match=r"thawed|overwritten"):
        check("solve", ASKED)


@pytest.mark.parametrize(
    "asked",
    [
        {"sensitivity": 1, "range": (0, 5), "integer": True},
        {"sensitivity": 1.0, "range": (0.0, 2.0), "bins": 8},
        {"sensitivity": 1.0, "range": (0.0, 2.0), "bins": [0.0, 0.5, 2.0]},
    ],
    ids=str,
)
def test_estimated_losses_are_close_for_ranges(asked):
    table = solve_bounded(1.0, 0.1, **asked, gap=10.0, cache=False)
    mean = bounded_mean(table) if table.noise is None else clamped_mean(table)
    assert table.upper * 0.9 < mean < table.upper * 1.02


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_estimated_losses_are_close(delta, loss):
    table = solve(1.0, delta, loss=loss, gap=0.05, cache=False)
    assert math.isclose(noise_mean(table), table.upper, rel_tol=0.02)
