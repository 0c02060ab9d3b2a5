"""Advice for vectors, for several queries asked together, and under zCDP."""

import json
import re

import opendp.prelude as dp
import pytest

from opendp_optimal import advise, compose, make_concentrated_noise
from opendp_optimal.advisor.additive import additive_candidates
from opendp_optimal.advisor.request import Candidate, Request
from opendp_optimal.cli import run

dp.enable_features("contrib")

REQUESTS = [
    {"epsilon": 1.0, "delta": 1e-6, "size": 10, "loss": "l2"},
    {"epsilon": 1.0, "size": 3, "norm": "l1", "integer": True, "sensitivity": 2},
    {"epsilon": 0.5, "delta": 1e-6, "size": 7, "norm": "linf", "releases": 3},
    {"epsilon": 2.0, "size": 2, "norm": "l1", "sensitivity": 30.0},
    {"epsilon": 1.0, "delta": 1e-6, "queries": 5, "loss": "l2"},
    {"epsilon": 1.0, "queries": 3, "loss": "l2", "integer": True, "releases": 2},
    {"rho": 0.5, "queries": 4, "loss": "l2"},
    {"rho": 2.0, "sensitivity": 3.0},
    {"rho": 2.0, "delta": 1e-6, "integer": True, "releases": 2},
    {"rho": 0.3, "size": 4, "norm": "linf"},
]


def space(request, many):
    kind = int if request.integer else float
    atom = dp.atom_domain(T=int) if request.integer else dp.atom_domain(T=float, nan=False)
    if not many:
        return (atom, dp.absolute_distance(T=kind)), kind(0)
    norm = request.norm if request.length else "linf"
    metric = getattr(dp, f"{norm}_distance")(T=kind)
    return (dp.vector_domain(atom, size=many), metric), [kind(0)] * many


@pytest.mark.slow
@pytest.mark.parametrize("asked", REQUESTS, ids=str)
def test_every_candidate_can_be_made_and_costs_what_it_says(asked) -> None:
    advice = advise(**asked)
    request = advice.request
    assert len(advice.ranking) >= 2
    assert not any("was not computed" in remark.text for remark in advice.remarks)
    assert advice.as_dict()["candidates"][0]["loss"] == advice.best.loss
    for candidate in advice.ranking:
        many = request.length or (request.queries if candidate.name == "joint" else 0)
        where, zero = space(request, many)
        made = candidate.make(*where)
        released = made(zero)
        assert not many or len(released) == many
        cost = made.map(request.distance)
        main, delta = cost if isinstance(cost, tuple) else (cost, 0.0)
        assert delta <= request.delta
        alone = request.releases * (1 if many else request.queries)
        if request.rho is not None:
            assert alone * main <= request.rho
        elif "gaussian" not in candidate.name:
            assert main <= request.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "exponential decay in the l2 norm"])
def test_losses_of_vectors_are_those_of_draws(name) -> None:
    advice = advise(1.0, 1e-6, size=10, loss="l2")
    where, zero = space(advice.request, 10)
    made = advice.candidate(name).make(*where)
    sums = [sum(v * v for v in made(zero)) for _ in range(800)]
    mean = sum(sums) / len(sums)
    error = (sum((s - mean) ** 2 for s in sums) / len(sums) ** 2) ** 0.5
    assert abs(mean - advice.candidate(name).loss) < 5 * error


def test_joint_queries_have_less_than_half_of_the_error() -> None:
    advice = advise(1.0, 1e-6, queries=10, loss="l2")
    told = " ".join(remark.text for remark in advice.remarks)
    assert "make_optimal_means" in told
    assert "opendp_optimal_warehouse" in told
    assert advice.best.name == "joint"
    others = [c.loss for c in advice.ranking if c.name != "joint"]
    assert advice.best.loss < 0.5 * min(others)
    assert advice.lower <= advice.best.loss


