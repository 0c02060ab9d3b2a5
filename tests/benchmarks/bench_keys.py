"""Secret keys: what OpenDP states and what is seen, how many keys are kept, and the error.

    python tests/benchmarks/bench_keys.py [--data DIR] [--draws 200000] [--json]

First, a key that one person alone has, released by OpenDP's two constructors, by its Polars queries
and by ``make_optimal_threshold``: the delta that each states, and how often the key was seen.

Then the expected number of keys kept and the expected absolute error, summed over all keys (a key
that is not released counts with all of its count), with discrete Laplace noise and the least right
threshold, and with ``solve_keys``: for a Zipf law and, with ``--data``, for the job titles of a
table of salaries. Both are sums of known chances. No mechanism keeps more than ``best``; ``error``
is a part of Laplace's, and ``near`` the same for counts up to twice its threshold, each alike.

``none below`` is what is forced, as a part of Laplace's error: every key that nobody can release
for sure counts with its count times the least chance to be left out, and every other key with the
certified lower bound of additive noise on integers. ``avoidable`` is the error above that, again as
a part of Laplace's. ``value`` is the mean error of the values that are released, for both.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl
from scipy import sparse
from scipy.optimize import linprog

from opendp_optimal import make_optimal_threshold, solve, solve_keys

TARGETS = ((0.1, 1e-6), (0.5, 1e-6), (1.0, 1e-6), (1.0, 1e-3), (2.0, 1e-5), (4.0, 1e-6))
LEAST_EPSILON = 0.5
"""Of the programmes over all mechanisms."""
ZIPF = [100_000 // rank for rank in range(1, 20_001)]


def seen(draws: int) -> list[dict[str, Any]]:
    """A key with a count of 1: the stated delta, and how often it appeared."""
    domain = dp.map_domain(dp.atom_domain(T=int), dp.atom_domain(T=int))
    space = domain, dp.l01inf_distance(dp.absolute_distance(T=int))
    squared = domain, dp.l02inf_distance(dp.absolute_distance(T=int))
    keys = dict.fromkeys(range(draws), 1)
    rows = []
    for name, made in (
        ("make_laplace_threshold", dp.m.make_laplace_threshold(*space, scale=1.0, threshold=5)),
        ("make_gaussian_threshold", dp.m.make_gaussian_threshold(*squared, scale=1.0, threshold=3)),
        ("make_optimal_threshold", make_optimal_threshold(*space, (1, 1, 1), (1.0, 0.00493))),
    ):
        stated = made.map((1, 1, 1))[1]
        rows.append({"name": name, "stated": stated, "seen": len(made(keys)) / draws})
    frame = pl.LazyFrame({"key": np.arange(draws)})
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=0.00493),
        split_evenly_over=1,
    )
    told = context.query().group_by("key").agg(dp.len(signed=True)).release().collect()
    rows.append({"name": "Polars, group_by", "stated": 0.00493, "seen": len(told) / draws})
    return rows


def laplace(epsilon: float, delta: float) -> tuple[int, Callable[[int], float], Any]:
    """Threshold, chance and error of discrete Laplace noise with the least right threshold."""
    fall, reach = math.exp(-epsilon), math.ceil(45 / epsilon) + 2
    noise = np.arange(-reach, reach + 1)
    weights = (1 - fall) / (1 + fall) * fall ** np.abs(noise)
    above = np.cumsum(weights[::-1])[::-1]
    threshold = int(noise[np.argmax(above <= delta)]) + 1

    def chance(n: int) -> float:
        return float(weights[noise >= threshold - n].sum())

    def error(n: int) -> float:
        kept = noise >= threshold - n
        return float((weights * np.abs(noise))[kept].sum()) + n * (1 - chance(n))

    return threshold, chance, error


def least_errors(
    epsilon: float, delta: float, threshold: int, shares: Callable[[int], float]
) -> dict[int, float]:
    """The errors of a mechanism of any kind with the least sum over given shares of counts.

    :param threshold: of Laplace noise
    :param shares: how much each count matters
    :returns: the error at each count that matters, from 1 on
    """
    last = 2 * threshold
    most = last + math.ceil(8 / epsilon)  # neighbours farther on bind no longer
    counts = np.arange(1, most + 1)
    outputs = np.arange(1, most + math.ceil(8 / epsilon))
    apart = np.abs(counts[:, None] - outputs).astype(float)
    costs = np.column_stack([apart, counts])  # the last output is nothing
    matter = np.array([shares(n) if n <= last else 0.0 for n in counts.tolist()])
    width, chances = costs.shape[1], costs.size
    left = np.concatenate([np.arange(most - 1), np.arange(1, most)])
    right = np.concatenate([np.arange(1, most), np.arange(most - 1)])
    rows, spans = len(left), np.arange(len(left) * width)
    # What exceeds e^epsilon times the neighbour's chance adds up to delta at most.
    one = (left[:, None] * width + np.arange(width)).ravel()
    other = (right[:, None] * width + np.arange(width)).ravel()
    values = np.repeat([1.0, -math.exp(epsilon), -1.0], len(spans))
    places = np.tile(spans, 3), np.concatenate([one, other, chances + spans])
    shape = rows, chances + len(spans)
    exceeding = sparse.csr_matrix((values, places), shape=(len(spans), shape[1]))
    summed = (np.ones(len(spans)), (np.repeat(np.arange(rows), width), chances + spans))
    whole = (np.ones(chances), (np.repeat(np.arange(most), width), np.arange(chances)))
    bounds = np.tile([0.0, np.inf], (shape[1], 1))
    bounds[width - 1, 0] = 1 - delta  # a key that nobody else has
    found = linprog(
        np.concatenate([(costs * matter[:, None]).ravel(), np.zeros(len(spans))]),
        A_ub=sparse.vstack([exceeding, sparse.csr_matrix(summed, shape=shape)]),
        b_ub=np.concatenate([np.zeros(len(spans)), np.full(rows, delta)]),
        A_eq=sparse.csr_matrix(whole, shape=(most, shape[1])),
        b_eq=np.ones(most),
        bounds=bounds,
        method="highs-ipm",
    )
    if found.status != 0:
        raise RuntimeError(f"the programme at ({epsilon}, {delta}) failed: {found.message}")
    errors = (found.x[:chances].reshape(most, width) * costs).sum(1)
    return dict(enumerate(errors[:last].tolist(), 1))


def share(count: int) -> float:
    """Of all keys, with just this count, if 1/n of them have n or more."""
    return 1 / count / (count + 1)


def compare(name: str, counts: list[int], epsilon: float, delta: float) -> dict[str, Any]:
    """Keys kept and errors, summed over all keys."""
    table = solve_keys(epsilon, delta)
    threshold, chance, error = laplace(epsilon, delta)
    sizes = Counter(counts)

    def total(of: Callable[[int], float]) -> float:
        return sum(of(n) * keys for n, keys in sizes.items())

    noise = solve(epsilon, delta, integer_sensitivity=1).lower

    def forced(n: int) -> float:
        chance = table.best_chance(n)
        return n * (1 - chance) if chance < 1 else noise

    near = range(1, 2 * threshold)
    least, own, other = total(forced), total(table.error), total(error)
    any_kind = {"knowing_ratio": math.nan, "programme_ratio": math.nan}
    if epsilon >= LEAST_EPSILON:
        known = least_errors(epsilon, delta, threshold, lambda n: sizes.get(n, 0))
        blind = least_errors(epsilon, delta, threshold, share)
        any_kind = {
            "knowing_ratio": total(lambda n: known.get(n, forced(n))) / other,
            "programme_ratio": sum(share(n) * error for n, error in blind.items())
            / sum(share(n) * table.error(n) for n in blind),
        }
    held, held_other = (total(lambda n, of=of: n * (1 - of(n))) for of in (table.chance, chance))
    return {
        "keys": name,
        "epsilon": epsilon,
        "delta": delta,
        "kept_laplace": total(chance),
        "kept": total(table.chance),
        "best": total(table.best_chance),
        "error_ratio": own / other,
        "least_ratio": least / other,
        **any_kind,
        "avoidable_ratio": (own - least) / (other - least),
        "error_ratio_near": sum(map(table.error, near)) / sum(map(error, near)),
        "value_error": (own - held) / total(table.chance),
        "value_error_laplace": (other - held_other) / total(chance),
    }


def titles(data: Path) -> list[int]:
    """How many people have each job title."""
    with (data / "salary" / "Salary_Data.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    return list(Counter(row["Job Title"] for row in rows if row["Job Title"]).values())


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--draws", type=int, default=200_000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    dp.enable_features("contrib")
    found = seen(asked.draws)
    columns = {"zipf": ZIPF, **({"titles": titles(asked.data)} if asked.data else {})}
    compared = [compare(name, counts, *t) for name, counts in columns.items() for t in TARGETS]
    if asked.json:
        json.dump({"delta": found, "kept": compared}, sys.stdout, indent=2)
        return
    print(f"{'a key of one person':<26}{'stated delta':>14}{'seen':>10}")
    for row in found:
        print(f"{row['name']:<26}{row['stated']:>14.5f}{row['seen']:>10.5f}")
    heads = {
        "Laplace": ("kept_laplace", ".1f"),
        "kept": ("kept", ".1f"),
        "best": ("best", ".1f"),
        "error": ("error_ratio", ".3f"),
        "none below": ("least_ratio", ".3f"),
        "knowing": ("knowing_ratio", ".3f"),
        "programme": ("programme_ratio", ".4f"),
        "avoidable": ("avoidable_ratio", ".3f"),
        "near": ("error_ratio_near", ".3f"),
        "value": ("value_error", ".3f"),
        "Laplace's": ("value_error_laplace", ".3f"),
    }
    print(f"\n{'keys':<8}{'eps':>5}{'delta':>8}" + "".join(f"{head:>11}" for head in heads))
    for row in compared:
        figures = "".join(f"{format(row[key], form):>11}" for key, form in heads.values())
        print(f"{row['keys']:<8}{row['epsilon']:>5}{row['delta']:>8.0e}{figures}")


if __name__ == "__main__":
    main()
