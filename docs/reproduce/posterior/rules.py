"""The rules fixed beforehand: how many cases keep each, and which do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from docs.reproduce import report
from docs.reproduce.posterior import tables, trials
from docs.reproduce.posterior.runs import (
    CLOSE_DRAWS,
    LIKES,
    Trials,
    chosen,
    ratio,
    ratio_of_means,
    shown,
    values,
)

MEASURED = 10.0
ORACLE = 1.03
REACHABLE = 0.02
STRATA = 1.0
CLOSE = 2.0
FEW, STRUCTURED = 1.02, 1.03
COVERAGE = 0.88
CLAIM, CLAIM_STRUCTURED = 0.02, 0.04
WIDTH = 1.1
SUM_COVERAGE = 0.87
RAW = 1.0 + 1e-9
LARGEST = 0.5
PRIORS = ("none", "neighbours")
ORACLES = ("oracle", "binned oracle", "binned oracle of strata", "smooth oracle")

TOLD = ("smooth oracle", "oracle")

Pair = tuple[float, float]
Case = tuple[str, Pair, bool]


def _verdict(name: str, cases: Iterable[Case]) -> list[str]:
    """A rule: how many cases keep it, and those that do not."""
    listed = list(cases)
    missed = [f"{case} ({shown(pair)})" for case, pair, kept in listed if not kept]
    kept = f"{len(listed) - len(missed)} of {len(listed)}"
    return [name, kept, "; ".join(missed) or "none"]


def _mean(of: Any) -> Pair:
    """A mean and its standard error."""
    return float(np.mean(of)), float(np.std(of, ddof=1)) / math.sqrt(len(of))


def ratio_of_roots(found: Any) -> Pair:
    """Root mean squared error over that of the raw sum, with a standard error.

    :param found: squared errors of each draw, first of the raw sum; draws are left out in turn
    """
    under, over = np.asarray(found)[:, 0], np.asarray(found)[:, 1]
    value = math.sqrt(over.mean() / max(under.mean(), 1e-300))
    rest = np.sqrt((over.sum() - over) / np.maximum(under.sum() - under, 1e-300))
    return value, float(rest.std()) * math.sqrt(len(over) - 1)


def close_calls(runs: Trials) -> list[Case]:
    """What is within two standard errors of strata, in more releases."""
    every = [
        _strata(runs, name, table, epsilon, way)
        for name, table in chosen(runs.given, tables.LARGE).items()
        for epsilon in runs.epsilons
        for way in LIKES
        if len(values(runs.of(name, table, epsilon), way, "strata"))
    ]
    return [case for case in every if "releases" in case[0]]


def _table_rules(runs: Trials) -> list[list[str]]:
    """Rules for tables of at least 5,000 cells."""
    kinds: dict[str, list[Case]] = {
        k: [] for k in ("oracle", "reach", "strata", "cover", "claim", "width")
    }
    for name, table in chosen(runs.given, tables.LARGE).items():
        figures = {(trials.named(k), e): v for k, e, v in table.reachable}
        for epsilon in runs.epsilons:
            found, case = runs.of(name, table, epsilon), f"{name} {epsilon:g}"
            measured = float(np.mean([t["measured"] for t in found])) >= MEASURED
            pair = ratio(found, "posterior", "binned oracle")
            kinds["oracle"].append((case, pair, pair[0] <= ORACLE))
            for way in ("posterior", *LIKES):
                if not len(values(found, way, "actual")):
                    continue
                here = f"{case} {way}"
                if measured:
                    _intervals(kinds, here, found, way)
                if way != "posterior":
                    pair = ratio(found, way, "oracle")
                    if (way, epsilon) in figures:
                        most = figures[way, epsilon] + REACHABLE
                        kinds["reach"].append((here, pair, pair[0] <= most))
                    if len(values(found, way, "strata")):
                        kinds["strata"].append(_strata(runs, name, table, epsilon, way))
    return [
        _verdict("posterior / binned oracle at most 1.03", kinds["oracle"]),
        _verdict(
            "with structure / oracle at most 0.02 above what is known to be reachable",
            kinds["reach"],
        ),
        _verdict("with structure below sixteen strata of the same predictor", kinds["strata"]),
        _verdict("at most 1.02 times clamping, 1.03 with structure, however small", _clamped(runs)),
        _verdict("90 % intervals hold at least 88 %", kinds["cover"]),
        _verdict("... and what they claim, to 2 points, 4 with structure", kinds["claim"]),
        _verdict("... and are at most 1.1 times as wide as the oracle's", kinds["width"]),
    ]


def _strata(runs: Trials, name: str, table: tables.Table, epsilon: float, way: str) -> Case:
    """Errors over those of strata; a call within two standard errors gets more releases."""
    case = f"{name} {epsilon:g} {way}"
    errors = [t[way] for t in runs.of(name, table, epsilon)]
    pair = _over_strata(errors)
    if pair[0] + CLOSE * pair[1] >= STRATA:
        case += f" (of {len(errors)} releases {shown(pair)})"
        pair = _over_strata(errors + runs.close(name, table, epsilon, way))
    return case, pair, pair[0] < STRATA


def _over_strata(errors: Sequence[Any]) -> Pair:
    return ratio_of_means(*(np.array([e[k] for e in errors]) for k in ("absolute", "strata")))


def _intervals(kinds: dict[str, list[Case]], here: str, found: Sequence[Any], way: str) -> None:
    actual, claimed = values(found, way, "actual"), values(found, way, "claimed")
    pair = _mean(actual)
    kinds["cover"].append((here, pair, pair[0] >= COVERAGE))
    apart = _mean(actual - claimed)
    most = CLAIM if way == "posterior" else CLAIM_STRUCTURED
    kinds["claim"].append((here, apart, abs(apart[0]) <= most))
    pair = ratio(found, way, "binned oracle", "width")
    kinds["width"].append((here, pair, pair[0] <= WIDTH))


def _clamped(runs: Trials) -> list[Case]:
    cases: list[Case] = []
    for name, table in chosen(runs.given, tables.LARGE | tables.MIDDLE).items():
        for epsilon in runs.epsilons:
            found = runs.of(name, table, epsilon)
            for way in ("posterior", *LIKES):
                if len(values(found, way, "absolute")):
                    pair = ratio(found, way, "clamped")
                    most = FEW if way == "posterior" else STRUCTURED
                    cases.append((f"{name} {epsilon:g} {way}", pair, pair[0] <= most))
    if not runs.given.quick:
        for name, table in tables.FEW.items():
            for epsilon in runs.epsilons:
                few = runs.few(name, table, epsilon)
                pair = few["ratio"], few["error"]
                cases.append((f"{name} {epsilon:g}", pair, pair[0] <= FEW))
    return cases


def _sum_rules(runs: Trials) -> list[list[str]]:
    """Rules for sums: of regions fixed beforehand, and of the cells that look largest."""
    cover: list[Case] = []
    better: list[Case] = []
    largest: list[Case] = []
    for name, table in tables.SUMS.items():
        for epsilon in runs.epsilons[:2]:
            found = {k: np.array(v) for k, v in runs.sums(name, table, epsilon).items()}
            for kind, each in found.items():
                if not kind.endswith("largest"):
                    case, held = f"{name} {epsilon:g} {kind}", _mean(each[:, 2])
                    pair = ratio_of_roots(each)
                    cover.append((case, held, held[0] >= SUM_COVERAGE))
                    better.append((case, pair, pair[0] <= RAW))
            told = ", ".join(f"{k} {ratio_of_roots(found[f'{k} largest'])[0]:.3f}" for k in TOLD)
            for way in PRIORS:
                pair = ratio_of_roots(found[f"{way} largest"])
                largest.append((f"{name} {epsilon:g} {way}, {told}", pair, pair[0] < LARGEST))
    return [
        _verdict("intervals of sums of blocks and whole tables hold at least 87 %", cover),
        _verdict("... whose error is at most that of the raw sum", better),
        _verdict("100 cells that look largest: error below half of the raw sum's", largest),
    ]


def rules(runs: Trials) -> list[str]:
    """The rules, case by case."""
    parts: list[Callable[[Trials], list[list[str]]]] = [_table_rules]
    if not runs.given.quick:
        parts.append(_sum_rules)
    near = (
        "; ".join(f"{case}: {pair[0]:.4f} ± {pair[1]:.4f}" for case, pair, _ in close_calls(runs))
        or "none"
    )
    note = (
        "Tables with at least 5,000 cells, and for intervals a total of at least 10 deviations. "
        "After a case stand its value and a standard error. For the largest cells stand two "
        "oracles, too, over the raw sum, one that knows the law of the counts and one that knows "
        "all counts but not their places: [below](#the-cells-that-look-largest). A case within two "
        f"standard errors of strata is decided by {CLOSE_DRAWS} releases, which was not fixed "
        f"beforehand: {near}."
    )
    lines = [line for part in parts for line in part(runs)]
    return [note, "", *report.markdown(["rule", "kept", "not kept"], lines)]