def test_the_gaussian_is_not_always_right_under_zcdp() -> None:
    assert advise(rho=0.5).best.name == "gaussian"
    assert advise(rho=1.0).best.name != "gaussian"


@pytest.mark.parametrize("integer", [False, True])
def test_several_gaussian_releases_cost_what_was_promised(integer) -> None:
    asked = Request(epsilon=1.0, delta=1e-6, integer=integer, sensitivity=2.0, releases=5)
    found = {c.name: c for c in additive_candidates(asked) if isinstance(c, Candidate)}
    where, _ = space(asked, 0)
    tight = [found["gaussian"].make(*where)] * 5
    assert compose(tight, epsilon=1.0, d_in=asked.distance)[1] <= 1e-6
    native = found["gaussian by zCDP"].make(*where)
    together = dp.c.make_fix_delta(
        dp.c.make_zCDP_to_approxDP(dp.c.make_composition([native] * 5)), delta=1e-6
    )
    epsilon, delta = together.map(asked.distance)
    assert 0.999 < epsilon <= 1.0
    assert delta == 1e-6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give one of epsilon (None) and rho (None)"),
        ({"epsilon": 1.0, "rho": 1.0}, "give one of epsilon (1.0) and rho (1.0)"),
        ({"rho": 0.0}, "rho (0.0) must be positive"),
        ({"rho": float("nan")}, "rho (nan)"),
        ({"rho": 1e9}, "rho (1000000000.0) must be in"),
        ({"rho": 1.0, "delta": 2.0}, "delta (2.0) must be 0 or in"),
        ({"epsilon": 1.0, "size": 0}, "size (0)"),
        ({"epsilon": 1.0, "size": 2, "norm": "l3"}, "norm ('l3') must be l1, l2 or linf"),
        ({"epsilon": 1.0, "size": 2, "queries": 2}, "queries (2) must be of single numbers"),
        ({"epsilon": 1.0, "size": 2, "bounds": (0, 1)}, "bounds must come without"),
        ({"epsilon": 1.0, "size": 2, "loss": "pinball:0.9"}, "must be l1 or l2"),
        ({"epsilon": 1.0, "queries": 2}, "loss (l1) must be l2 for queries (2)"),
    ],
)
def test_bad_arguments(arguments, message) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        advise(**arguments)


def test_kinds_of_concentrated_noise() -> None:
    where = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    for kind in ("gaussian", "laplace", "table"):
        made = make_concentrated_noise(*where, 1.0, 1.0, kind)
        assert 0.99 < made.map(1.0) <= 1.0
        assert isinstance(made(0.0), float)
    with pytest.raises(ValueError, match="kind \\('cauchy'\\) must be"):
        make_concentrated_noise(*where, 1.0, 1.0, "cauchy")
    plane = dp.vector_domain(where[0], size=2), dp.l2_distance(T=float)
    with pytest.raises(ValueError, match="must hold single numbers for Laplace noise"):
        make_concentrated_noise(*plane, 1.0, 1.0, "laplace")


def test_command(capsys) -> None:
    assert run(["advise", "--rho", "2", "1e-6", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rho"], found["delta"], found["epsilon"]) == (2.0, 1e-6, None)
    assert run(["advise", "1", "1e-6", "--size", "10", "--norm", "l2", "--loss", "l2"]) == 0
    assert "real answers in vectors of 10, l2 norm" in capsys.readouterr().out
    assert run(["advise", "1", "--queries", "5", "--loss", "l2"]) == 0
    assert "make_joint(transformations, d_in, d_out=1.0)" in capsys.readouterr().out
    assert run(["advise", "1", "1e-6", "--rho", "2"]) == 2


def test_long_vectors_are_tables() -> None:
    for size, told in ((10, False), (1000, True)):
        remarks = [r.text for r in advise(1.0, 1e-6, size=size, norm="l1").remarks]
        assert any("posterior(released, noise)" in text for text in remarks) == told
