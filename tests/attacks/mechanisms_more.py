"""Measurements of plugins that are built directly, not through the registry, and their programs.

A plugin that is not installed is left out; a new ``make_`` that is in neither list fails
``test_every_measurement_is_covered``.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp

WHOLE = (dp.atom_domain(T=int), dp.absolute_distance(T=int))
REAL = (dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float))

# A name, the measurement, two neighbours, their distance.
Built = tuple[str, Any, Any, Any, Any]


def _means() -> Any:
    """Means of a column that is handed over as a list; they and the count come back as one."""
    from opendp_optimal import make_optimal_means
    from opendp_optimal.extend import make_transformation, postprocess

    column = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    rows = dp.numpy.array2_domain(num_columns=1, T=float, nan=False), dp.symmetric_distance()
    stacked = make_transformation(
        *column, *rows, lambda data: np.array(data).reshape(-1, 1), lambda d_in: d_in
    )
    made = stacked >> make_optimal_means(*rows, [(0.0, 8.0)], 1, (1.0, 1e-3))
    return postprocess(made, lambda told: [*told[0].tolist(), told[1]], "Vec<f64>")


def _keys() -> Any:
    """Secret keys of a column of numbers; the released ones come back as counts of a fixed list."""
    from opendp_optimal import make_optimal_threshold
    from opendp_optimal.extend import postprocess

    column = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    counts = column >> dp.t.then_count_by()
    made = counts >> make_optimal_threshold(*counts.output_space, counts.map(1), (1.0, 1e-3))
    return postprocess(made, lambda told: [told.get(key, 0) for key in (3, 4)], "Vec<i32>")


def _quantiles() -> Any:
    """Quantiles of a column, as a list."""
    from opendp_optimal import make_optimal_quantiles
    from opendp_optimal.extend import postprocess

    column = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    made = make_optimal_quantiles(*column, (0.0, 8.0), [0.5], 1, 1.0, bins=4)
    return postprocess(made, lambda told: [*map(float, told), told.count], "Vec<f64>")


def built() -> Iterator[Built]:
    """Measurements that need an object of their own, or of their plugin, to be made."""
    yield "optimal_quantiles", _quantiles(), [3.0, 3.0, 5.0], [3.0, 3.0], 1
    yield "optimal_threshold", _keys(), [3] * 7 + [4], [3] * 7, 1
    yield "optimal_means", _means(), [3.0, 3.0, 3.0], [3.0, 3.0], 1
    with contextlib.suppress(ModuleNotFoundError):
        from opendp_optimal_bayes import loss_matrix, make_optimal_channel, optimal_channel

        prior, loss = [0.4, 0.2, 0.1, 0.2, 0.1], loss_matrix("l1", range(5))
        best = optimal_channel(prior=prior, loss=loss, epsilon=0.8)
        yield "make_optimal_channel", make_optimal_channel(*WHOLE, best), 2, 3, 1
    with contextlib.suppress(ModuleNotFoundError):
        from opendp_optimal_select.features import FeatureSpace, make_feature_selection
        from opendp_optimal_select.ring.client import design_ring, make_ring_selection

        ring = make_ring_selection(*WHOLE, design_ring(0.375, 2, 24))
        yield "make_ring_selection", ring, 5, 6, 1
        films = FeatureSpace(np.random.default_rng(0).normal(size=(50, 3)), directions=1)
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), 3)
        chosen = make_feature_selection(domain, dp.l2_distance(T=float), 2.0, films, 1)
        yield "make_feature_selection", chosen, [0.0, 1.0, 2.0], [1.0, 1.0, 2.0], 1.0
    with contextlib.suppress(ModuleNotFoundError):
        from opendp_optimal_learn.truncated import make_truncated_laplace

        truncated = make_truncated_laplace(*REAL, 1.0, (1.0, 1e-3))
        yield "make_truncated_laplace", truncated, 3.0, 4.0, 1.0


BUILT = (
    "make_optimal_means",
    "make_optimal_quantiles",
    "make_optimal_threshold",
    "make_optimal_channel",
    "make_ring_selection",
    "make_feature_selection",
    "make_truncated_laplace",
    "make_noisy_table",
)
NOT_RELEASES = (
    "make_clip_per_person",
    "make_derive",
    "make_distance_to_point",
    "make_filter",
    "make_frame_count",
    "make_frame_histogram",
    "make_frame_sum",
    "make_groups_per_person",
    "make_join",
    "make_projection",
    "make_rows_per_person",
    "make_signed_distance",
    "make_tally",
    "make_trips",
    "make_where",
    "make_whole_rows",
)
"""Transformations, an odometer that only counts, and made-up data: they release nothing."""


def _warehouse() -> Callable[[], Any]:
    """A count of a table in DuckDB."""
    import duckdb

    from opendp_optimal.budget import open_ledger
    from opendp_optimal_warehouse import connect

    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with duckdb.connect(str(folder / "people.db")) as db:
        db.execute("CREATE TABLE people AS SELECT i AS pid FROM range(20) t(i)")
    with open_ledger(folder / "budgets.db") as made:
        made.create("people", epsilon=1000.0)

    def release() -> Any:
        with open_ledger(folder / "budgets.db") as ledger, connect(f"{folder}/people.db") as house:
            people = house.table("people", person="pid", ledger=ledger, name="people")
            return people.rows_per_person(1).release(count=True, epsilon=0.5).rows()

    return release


def programs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Everything else that releases: estimators, clients, populations. Each call releases anew."""
    with contextlib.suppress(ModuleNotFoundError):
        from opendp_optimal_select.parties import Client, FeatureClient

        client, features = Client(1.0, 3), FeatureClient(1.0, 3, 2)
        yield "Client", lambda: client.privatise(3.0).signal
        yield "FeatureClient", lambda: features.privatise([3.0, 4.0]).signal
    with contextlib.suppress(ModuleNotFoundError):
        from opendp_optimal_geo import Population, rectangle

        points = np.arange(40.0).reshape(20, 2) * 50
        region = rectangle((0, 0), 900, 900)

        def people(privacy: str) -> Any:
            return Population(points, budget=0.01, privacy=privacy, central_budget=1.0)

        for privacy in ("cgp", "gp"):
            yield (
                f"Population.release_points[{privacy}]",
                functools.partial(
                    lambda kind: people(kind).release_points(budget=0.01).tolist(), privacy
                ),
            )
            yield (
                f"Population.range_count[{privacy}]",
                functools.partial(
                    lambda kind: people(kind).range_count(region, budget=0.001).value, privacy
                ),
            )
        yield "Curator", lambda: people("cgp").threshold(region, 0.5, budget=0.01).value
    with contextlib.suppress(ModuleNotFoundError):
        yield "Table.release", _warehouse()
    with contextlib.suppress(ModuleNotFoundError):
        from opendp_optimal_learn import PrivateLogisticRegression, PrivateNaiveBayes

        rng = np.random.default_rng(1)
        table = rng.uniform(size=(60, 2))
        labels = (table[:, 0] > 0.5).astype(int)
        public = {"bounds": (0.0, 1.0), "classes": [0, 1]}
        for noise in ("optimal", "laplace", "gaussian"):

            def bayes(noise: str = noise) -> Any:
                model = PrivateNaiveBayes(epsilon=5.0, delta=0.1, noise=noise, **public)
                return model.fit(table, labels).predict_proba(table[:5]).tolist()

            yield f"PrivateNaiveBayes[{noise}]", bayes

            def logistic(noise: str = noise) -> Any:
                model = PrivateLogisticRegression(
                    epsilon=5.0, delta=0.1, noise=noise, max_iter=2, **public
                )
                return model.fit(table, labels).coef_.tolist()

            yield f"PrivateLogisticRegression[{noise}]", logistic
