"""The noise of least loss under zCDP: Gaussian, Laplace or a table, each at its own price.

A pure release of epsilon costs ``epsilon * tanh(epsilon / 2)``, real Laplace noise
``epsilon + exp(-epsilon) - 1``, Gaussian noise half its squared distance in standard deviations.
From a rho of about 0.75 on (absolute error; 1.6 for the squared one) the Gaussian is not the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from opendp_optimal.certify.gaussian import pure_rho_up
from opendp_optimal.checks import positive
from opendp_optimal.exact.halving import largest
from opendp_optimal.exact.numbers import float_up
from opendp_optimal.known import expected_loss
from opendp_optimal.losses.base import Loss
from opendp_optimal.measure import dp
from opendp_optimal.measure.closed import (
    ClosedNoise,
    closed_measurement,
    gaussian_for_rho,
    laplace_for_rho,
)
from opendp_optimal.measure.facts import Facts, record_text
from opendp_optimal.measure.guarantee import designed_distance, group
from opendp_optimal.measure.release import make_numeric
from opendp_optimal.measure.space import space_of
from opendp_optimal.measure.vector import VectorGuarantee
from opendp_optimal.problem.noise import MAX_EPSILON, MIN_EPSILON

KINDS = ("gaussian", "laplace", "table")
"""Of noise under zCDP."""
_CLOSE = 1.02
"""A table is solved where a staircase of its epsilon is not worse than this by much."""


def pure_epsilon(rho: float) -> float:
    """Return the largest epsilon whose pure releases cost at most rho.

    >>> round(pure_epsilon(0.5), 4)
    1.0436
    """
    high = rho + 2 * math.sqrt(rho) + 2
    return largest(lambda e: pure_rho_up(e) <= rho, min(rho, math.sqrt(rho)), high, close=1e-12)


def concentrated_noise(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    d_in: Any,
    d_out: Any,
    output_measure: dp.Measure,
    loss: Loss,
    table: Callable[..., dp.Measurement],
    only: str | None = None,
) -> dp.Measurement:
    """Make the measurement of least expected loss for a zCDP target.

    :param input_domain: of the data
    :param input_metric: of the data
    :param d_in: the largest distance between neighbours
    :param d_out: a rho, or ``(rho, delta)``
    :param output_measure: zCDP, or approximate zCDP
    :param loss: what to minimise
    :param table: makes a measurement from a table, for a space, ``d_in`` and an epsilon or a pair
    :param only: the kind of noise to take, one of :data:`KINDS`; the best of all by default
    """
    space = space_of(input_domain, input_metric)
    rho, delta = _target(d_out, output_measure)
    exact = space.integer and space.norm in ("l1", "l2")  # as long as they like
    if space.vector and space.size is None and not exact and only != "laplace":

        def sized(size: int) -> dp.Measurement:
            domain = dp.vector_domain(input_domain.element_domain, size=size)
            return concentrated_noise(
                domain, input_metric, d_in, d_out, output_measure, loss, table, only
            )

        return _by_length(input_domain, input_metric, d_in, d_out, output_measure, sized)
    candidates: list[tuple[float, Callable[[], dp.Measurement]]] = []
    refused: list[str] = []

    def offer(noise: Callable[..., ClosedNoise]) -> None:
        try:
            closed = noise(space, d_in, rho)
        except ValueError as error:
            refused.append(str(error))
            return
        target = (rho, 0.0) if isinstance(d_out, tuple) else rho
        of = input_domain, input_metric, closed, output_measure, target
        candidates.append((closed.law.expected_loss(loss), partial(closed_measurement, *of)))

    single = not space.vector or space.size == 1
    if only in (None, "gaussian"):
        offer(gaussian_for_rho)
    if only in (None, "laplace") and single:
        offer(laplace_for_rho)
    elif only == "laplace":
        refused.append(f"input_domain ({input_domain}) must hold single numbers for Laplace noise")
    best = min((value for value, _ in candidates), default=math.inf)
    epsilon = pure_epsilon(rho)
    wanted = only in (None, "table")
    if wanted and epsilon < MIN_EPSILON:
        refused.append(f"d_out ({d_out!r}) must be larger: {MIN_EPSILON:g} is the least epsilon")
    elif wanted:
        epsilon = min(epsilon, MAX_EPSILON)
        unit = float(space.distance(d_in))
        about = expected_loss("staircase", epsilon, 0.0, loss, unit=unit)
        if only or space.integer or delta > 0 or about <= _CLOSE * best:
            try:
                target = (epsilon, delta) if delta else epsilon
                pure = table(input_domain, input_metric, d_in, target)
            except ValueError as error:
                refused.append(str(error))
            else:
                pair = isinstance(d_out, tuple)
                made = partial(_from_table, pure, output_measure, rho, pair)
                candidates.append((_table_loss(pure), made))
    if not candidates:
        raise ValueError("; ".join(dict.fromkeys(refused)))
    return min(candidates, key=lambda candidate: candidate[0])[1]()


def _by_length(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    d_in: Any,
    d_out: Any,
    output_measure: dp.Measure,
    sized: Callable[[int], dp.Measurement],
) -> dp.Measurement:
    """Vectors of each length get a design of their own when the first of them is released."""
    space = space_of(input_domain, input_metric)
    rho, delta = _target(d_out, output_measure)
    last = designed_distance(space, d_in)
    of = lru_cache(maxsize=256)(sized)

    def price(d: Any) -> Any:
        times = math.ceil(space.distance(d) / last)
        # So many times the distance costs that number squared, of pure noise no more.
        cost = float_up(Fraction(rho) * times**2)
        if not isinstance(d_out, tuple):
            return cost
        return cost, (group(pure_epsilon(rho), delta, times)[1] if times else 0.0)

    def release(data: Any) -> Any:
        return of(len(data))(data) if len(data) else data

    return make_numeric(input_domain, input_metric, output_measure, space, release, price, Facts())


def _target(d_out: Any, output_measure: dp.Measure) -> tuple[float, float]:
    pair = str(output_measure.type).startswith("Approximate")
    if pair != isinstance(d_out, tuple) or (pair and len(d_out) != 2):
        raise ValueError(f"d_out ({d_out!r}) must be a {'pair (rho, delta)' if pair else 'rho'}")
    rho, delta = d_out if pair else (d_out, 0.0)
    if not 0 <= delta < 1:
        raise ValueError(f"d_out: delta ({delta!r}) must be in [0, 1)")
    return positive("d_out", rho), float(delta)


def _table_loss(measurement: dp.Measurement) -> float:
    """The expected loss of a table's noise on one coordinate, in the data's own units."""
    if isinstance(measurement.guarantee, VectorGuarantee):
        best = measurement.guarantee.only
        return math.inf if best is None else best.expected / best.size
    table, design = measurement.table, measurement.guarantee.design
    unit = 1.0 if table.kind == "integer" else float(design.sensitivity)
    return float(table.upper * unit**table.loss.power)


def _from_table(
    measurement: dp.Measurement, output_measure: dp.Measure, rho: float, pair: bool
) -> dp.Measurement:
    """State a pure or approximate release of a table under zCDP."""
    guarantee = measurement.guarantee

    def price(d_in: Any) -> Any:
        epsilon, delta = guarantee.pair(d_in)
        cost = pure_rho_up(epsilon)
        cost = min(rho, cost) if epsilon <= guarantee.epsilon else cost
        return (cost, delta) if pair else cost

    vector = isinstance(guarantee, VectorGuarantee)
    asked = guarantee.power if vector else guarantee.table.problem.fingerprint
    record = record_text("concentrated_noise", asked, guarantee.d_in, rho, pair)
    facts = Facts(record, guarantee.law, guarantee.event)
    domain, metric = measurement.input_domain, measurement.input_metric
    space, release = guarantee.space, guarantee.release()
    stated = make_numeric(domain, metric, output_measure, space, release, price, facts)
    stated.table, stated.guarantee = guarantee.table, guarantee
    return stated
