"""The tables that come with the package, checked by two strangers: fractions and dp-accounting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opendp_optimal import NoiseTable
from opendp_optimal.table import store as cache
from opendp_optimal.table.files.noise import KIND as NOISE
from opendp_optimal.testing import independent

INTERVAL = 1e-3


def bundled(count: int | None = None) -> list[NoiseTable]:
    """All of them, or so many, evenly spread over their names."""
    places = sorted(cache.bundled_directory().iterdir(), key=lambda place: place.name)
    places = [place for place in places if place.name.endswith(".noise")]
    step = 1 if count is None else max(1, len(places) // count)
    return [NOISE.decode(place.read_bytes()) for place in places[::step]]


def fractions_agree(table: NoiseTable) -> bool:
    """Whether the plain proof holds, and fails for a claim a little stronger than the fast one's.

    The fast proof says exactly how much of delta is used; the plain one must find the same.
    """
    if not independent.holds(table):
        return False
    if table.tail is not None:
        return True
    growth = independent.exp_below(independent.Fraction(table.epsilon))
    law = independent.law_of(table)
    worst = max(
        independent.plain_delta(law, sign * m, growth)
        for m in range(1, table.cells + 1)
        for sign in (1, -1)
    )
    exact = worst + independent.Fraction(table.atom, table.total)
    fast = table.delta_at(table.epsilon)
    # The fast proof rounds every weight times e^epsilon down to an integer: a little above.
    slack = len(law) / table.total
    return float(exact) <= fast <= float(exact) * (1 + 1e-12) + slack + 1e-18


def accounting_agrees(table: NoiseTable) -> bool:
    """Whether dp-accounting brackets the claim: its optimistic delta is not above ours, and its
    pessimistic one, which moves every loss up by at most an interval, is no larger once epsilon
    is moved as far.
    """
    if table.tail is not None:
        return True
    here, there = shifted(table)
    optimistic = _pld(here, there, pessimistic=False).get_delta_for_epsilon(table.epsilon)
    late = _pld(here, there, pessimistic=True).get_delta_for_epsilon(table.epsilon + 2 * INTERVAL)
    claimed = table.delta * (1 + 1e-6) + 1e-15
    return bool(optimistic <= claimed and late <= claimed)


def shifted(table: NoiseTable) -> tuple[dict[int, float], dict[int, float]]:
    """Log probabilities of the noise, and of the noise moved by the whole sensitivity.

    The point mass at 0, which no neighbour gives, is an outcome of its own on each side.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(table.weights / table.total)
    points = range(-table.radius, table.radius + 1)
    here: dict[Any, float] = {
        i: float(v) for i, v in zip(points, logs, strict=True) if math.isfinite(v)
    }
    there = {i + table.cells: v for i, v in here.items()}
    if table.atom:
        mass = math.log(table.atom / table.total)
        here[10**9], there[-(10**9)] = mass, mass
    return here, there


def _pld(here: dict[int, float], there: dict[int, float], *, pessimistic: bool) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_two_probability_mass_functions(
        here,
        there,
        pessimistic_estimate=pessimistic,
        value_discretization_interval=INTERVAL,
        log_mass_truncation_bound=-math.inf,
        symmetric=False,
    )
