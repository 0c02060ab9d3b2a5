"""``opendp-optimal bayes``."""

import json

import pytest
from click.testing import CliRunner

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
