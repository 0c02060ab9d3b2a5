"""How accurate a release will be, before anything is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from opendp_optimal.arrays import html_rows
from opendp_optimal.checks import share
from opendp_optimal.exact.halving import least
from opendp_optimal.known import Law
from opendp_optimal.losses.base import loss_of
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import asked_of, inner_query
from opendp_optimal.measure.anatomy import chain_of, laws_of, spaces


def accuracy(release: Any, alpha: float = 0.05) -> Any:
    """Return what the error of a release stays within, with a chance of ``1 - alpha``.

    The error is that of the noise: the difference between what is released and what would be
    released without noise; for vectors, in each single coordinate. Nothing is spent.

    :param release: a measurement, also behind transformations, or a query of a context
    :param alpha: the chance of a larger error
    :return: a number; for queries asked together a tuple, one number for each answer
    :raises ValueError: if it adds no noise of a known law

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    >>> round(accuracy(dp.m.make_laplace(*space, scale=2.0)), 3)  # 2 log 20
    5.991
    """
    chance = share("alpha", alpha)
    laws = laws_of(_measurement(release))
    if isinstance(laws, tuple):
        return tuple(within(law, 1 - chance) for law in laws)
    return within(laws, 1 - chance)


def within(law: Law, chance: float) -> float:
    """Return the least a such that the noise is at most a, either way, with this chance."""

    def holds(a: float) -> bool:
        below = law.cdf(-math.floor(a) - 1) if law.integer else law.cdf(-a)
        return bool(law.cdf(a) - below >= chance)

    high = law.spread
    while not holds(high):
        high *= 2
    found = least(holds, 0.0, high, close=1e-12)
    return float(round(found)) if law.integer else found


def _measurement(release: Any) -> dp.Measurement:
    if isinstance(release, dp.Measurement):
        return release
    query = inner_query(release) or release
    if not isinstance(query, dp.Query):
        raise ValueError(f"release ({type(release).__name__}) must be a measurement or a query")
    resolved = query.resolve()
    if not isinstance(resolved, dp.Measurement):
        raise ValueError("release must be a query that ends with noise")
    return resolved


@dataclass(frozen=True)
class Summary:
    """What a query will release.

    :param released: the type of what is released
    :param noise: its kind, in words
    :param price: what it costs, and in which measure of privacy
    :param error: the expected absolute error of each number; a tuple for several answers
    :param accuracy: 95 % of errors stay within this; a tuple for several answers
    """

    released: str
    noise: str
    price: str
    error: Any
    accuracy: Any

    def __str__(self) -> str:
        """A few lines of text."""
        return "\n".join(f"{name:<10}{value}" for name, value in self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        return [
            ("releases", self.released),
            ("noise", self.noise),
            ("costs", self.price),
            ("error", f"{_short(self.error)} expected, 95 % within {_short(self.accuracy)}"),
        ]

    def _repr_html_(self) -> str:
        return html_rows(self._rows())


def _short(value: Any) -> str:
    return ", ".join(f"{v:.6g}" for v in (value if isinstance(value, tuple) else (value,)))


def summarize(query: Any) -> Summary:
    """Return what a query will release, with which noise and how accurate; nothing is spent.

    :param query: of a context, ending with noise
    :raises ValueError: if it is no query, or adds no noise of a known law

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> query = dp.Query(
    ...     chain=(dp.atom_domain(T=int), dp.absolute_distance(T=int)),
    ...     output_measure=dp.max_divergence(), d_in=1, d_out=1.0,
    ... ).optimal()
    >>> print(summarize(query))  # doctest: +ELLIPSIS
    releases  i32
    noise     table of integers, loss l1, certified within 0.00...%
    costs     1.0 under MaxDivergence
    error     0.850918 expected, 95 % within 3
    """
    inner = inner_query(query) or query
    if not isinstance(inner, dp.Query):
        raise ValueError(f"query ({type(query).__name__}) must be a query of a context")
    measurement = _measurement(inner)
    laws = laws_of(measurement)
    last = chain_of(measurement)[-1]
    d_in, _ = asked_of(inner)
    measure = str(spaces(measurement)[2].type)
    several = isinstance(laws, tuple)
    each = laws if isinstance(laws, tuple) else (laws,)
    errors = tuple(law.expected_loss(loss_of("l1")) for law in each)
    return Summary(
        released=f"{len(errors)} answers" if several else str(spaces(last)[0].carrier_type),
        noise=noise_in_words(last, laws),
        price=f"{measurement.map(d_in)} under {measure}",
        error=errors if several else errors[0],
        accuracy=accuracy(measurement, 0.05),
    )


def noise_in_words(last: dp.Measurement, law: Any) -> str:
    """Say which noise a measurement adds."""
    chosen = getattr(getattr(last, "guarantee", None), "chosen", None)
    if chosen is not None:
        return str(chosen)
    table = getattr(last, "table", None)
    if table is not None:
        kind = "integers" if table.kind == "integer" else "reals"
        return f"table of {kind}, loss {table.loss.name}, certified within {table.gap:.3%}"
    noise = getattr(last, "noise", None)
    return f"{noise.kind} noise" if noise is not None else repr(law)
