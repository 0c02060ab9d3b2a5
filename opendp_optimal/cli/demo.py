"""``opendp-optimal demo``: one OpenDP pipeline with Laplace, Gaussian and optimal noise."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
import opendp.prelude as dp

from opendp_optimal.cli.plots import draw_bars, draw_shapes, new_figure, save
from opendp_optimal.cli.shapes import rivals, shape_of
from opendp_optimal.cli.solve import find
from opendp_optimal.cli.terminal import (
    figure,
    json_option,
    note,
    plot_option,
    print_json,
    print_table,
)
from opendp_optimal.measure import then_optimal_noise
from opendp_optimal.spec.baselines import analytic_gaussian_sigma

PEOPLE = 500
NAMES = ("laplace", "gaussian", "optimal")


@dataclass(frozen=True)
class Question:
    """A query, up to where noise is added: its transformation and the true answer's data."""

    name: str
    chain: dp.Transformation
    data: Any


def people() -> tuple[list[float], list[str]]:
    """Return the incomes and trades of made-up people, the same ones every time."""
    dice = random.Random(20)
    incomes = [min(250.0, dice.lognormvariate(3.6, 0.6)) for _ in range(PEOPLE)]
    trades = dice.choices(["care", "craft", "office", "science"], [3, 4, 5, 1], k=PEOPLE)
    return incomes, trades


def questions() -> list[Question]:
    """Return a count, a sum, a mean and a histogram as OpenDP transformations."""
    incomes, trades = people()
    floats = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    words = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    clamped = floats >> dp.t.then_clamp((0.0, 100.0))
    sized = clamped >> dp.t.then_resize(PEOPLE, constant=50.0)
    return [
        Question("count", floats >> dp.t.then_count(), incomes),
        Question("sum of incomes", clamped >> dp.t.then_sum(), incomes),
        Question("mean income", sized >> dp.t.then_mean(), incomes),
        Question(
            "people by trade",
            words >> dp.t.then_count_by_categories(["care", "craft", "office", "science"], False),
            trades,
        ),
    ]


def noises(question: Question, epsilon: float, delta: float, loss: str) -> dict[str, Any]:
    """Return the three measurements: only the last step differs."""
    chain, sensitivity = question.chain, question.chain.map(1)
    vector = isinstance(chain.output_domain, dp.VectorDomain)
    gaussian: Callable[[], Any] = lambda: dp.m.then_gaussian(  # noqa: E731 (three alike)
        scale=analytic_gaussian_sigma(epsilon, delta) * sensitivity
    )
    if vector:
        # The Gaussian wants the l2 distance; a histogram's is the same, 1.
        words = chain.input_space
        keys = ["care", "craft", "office", "science"]
        euclid = words >> dp.t.then_count_by_categories(keys, False, MO=dp.L2Distance[float])
    return {
        "laplace": chain >> dp.m.then_laplace(scale=sensitivity / epsilon),
        "gaussian": (euclid if vector else chain) >> gaussian(),
        "optimal": chain >> then_optimal_noise(sensitivity, (epsilon, delta), loss=loss),
    }


def error(measurement: dp.Measurement, question: Question, repeats: int) -> float:
    """Return the mean absolute error over some releases."""
    truth = np.asarray(question.chain(question.data), dtype=float)
    answers = [np.asarray(measurement(question.data), dtype=float) for _ in range(repeats)]
    return float(np.mean([np.abs(answer - truth) for answer in answers]))


@click.command()
@click.option("--epsilon", default=2.0, show_default=True, help="Privacy loss of each query.")
@click.option("--delta", default=1e-6, show_default=True, help="Delta of each query.")
@click.option("--loss", default="l1", show_default=True, help="What the optimal noise minimises.")
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Releases behind each mean error.",
)
@plot_option
@json_option
def demo(
    epsilon: float, delta: float, loss: str, repeats: int, plot: str | None, as_json: bool
) -> None:
    """Run a small OpenDP pipeline with Laplace, Gaussian and optimal noise side by side.

    The data are made up, so that each query can be asked again and again to show its mean error.
    """
    dp.enable_features("contrib")
    table = find(epsilon, delta, loss, None, 1e-3)
    rows: list[dict[str, Any]] = []
    for question in questions():
        measurements = noises(question, epsilon, delta, loss)
        row: dict[str, Any] = {"query": question.name, "true": question.chain(question.data)}
        for name in NAMES:
            row[name] = measurements[name](question.data)
            row[f"{name}_error"] = error(measurements[name], question, repeats)
        rows.append(row)
    if as_json:
        print_json({"epsilon": epsilon, "delta": delta, "loss": loss, "queries": rows})
    else:
        print_table(
            ["query", "truth", *NAMES],
            [(r["query"], _answer(r["true"]), *(_answer(r[n]) for n in NAMES)) for r in rows],
            title=f"one release of each, epsilon {epsilon:g}, delta {delta:g} a query",
        )
        print_table(
            ["query", *NAMES, "cut vs laplace", "cut vs gaussian"],
            [
                (
                    r["query"],
                    *(figure(r[f"{n}_error"], 4) for n in NAMES),
                    *(
                        f"{100 * (1 - r['optimal_error'] / r[f'{n}_error']):.0f} %"
                        for n in NAMES[:2]
                    ),
                )
                for r in rows
            ],
            title=f"mean absolute error of {repeats} releases",
        )
        click.echo(
            f"optimal {loss} noise: expected loss {figure(table.upper)}, no mechanism below "
            f"{figure(table.lower)} (certified gap {100 * table.gap:.2g} %)\n"
            "counts are whole numbers: at small delta discrete Laplace noise is optimal for them"
        )
    if plot is not None:
        picture, (left, right) = new_figure(11.0, 4.2, columns=2)
        own = shape_of(table)
        draw_shapes(left, [own, *rivals(table, own.edges)])
        left.set_title(f"the noise at epsilon {epsilon:g}, delta {delta:g}", loc="left")
        total = rows[1]
        draw_bars(right, NAMES, [total[f"{n}_error"] for n in NAMES], "mean absolute error")
        right.set_title(total["query"], loc="left")
        save(picture, plot)
        note(f"saved {plot}")


def _answer(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(str(v) for v in value)
    return f"{value:.1f}" if isinstance(value, float) else str(value)
