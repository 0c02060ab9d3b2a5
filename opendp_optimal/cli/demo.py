"""``opendp-optimal demo``: one OpenDP pipeline with Laplace, Gaussian and optimal noise."""

from __future__ import annotations

import math
import random
import tempfile
import warnings
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click
import numpy as np

from opendp_optimal.budget.ledger import Ledger, open_ledger
from opendp_optimal.cli.plots import draw_bars, draw_shapes, new_figure, rivals, save_told, shape_of
from opendp_optimal.cli.solve import noted
from opendp_optimal.cli.terminal import (
    count_option,
    figure,
    figure_down,
    json_option,
    plot_option,
    print_json,
    print_table,
)
from opendp_optimal.errors import BudgetError
from opendp_optimal.known import expected_loss, gaussian_sigma
from opendp_optimal.measure import dp
from opendp_optimal.measure.mean import make_optimal_mean
from opendp_optimal.measure.noise import make_optimal_noise
from opendp_optimal.search.noise import solve

PEOPLE = 500
TRADES = ["care", "craft", "office", "science"]
NAMES = ("laplace", "gaussian", "optimal")


@dataclass(frozen=True)
class Question:
    """A query up to where noise is added, its data, and how a Gaussian wants it if differently."""

    name: str
    chain: dp.Transformation
    data: Any
    euclidean: dp.Transformation | None = None


def people() -> tuple[list[float], list[str]]:
    """Return the incomes and trades of made-up people, the same ones every time."""
    dice = random.Random(20)
    incomes = [min(250.0, dice.lognormvariate(3.6, 0.6)) for _ in range(PEOPLE)]
    trades = dice.choices(TRADES, [3, 4, 5, 1], k=PEOPLE)
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
            words >> dp.t.then_count_by_categories(TRADES, False),
            trades,
            words >> dp.t.then_count_by_categories(TRADES, False, MO=dp.L2Distance[float]),
        ),
    ]


def noises(
    question: Question, epsilon: float, delta: float, loss: str
) -> dict[str, tuple[dp.Measurement, float]]:
    """Return three measurements, of which only the last step differs, and their mean errors."""
    chain, sensitivity = question.chain, question.chain.map(1)
    whole = isinstance(sensitivity, int)
    sigma = gaussian_sigma(epsilon, delta) * sensitivity
    optimal = make_optimal_noise(*chain.output_space, sensitivity, (epsilon, delta), loss=loss)
    unit = 1.0 if optimal.table.kind == "integer" else float(sensitivity)
    return {
        "laplace": (
            chain >> dp.m.then_laplace(scale=sensitivity / epsilon),
            sensitivity * expected_loss("discrete_laplace" if whole else "laplace", epsilon, delta),
        ),
        "gaussian": (
            (question.euclidean or chain) >> dp.m.then_gaussian(scale=sigma),
            sigma * math.sqrt(2 / math.pi),
        ),
        "optimal": (chain >> optimal, unit * optimal.table.mean_loss("l1")),
    }


def error(measurement: dp.Measurement, question: Question, repeats: int) -> float:
    """Return the mean absolute error over some releases."""
    truth = np.asarray(question.chain(question.data), dtype=float)
    answers = [np.asarray(measurement(question.data), dtype=float) for _ in range(repeats)]
    return float(np.mean([np.abs(answer - truth) for answer in answers]))


