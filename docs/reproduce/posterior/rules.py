"""The rules fixed beforehand: how many cases keep each, and which do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from docs.reproduce import report
from docs.reproduce.posterior import tables, trials
from docs.reproduce.posterior.runs import (
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
FEW, STRUCTURED = 1.02, 1.03
COVERAGE = 0.88
CLAIM, CLAIM_STRUCTURED = 0.02, 0.04
WIDTH = 1.1
SUM_COVERAGE = 0.87
RAW = 1.0 + 1e-9
LARGEST = 0.5

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


def _ratio_of_roots(over: Any, under: Any) -> Pair:
    """A ratio of root mean squares and its standard error, by leaving out each draw."""
    over, under = np.asarray(over), np.asarray(under)
    value = math.sqrt(over.mean() / max(under.mean(), 1e-300))
    count = len(over)
    rest = np.sqrt((over.sum() - over) / np.maximum(under.sum() - under, 1e-300))
    return value, float(rest.std()) * math.sqrt(count - 1)


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
            for way, pairs in runs.strata(name, table, epsilon).items():
                pair, here = ratio_of_means(*np.array(pairs).T), f"{case} {way}"
                if pair[0] >= STRATA and runs.draws > len(pairs):
                    more = runs.strata(name, table, epsilon, runs.draws)[way]
                    told = shown(ratio_of_means(*np.array(more).T))
                    here += f", of {len(more)} releases {told}"
                kinds["strata"].append((here, pair, pair[0] < STRATA))
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
    for name, table in {} if runs.given.quick else tables.SUMS.items():
        for epsilon in runs.epsilons[:2]:
            every = {k: np.array(v) for k, v in runs.sums(name, table, epsilon).items()}
            best = {k: np.array(v) for k, v in runs.largest(name, table, epsilon).items()}
            for kind, found in every.items():
                case = f"{name} {epsilon:g} {kind}"
                pair = _ratio_of_roots(found[:, 1], found[:, 0])
                if kind.endswith("largest"):
                    fair = best["binned oracle"]
                    told = f"{case}, binned oracle {_ratio_of_roots(fair[:, 1], fair[:, 0])[0]:.3f}"
                    largest.append((told, pair, pair[0] < LARGEST))
                else:
                    held = _mean(found[:, 2])
                    cover.append((case, held, held[0] >= SUM_COVERAGE))
                    better.append((case, pair, pair[0] <= RAW))
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
    note = (
        "Tables with at least 5,000 cells, and for intervals a total of at least 10 deviations. "
        "After a case stand its value and a standard error, of that many releases: sums of large "
        "blocks are raw sums with their exact deviation, and what they miss here is chance. Where "
        "the largest cells are far above the noise, the raw sum has hardly a bias to take away: "
        "the oracle that knows the true histogram in bins is not twice as good either."
    )
    lines = [line for part in parts for line in part(runs)]
    return [note, "", *report.markdown(["rule", "kept", "not kept"], lines)]
