"""The README's figures are those of the code."""

import re
from pathlib import Path

import pytest

import opendp_optimal
from opendp_optimal import known

README = (Path(__file__).parents[2] / "README.md").read_text()
ROW = re.compile(r"^\| ([\d.]+), ([\d.e-]+) \|(.*)\|$", re.MULTILINE)
NAMES = ("laplace", "analytic_gaussian", "tulap", "staircase")
ROWS = [
    (float(e), float(d), [float(cell.strip(" *")) for cell in rest.split("|")])
    for e, d, rest in ROW.findall(README)
]


def test_all_targets_are_there() -> None:
    assert [(e, d) for e, d, _ in ROWS] == [
        (1.0, 1e-6),
        (2.0, 1e-6),
        (3.0, 1e-5),
        (1.0, 0.1),
        (5.0, 0.25),
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
@pytest.mark.slow
def test_figures(row: tuple[float, float, list[float]]) -> None:
    epsilon, delta, figures = row
    for name, printed in zip(NAMES, figures, strict=False):
        assert known.expected_loss(name, epsilon, delta) == pytest.approx(printed, abs=6e-5)
    table = opendp_optimal.solve(epsilon=epsilon, delta=delta)
    # A table that is solved again may differ within its gap, and by the last digit printed.
    assert table.upper == pytest.approx(figures[4], rel=2e-3, abs=6e-5)
    assert table.lower == pytest.approx(figures[5], rel=2e-3, abs=6e-5)
    assert figures[5] <= figures[4]


def test_the_first_example_is_short() -> None:
    first = README.split("```python\n")[1].split("```")[0]
    assert len(first.strip().splitlines()) <= 12