def spend(epsilon: float, delta: float) -> dict[str, int]:
    """Charge queries to a ledger that has room for all but the last, and ask one of them thrice.

    The same request comes back as it was, drawn once and charged once.
    """
    paid = 0
    unit = dp.unit_of(contributions=1)
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    with tempfile.TemporaryDirectory() as folder, open_ledger(f"{folder}/budgets.db") as ledger:
        asked = questions()
        room = len(asked) - 0.5
        ledger.create("people", epsilon=room * epsilon, delta=min(0.5, room * delta))
        for question in asked:
            with suppress(BudgetError):
                ledger.charge("people", epsilon=epsilon, delta=delta, note=question.name)
                paid += 1
        ledger.create("incomes", epsilon=1.5 * epsilon, delta=min(1.5 * delta, (1 + delta) / 2))
        context = ledger.context("incomes", data=people()[0], privacy_unit=unit, domain=domain)
        price = {"epsilon": epsilon, "delta": delta, "request": "2026-11 monthly"}
        answers = {context.query(**price).count().optimal().release() for _ in range(3)}
        told = {"paid": paid, "refused": len(asked) - paid, "answers": len(answers)}
        with suppress(ModuleNotFoundError):  # of a plugin that is not installed
            told |= _client(ledger)
        ledger.verify()
    return told


def _client(ledger: Ledger) -> dict[str, int]:
    """Ask a server where to have lunch, three times, and two more things: one is not paid for."""
    select = import_module("opendp_optimal_select")
    server = select.Server(select.Catalogue(range(200), range(200)))
    ledger.create("me", epsilon=1.0)
    client = select.Client(0.5, 3, ledger=ledger, name="me")
    sent: list[bytes] = []

    def transport(signal: bytes) -> bytes:
        sent.append(signal)
        answer: bytes = server.handle(signal)
        return answer

    for question in ("lunch", "lunch", "lunch", "supper", "breakfast"):
        with suppress(BudgetError):
            client.ask(41.7, transport, question=question)
    return {"client_asked": len(sent), "client_signals": len(set(sent))}


def estimate(epsilon: float) -> dict[str, float]:
    """Release a table in which most cells are empty, and read it twice: clamped, and estimated."""
    bayes = import_module("opendp_optimal_bayes")
    dice = random.Random(20)
    true = [int(dice.expovariate(0.05)) if dice.random() < 0.2 else 0 for _ in range(1000)]
    space = dp.vector_domain(dp.atom_domain(T=int), size=len(true)), dp.l1_distance(T=int)
    noisy = dp.m.make_laplace(*space, scale=1 / epsilon)
    released = noisy(true)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bayes.PosteriorWarning)
        found = bayes.posterior(released, noisy)
    guesses = {"clamped": np.maximum(released, 0), "estimated": found.median}
    return {name: float(np.abs(guess - true).mean()) for name, guess in guesses.items()}


def average(epsilon: float, delta: float, repeats: int) -> dict[str, float]:
    """Release a mean of so many people as nobody knows: by sum and count, and with its count.

    The root of the mean squared error of both, for the same price.
    """
    incomes, _ = people()
    chains = (question.chain for question in questions()[:2])
    count, total = (c >> dp.m.then_laplace(scale=2 * c.map(1) / epsilon) for c in chains)
    space = count.input_domain, count.input_metric
    together = make_optimal_mean(*space, (0.0, 100.0), 1, (epsilon, delta))
    truth = float(np.minimum(incomes, 100.0).mean())
    answers = {
        "divided": [total(incomes) / max(1, count(incomes)) for _ in range(repeats)],
        "together": [together(incomes)[0] for _ in range(repeats)],
    }
    return {n: float(np.sqrt(np.mean((np.array(a) - truth) ** 2))) for n, a in answers.items()}


