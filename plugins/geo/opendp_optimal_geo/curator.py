"""The central model: one curator, one budget, neighbours differ in one record (appendix C).

A record changes the count of those that satisfy a predicate by one at most, and one of their truth
values: as a vector these move by one at most in the Euclidean metric, too. So Gaussian noise of
the same price can go to the count (the paper's triple, "distance") or, as users of a population
send noisy points, to every truth value before anybody counts ("point").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from opendp_optimal.budget import BudgetError, CgpFilter, Filter, Ledger, check_filter
from opendp_optimal.extend import (
    LARGEST_RATE,
    Booleans,
    Integers,
    choice,
    float_down,
    positive,
    require_features,
    share,
    smallest_rate,
)
from opendp_optimal.extend import fraction as exact_fraction
from opendp_optimal.extend import gaussian_integers as gaussian_noise
from opendp_optimal_geo.answer import Answer, Round
from opendp_optimal_geo.plan import METHODS, shares
from opendp_optimal_geo.radius import gaussian_radius

PER_UNIT = 2**12
STEP = 1.0 / PER_UNIT
"""Counts are released on this grid: integers are on it, so nothing is rounded before the noise."""


class Curator:
    """Holds records that neighbours may differ in by one, behind a filter on rho (zCDP).

    :param records: the data; their number is public
    :param budget: rho in all, or a fresh filter: :class:`CgpFilter`, or :class:`ApproxGpFilter` or
        :class:`GaussianFilter` with reach 1 for (epsilon, delta)
    :param ledger: keeps the budget, also after this process: rho in all, no filter
    :param name: with a ledger: what the records are called there; another budget than it was made
        with is refused

    >>> incomes = np.arange(1000) * 100
    >>> curator = Curator(incomes, budget=1.0)
    >>> answer = curator.threshold(lambda x: x <= 10_000, 0.5, budget=0.5)
    >>> answer.value, answer.saving > 0.9
    (True, True)
    """

    def __init__(
        self, records: Any, *, budget: Any, ledger: Ledger | None = None, name: str = "records"
    ) -> None:
        """Keep the records behind the filter."""
        if not isinstance(records, Sequence):
            records = np.asarray(records)
            if not records.ndim:
                raise ValueError("records must be a sequence with one entry for each person")
        if len(records) < 1:
            raise ValueError("records (0) must be at least one")
        self.records = records
        self.filter: Filter
        if ledger is not None:
            self.filter = LedgerFilter(ledger, name, budget)
        elif isinstance(budget, Filter):
            check_filter("budget", budget, pure=False)
            self.filter = budget
        else:
            self.filter = CgpFilter(budget)

    def __repr__(self) -> str:
        """Show how many records there are, and the budget."""
        return f"Curator({len(self.records)} records, {self.filter!r})"

    @property
    def remaining(self) -> Fraction:
        """What is left, exactly."""
        return self.filter.remaining

    def threshold(
        self,
        predicate: Callable[[Any], Any],
        fraction: float,
        *,
        budget: Any,
        method: str = "distance",
        looks: Any = ("doubling", 10),
        beta: float = 0.05,
        baseline: bool = False,
        vectorized: bool = False,
    ) -> Answer:
        """Say whether fewer than a fraction of the records satisfy a predicate (Algorithm 9).

        PIE-NI puts counts above the threshold in S_0, so S_1 means yes.

        The predicate sees one record at a time, so that nobody's record decides about others. Where
        it raises an error, or returns no truth value, the record does not satisfy it.

        :param predicate: called with each record; a function of that record alone
        :param fraction: strictly between 0 and 1
        :param budget: what the query may cost
        :param method: noise is added to the count ("distance") or to the truth value of each of n
            records ("point"), which makes the error of the count sqrt(n) times as large
        :param looks: ("even", c), ("doubling", c), or prices that add up to the budget
        :param beta: failure probability of the decisions
        :param baseline: one look at the whole price (BM_0 for "point", BM_1 for "distance")
        :param vectorized: call the predicate once, with all records. Nothing checks that its truth
            values depend on one record each: this needs OpenDP's feature "honest-but-curious"
        """
        if vectorized:
            require_features("contrib", "honest-but-curious")
        truth = partial(self._all_at_once if vectorized else self._one_by_one, predicate)
        return self._decide(truth, fraction, budget, method, looks, beta, baseline)

    def _one_by_one(self, predicate: Callable[[Any], Any]) -> Booleans:
        with np.errstate(all="ignore"):  # a warning would tell of a record
            answers = (_holds(predicate, record) for record in _apart(self.records))
            return np.fromiter(answers, np.bool_, len(self.records))

    def _all_at_once(self, predicate: Callable[[Any], Any]) -> Booleans:
        # The same for everybody: a message about the predicate may not depend on the data.
        truth = np.asarray(predicate(self.records))
        if truth.shape != (len(self.records),) or truth.dtype != np.bool_:
            raise ValueError("predicate must return one truth value for each record")
        return truth

    def _decide(
        self,
        truth: Callable[[], Booleans],
        fraction: float,
        budget: Any,
        method: str = "distance",
        looks: Any = ("doubling", 10),
        beta: float = 0.05,
        baseline: bool = False,
    ) -> Answer:
        """Answer a threshold query, given a function that finds the truth value of each record."""
        size = len(self.records)
        point = choice("method", method, METHODS) == "point"
        limit = share("fraction", fraction) * size
        beta, wanted = share("beta", beta), exact_fraction("budget", budget, above=0)
        split = shares(("even", 1) if baseline else looks, positive("budget", budget))
        price = payable(self.filter, wanted)
        if not self.filter.accepts(price, gaussian=True):
            raise ValueError(
                f"budget ({budget!r}) must be at most what is left, {float(self.remaining):g}"
            )
        lower = [float_down(price * Fraction(part)) for part in split[:-1]]
        costs = [payable(self.filter, Fraction(cost)) for cost in lower]
        costs.append(price - sum(costs))
        _check_noise(costs)
        values = truth().astype(np.int64)
        answers = values if point else values.sum(keepdims=True)

        used, weighted, rounds = Fraction(0), 0.0, []
        for look, (part, cost) in enumerate(zip(split, costs, strict=True), start=1):
            if not self.filter.charge(cost, gaussian=True):  # pragma: no cover (checked above)
                raise BudgetError("budget must be at most what is left: somebody else has spent it")
            used += cost
            noisy = _look(answers, cost)
            weighted += float(cost) * noisy
            average = weighted / float(used)
            deviation = math.sqrt(len(answers) / (2.0 * float(used)))
            width = gaussian_radius(1, beta / len(split)) * deviation + len(answers) * STEP
            inside = average < limit - width and not baseline
            outside = average > limit + width and not baseline
            rounds.append(Round(look, part, 1, 0, int(inside), int(outside)))
            if inside or outside:
                break
        bound = 0.0 if inside or outside else width
        return Answer(average < limit, bound, beta, float(1 - used / price), tuple(rounds))


class LedgerFilter(Filter):
    """A budget of rho in a ledger, for neighbours that differ in one record.

    :param ledger: where it is kept
    :param name: of the records
    :param budget: rho in all
    """

    unit = CgpFilter.unit
    grain = Fraction(1, 1 << 40)
    """Prices are whole multiples of this, or rounded up."""

    def __init__(self, ledger: Ledger, name: str, budget: Any) -> None:
        """Open the budget, or find it."""
        if not isinstance(ledger, Ledger):
            raise ValueError(f"ledger ({ledger!r}) must be a ledger: see open_ledger")
        wanted = exact_fraction("budget", budget, above=0) // self.grain * self.grain
        if all(name != kept.name for kept in ledger.budgets()):
            with suppress(ValueError):  # somebody else may have been faster
                ledger.create(name, rho=budget, note="central queries")
        self._ledger, self._name = ledger, name
        found = ledger.budget(name)
        super().__init__(found.limit.main * self.grain)
        if found.kind.name != "rho" or wanted != self.capacity:
            raise ValueError(
                f"budget ({budget!r}) must be what {name!r} was made with in the ledger: "
                f"{found.kind.told} {float(self.capacity):g}"
            )
        ledger.fix_unit(name, "one record")

    @property
    def total(self) -> Fraction:
        """What was charged, by anybody."""
        return self._ledger.budget(self._name).spent.main * self.grain

    def charge(self, price: Any, *, gaussian: bool = False) -> bool:
        """Charge a price in the ledger if it fits; say whether it did."""
        try:
            self._ledger.charge(self._name, rho=price, note="look of a central query")
        except BudgetError:
            return False
        return True


def payable(kept: Filter, price: Fraction) -> Fraction:
    """Return a price as a filter counts it, rounded down.

    :param kept: the filter
    :param price: rho
    """
    grain = getattr(kept, "grain", None)
    return price if grain is None else price // grain * grain


def _apart(records: Any) -> Iterator[Any]:
    """Yield records one by one; a row of an array is copied, since a view leads to the others."""
    if isinstance(records, np.ndarray) and (records.ndim > 1 or records.dtype.names):
        return (records[i : i + 1].copy()[0] for i in range(len(records)))
    return iter(records)


def _holds(predicate: Callable[[Any], Any], record: Any) -> bool:
    """Say whether a record satisfies a predicate; whatever happens, the caller cannot tell."""
    try:
        found = predicate(record)
    except Exception:
        return False
    return isinstance(found, (bool, np.bool_)) and bool(found)


def _check_noise(costs: Sequence[Fraction]) -> None:
    """Refuse prices for which there is no noise; nothing is charged."""
    least, most = min(costs) * Fraction(STEP) ** 2, max(costs) * Fraction(STEP) ** 2
    if least < smallest_rate(pure=False) or most > LARGEST_RATE[False]:
        raise ValueError(
            f"budget (looks from {float(min(costs)):.3g} to {float(max(costs)):.3g}) must be "
            f"neither so small nor so large for {len(costs)} looks"
        )


def _look(answers: Integers, cost: Fraction) -> float:
    """Return the sum of answers, each with Gaussian noise of variance 1 / (2 cost).

    Noise is added to integers; floats see only what is released.
    """
    rate = float_down(cost * Fraction(STEP) ** 2)
    return float((answers * PER_UNIT + gaussian_noise(rate, len(answers))).sum()) * STEP
