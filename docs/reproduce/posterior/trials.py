"""Release a table, estimate it in every way, and measure the errors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docs.reproduce.posterior.tables import Counts, Like
from opendp_optimal.extend import known
from opendp_optimal_bayes import Posterior, PosteriorWarning, posterior
from opendp_optimal_bayes.table_posterior.prior import Prior, dictionary, fit_prior

Floats = NDArray[np.float64]

LEVEL = 0.9
STRATA = 16
SIDES = (3, 6, 12, 24, 40)
BLOCKS = 60
LARGEST = 100
AGAIN = 100


def release(true: Counts, epsilon: float, seed: Sequence[int]) -> Counts:
    """Add geometric noise, for a simulation."""
    rng, p = np.random.default_rng(seed), -math.expm1(-epsilon)
    return true + rng.geometric(p, true.shape) - rng.geometric(p, true.shape)


def known_total(released: Floats, total: float) -> Floats:
    """The nearest table, by squares, that is not negative and has the true total."""
    flat = np.sort(released.ravel())[::-1]
    excess = (np.cumsum(flat) - total) / np.arange(1, flat.size + 1)
    last = int(np.flatnonzero(flat > excess)[-1])
    return np.asarray(np.maximum(released - excess[last], 0.0))


def oracle(true: Counts, released: Counts, epsilon: float) -> tuple[Floats, Floats]:
    """Median and mean of each cell for whoever knows the true histogram, but not the places."""
    values, counts = np.unique(true, return_counts=True)
    seen, place = np.unique(released, return_inverse=True)
    chances = np.exp(-epsilon * np.abs(seen[:, None] - values)) * counts
    chances /= chances.sum(axis=1, keepdims=True)
    median = values[np.argmax(np.cumsum(chances, axis=1) >= 0.5, axis=1)]
    where = place.reshape(true.shape)
    return median[where].astype(np.float64), (chances @ values)[where]


def quietly(released: Any, law: known.Law, **options: Any) -> Posterior:
    """A posterior without warnings: what they warn of is measured here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        return posterior(released, law, **options)


def binned(prior: Prior, true: Counts) -> Prior:
    """The true histogram, in the bins of a prior."""
    place = np.clip(np.searchsorted(prior.low, true.ravel(), side="right") - 1, 0, None)
    counts = np.bincount(place, minlength=len(prior.low))
    return Prior(prior.low, prior.high, counts / counts.sum())


def errors(true: Counts, median: Any, mean: Any) -> dict[str, float]:
    """Mean absolute error of medians and mean squared error of means."""
    return {
        "absolute": float(np.abs(np.asarray(median) - true).mean()),
        "squared": float(((np.asarray(mean) - true) ** 2).mean()),
    }


def described(found: Posterior, true: Counts) -> dict[str, float]:
    """Errors and intervals of a posterior."""
    out = errors(true, found.median, found.mean)
    for name, shortest in (("", False), ("shortest ", True)):
        low, high = found.interval(LEVEL, shortest)
        out[f"{name}actual"] = float(((low <= true) & (true <= high)).mean())
        out[f"{name}claimed"] = found.claimed(LEVEL, shortest)
        out[f"{name}width"] = float((high - low).mean())
    return out | {"gap": found.gap}


def strata(released: Counts, law: known.Law, predictor: Floats) -> Floats:
    """Medians of sixteen fits, for cells with about the same predictor each."""
    order = np.argsort(predictor.ravel(), kind="stable")
    out = np.empty(released.size)
    for part in np.array_split(order, STRATA):
        out[part] = quietly(released.ravel()[part], law).median
    return out.reshape(released.shape)


def named(like: Like) -> str:
    """A likeness in one word."""
    return like if isinstance(like, str) else "both"


def trial(true: Counts, epsilon: float, likes: Sequence[Like], seed: Sequence[int]) -> Any:
    """One release of a table, estimated in every way."""
    released = release(true, epsilon, seed)
    law = known.Geometric(epsilon)
    clamped = np.maximum(released, 0)
    summed = known_total(released.astype(np.float64), float(true.sum()))
    free = quietly(released, law)
    fair = quietly(released, law, prior=binned(free.prior, true))
    out: dict[str, Any] = {
        "measured": float(released.sum() / math.sqrt(law.moment(2) * released.size)),
        "released": errors(true, released, released),
        "clamped": errors(true, clamped, clamped),
        "least squares": errors(true, summed, summed),
        "oracle": errors(true, *oracle(true, released, epsilon)),
        "binned oracle": described(fair, true),
        "posterior": described(free, true),
    }
    for like in likes:
        found = quietly(released, law, like=like)
        out[named(like)] = described(found, true) | _beside_strata(found, released, true, law)
    return out


def _beside_strata(found: Posterior, released: Counts, true: Counts, law: known.Law) -> Any:
    """The absolute error of strata of the predictor; nothing where there is none."""
    if found.predictor is None:
        return {}
    medians = strata(released, law, found.predictor)
    return {"strata": errors(true, medians, 0.0)["absolute"]}


def strata_trial(true: Counts, epsilon: float, like: Like, seed: Sequence[int]) -> Any:
    """Absolute errors with structure, and of strata of the same predictor."""
    released = release(true, epsilon, seed)
    law = known.Geometric(epsilon)
    found = quietly(released, law, like=like)
    own = errors(true, found.median, 0.0)["absolute"]
    return {"absolute": own} | _beside_strata(found, released, true, law)