@click.command()
@click.option("--epsilon", default=2.0, show_default=True, help="Privacy loss of each query.")
@click.option("--delta", default=1e-6, show_default=True, help="Delta of each query.")
@click.option("--loss", default="l1", show_default=True, help="What the optimal noise minimises.")
@count_option("--repeats", "Releases behind each mean error.", 1000)
@plot_option
@json_option
def demo(
    epsilon: float, delta: float, loss: str, repeats: int, plot: str | None, as_json: bool
) -> None:
    """Run a small OpenDP pipeline with Laplace, Gaussian and optimal noise side by side.

    The data are made up, so that each query can be asked again and again to show its mean error.
    """
    dp.enable_features("contrib")
    table = noted(solve, epsilon=epsilon, delta=delta, loss=loss)
    rows: list[dict[str, Any]] = []
    for question in questions():
        row: dict[str, Any] = {"query": question.name, "true": question.chain(question.data)}
        for name, (noise, expected) in noises(question, epsilon, delta, loss).items():
            row[name] = noise(question.data)
            row[f"{name}_error"] = error(noise, question, repeats)
            row[f"{name}_expected"] = expected
        rows.append(row)
    ledger = spend(epsilon, delta)
    mean = average(epsilon, delta, repeats)
    cells: dict[str, float] = {}
    with suppress(ModuleNotFoundError):  # of a plugin that is not installed
        cells = estimate(epsilon / 10)
    if as_json:
        report = {"epsilon": epsilon, "delta": delta, "loss": loss, "queries": rows}
        print_json({**report, "mean": mean, "ledger": ledger, "table": cells})
    else:
        print_table(
            ["query", "truth", *NAMES],
            [(r["query"], _answer(r["true"]), *(_answer(r[n]) for n in NAMES)) for r in rows],
            title=f"one release of each, epsilon {epsilon:g}, delta {delta:g} a query",
        )
        print_table(
            ["query", *NAMES, "cut vs laplace", "cut vs gaussian"],
            [(r["query"], *(_error(r, n) for n in NAMES), *_cuts(r)) for r in rows],
            title=f"mean absolute error of {repeats} releases (expected)",
        )
        click.echo(
            f"optimal {loss} noise: expected loss {figure(table.upper)}, no mechanism below "
            f"{figure_down(table.lower)} (certified gap {100 * table.gap:.2g} %)\n"
            "counts are whole numbers: at small delta discrete Laplace noise is optimal for them\n"
            f"the mean income of people whose number is secret, root of the mean squared error: "
            f"{mean['divided']:.3g} by sum and count with half the budget each, "
            f"{mean['together']:.3g} with its count for one price (make_optimal_mean)\n"
            f"a ledger with room for all but one of the queries: {ledger['paid']} paid, "
            f"{ledger['refused']} refused (opendp-optimal budget)\n"
            f"one request asked three times: {ledger['answers']} answer, drawn and charged once"
        )
        if "client_asked" in ledger:
            click.echo(
                f"a client with a budget for two questions, which asks one of them three times and "
                f"a third: {ledger['client_asked']} sent, {ledger['client_signals']} different, "
                "then nothing (opendp-optimal select ask --ledger)"
            )
        if cells:
            click.echo(
                f"a table of 1000 counts at epsilon {epsilon / 10:g}, mean absolute error of a "
                f"cell: {cells['clamped']:.3g} clamped at 0, {cells['estimated']:.3g} estimated "
                "from the release at no cost (opendp-optimal bayes posterior)"
            )
    if plot is not None:
        picture, (left, right) = new_figure(11.0, 4.2, columns=2)
        own = shape_of(table)
        draw_shapes(left, [own, *rivals(table, own.edges)])
        left.set_title(f"the noise at epsilon {epsilon:g}, delta {delta:g}", loc="left")
        total = rows[1]
        draw_bars(right, NAMES, [total[f"{n}_error"] for n in NAMES], "mean absolute error")
        right.set_title(total["query"], loc="left")
        save_told(picture, plot)


def _error(row: dict[str, Any], name: str) -> str:
    return f"{figure(row[f'{name}_error'], 3)} ({figure(row[f'{name}_expected'], 4)})"


def _cuts(row: dict[str, Any]) -> list[str]:
    """How much the optimal noise cuts the expected error of the other two."""
    best = row["optimal_expected"]
    return [f"{100 * (1 - best / row[f'{n}_expected']):.0f} %" for n in NAMES[:2]]


def _answer(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(str(v) for v in value)
    return f"{value:.1f}" if isinstance(value, float) else str(value)
