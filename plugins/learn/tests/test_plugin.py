"""The commands run."""

import json

from click.testing import CliRunner

from opendp_optimal_learn.commands import learn


def test_the_command_prices_a_classifier():
    runner = CliRunner()
    done = runner.invoke(learn, ["budget", "--numerical", "2", "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.output)
    assert said["releases"] == 10
    assert all(row["total_epsilon"] <= 1.000001 for row in said["noises"])
    text = runner.invoke(learn, ["budget", "--categorical", "3", "--per-statistic"])
    assert "8 releases" in text.output
    assert runner.invoke(learn, ["budget", "--epsilon", "-1"]).exit_code == 2
    assert runner.invoke(learn, ["budget", "--numerical", "-1"]).exit_code == 2
    assert "laplace" in runner.invoke(learn, ["budget", "--delta", "0"]).output