def few_trial(true: Counts, epsilon: float, seeds: Sequence[Sequence[int]]) -> dict[str, float]:
    """Many releases of a small table: mean absolute errors, clamped and of the medians."""
    clamped, medians = [], []
    for seed in seeds:
        released = release(true, epsilon, seed)
        clamped.append(float(np.abs(np.maximum(released, 0) - true).mean()))
        found = quietly(released, known.Geometric(epsilon))
        medians.append(float(np.abs(np.asarray(found.median) - true).mean()))
    ratio = np.mean(medians) / np.mean(clamped)
    spread = np.std(np.array(medians) - ratio * np.array(clamped), ddof=1)
    error = spread / math.sqrt(len(seeds)) / np.mean(clamped)
    return {"clamped": float(np.mean(clamped)), "ratio": float(ratio), "error": float(error)}


def _regions(shape: tuple[int, int], rng: np.random.Generator) -> dict[str, list[Any]]:
    """Blocks of a grid fixed beforehand."""
    out: dict[str, list[Any]] = {}
    for side in SIDES:
        masks = []
        for _ in range(BLOCKS):
            mask = np.zeros(shape, dtype=bool)
            i, j = (int(rng.integers(0, size - side + 1)) for size in shape)
            mask[i : i + side, j : j + side] = True
            masks.append(mask)
        out[f"{side} x {side}"] = masks
    return out


def sum_trial(true: Counts, epsilon: float, seed: Sequence[int]) -> Any:
    """Sums of blocks and of the largest cells, in deviations of the raw sum.

    For each kind of region: mean squared errors of the raw sum and of the estimate, and the share
    of 90 % intervals that hold the true sum. The sum of a whole table is the raw one: that is
    checked, and measured in further releases.
    """
    released = release(true, epsilon, seed)
    law = known.Geometric(epsilon)
    regions = _regions((true.shape[0], true.shape[1]), np.random.default_rng([*seed, 1]))
    free, near = (quietly(released, law, like=like) for like in (None, "neighbours"))
    out: dict[str, Any] = {}
    for name, found in (("none", free), ("neighbours", near)):
        for kind, masks in regions.items():
            out[f"{name} {kind}"] = _scored(
                [(found.sum(mask), int(true[mask].sum())) for mask in masks]
            )
        whole = found.sum()
        if whole.estimate != whole.raw:
            raise AssertionError("the sum of a whole table must be the raw sum")
        again = [int(release(true, epsilon, [*seed, 2, k]).sum()) for k in range(AGAIN)]
        out[f"{name} whole table"] = _scored(
            [(whole._replace(estimate=raw, raw=raw), int(true.sum())) for raw in again]
        )
    return out | _largest(free, near, true, epsilon)


def smooth(free: Posterior, true: Counts) -> Prior:
    """The smooth law that a posterior could learn if there were no noise."""
    prior, lattice = free.prior, free.observed.lattice
    counts = binned(prior, true).chances * true.size
    edges = np.append(prior.low, prior.high[-1] + 1).astype(np.int64)
    columns = dictionary(lattice, edges, float(true.max()), None)
    held = counts > 0
    weights = fit_prior(columns[held], counts[held], spike=False).weights
    return Prior(prior.low, prior.high, columns @ weights)


def _known_in_bins(free: Posterior, true: Counts, released: Counts, law: known.Law) -> Floats:
    """Means for whoever knows the true histogram in bins; of cells in one line."""
    return np.asarray(quietly(released, law, prior=binned(free.prior, true)).mean)


def _largest(free: Posterior, near: Posterior, true: Counts, epsilon: float) -> dict[str, Any]:
    """The sum of the cells that look largest: what the posteriors and the oracles say of it.

    The first oracle knows the true histogram, the second in bins, the third in bins of each
    stratum of the predictor, the last only the smooth law of the counts.
    """
    law, released = known.Geometric(epsilon), free.released.ravel().astype(np.int64)
    flat = true.ravel()
    largest = np.argsort(-released, kind="stable")[:LARGEST]
    truth = int(flat[largest].sum())
    out = {
        f"{name} largest": _scored([(found.sum(largest, selected=True), truth)])
        for name, found in (("none", free), ("neighbours", near))
    }
    placed = np.empty(len(flat))
    assert near.predictor is not None
    for part in np.array_split(np.argsort(near.predictor.ravel(), kind="stable"), STRATA):
        placed[part] = _known_in_bins(free, flat[part], released[part], law)
    chosen = free.sum(largest, selected=True)
    for name, means in (
        ("oracle", oracle(flat, released, epsilon)[1]),
        ("binned oracle", _known_in_bins(free, flat, released, law)),
        ("binned oracle of strata", placed),
        ("smooth oracle", quietly(released, law, prior=smooth(free, flat)).mean),
    ):
        known_sum = chosen._replace(estimate=float(means[largest].sum()))
        out[f"{name} largest"] = _scored([(known_sum, truth)])
    return out


def _scored(pairs: Sequence[tuple[Any, int]]) -> list[float]:
    rows = []
    for found, truth in pairs:
        unit = found.raw_deviation
        inside = abs(found.estimate - truth) <= 1.6449 * found.deviation + 0.5
        rows.append(
            [((found.raw - truth) / unit) ** 2, ((found.estimate - truth) / unit) ** 2, inside]
        )
    return [float(v) for v in np.mean(rows, axis=0)]
