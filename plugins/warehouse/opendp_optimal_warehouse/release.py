"""A release that was checked: its chain of OpenDP's parts, its price, and how it is explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ibis
from opendp.measures import approximate, max_divergence, zero_concentrated_divergence
from opendp.mod import Measure, Measurement, OpenDPException, Transformation

from opendp_optimal.extend import TableNoise, finite, positive, require_features
from opendp_optimal_warehouse import aggregate
from opendp_optimal_warehouse.errors import WarehouseError
from opendp_optimal_warehouse.layout import Layout
from opendp_optimal_warehouse.noise import make_noisy_table
from opendp_optimal_warehouse.steps import (
    make_clip_per_person,
    make_groups_per_person,
    make_rows_per_person,
    make_tally,
    make_whole_rows,
)

if TYPE_CHECKING:
    from opendp_optimal_warehouse.table import Table

__all__ = ["Release"]


@dataclass(frozen=True)
class Release:
    """A release that is ready: nothing is charged and nothing was sent.

    :param table: that it is of
    :param layout: its integers
    :param rows: from the source to whole numbers of which each person has few
    :param measurement: all of it
    :param noise: that is added
    :param price: in the words of the ledger
    """

    table: Table
    layout: Layout
    rows: Transformation
    measurement: Measurement
    noise: TableNoise
    price: dict[str, float]

    @staticmethod
    def of(table: Table, layout: Layout, epsilon: Any, delta: Any, rho: Any) -> Release:
        """Build the chain; everything that can be refused is.

        :param table: with its steps
        :param layout: of the release
        :param epsilon: the price
        :param delta: the price
        :param rho: the price
        """
        require_features("contrib")
        price = _price(epsilon, delta, rho)
        measure, d_out = _measure(table, price)
        chain = rows_of(table, layout)
        tally = make_tally(chain.output_domain, chain.output_metric)
        noisy: Any = make_noisy_table(
            tally.output_domain, tally.output_metric, 1, d_out, output_measure=measure
        )
        return Release(table, layout, chain, chain >> tally >> noisy, noisy.noise, price)

    def run(self, *, request: str | None = None) -> Any:
        """Charge the ledger, ask the database, add noise.

        :param request: a key under which the answer is stored
        """
        table = self.table
        domain, metric = table.input_space
        context = table.ledger.context(
            table.name, data=table.source, privacy_unit=(metric, 1), domain=domain
        )
        charged: Any = context.queryable
        try:
            found = charged.ask(self.measurement, request)
        except OpenDPException:
            found = None
        if found is None:  # outside of the handler: nothing keeps what the database said
            raise WarehouseError(
                "the database did not answer, or no noise could be drawn; what was charged to "
                f"{table.name!r} stays charged"
            )
        return found if request is None else found.collect()

    @property
    def query(self) -> Any:
        """What the database is asked, as a table of Ibis; its answer is not private."""
        return aggregate.tally(self.rows(self.table.source), self.layout)

    @property
    def sql(self) -> str:
        """What the database is asked."""
        return str(ibis.to_sql(self.query))

    def explain(self) -> str:
        """The SQL, what a person can change and why, the noise and the price."""
        price = ", ".join(f"{name} {value:g}" for name, value in self.price.items())
        lines = [
            f"price      {price}, charged to {self.table.name!r} before anything is sent",
            f"noise      {self.noise.name}",
            f"groups     {self.layout.size}",
            *(f"person     {reason}" for reason in reasons(self.layout)),
        ]
        for at, total in enumerate(self.layout.totals):
            lines.append(
                f"integer    {told(self.layout, at)}: a record moves it by at most {total.move}, "
                f"noise of standard deviation {self.noise.variance[at] ** 0.5:.4g}"
            )
        return "\n".join([*lines, "", self.sql])


def rows_of(table: Table, layout: Layout) -> Transformation:
    """From the source to rows of which each person has few.

    :param table: with its steps
    :param layout: of the release
    """
    encoded = make_whole_rows(*table._space, layout)
    steps = [*table._steps, encoded]
    if layout.groups is not None:
        steps.append(make_groups_per_person(*_out(steps)))
    if table.columns.person is not None:
        few = make_clip_per_person if layout.rows is None else make_rows_per_person
        steps.append(few(*_out(steps)))
    chain = steps[0]
    for step in steps[1:]:
        chain = chain >> step
    return chain


def _out(steps: list[Transformation]) -> tuple[Any, Any]:
    return steps[-1].output_domain, steps[-1].output_metric


def _price(epsilon: Any, delta: Any, rho: Any) -> dict[str, float]:
    if (epsilon is None) == (rho is None):
        raise ValueError(f"give one of epsilon ({epsilon!r}) and rho ({rho!r})")
    if rho is not None:
        if delta is not None:
            raise ValueError(f"delta ({delta!r}) must be left out with rho: the noise needs none")
        return {"rho": positive("rho", rho)}
    price = {"epsilon": positive("epsilon", epsilon)}
    if delta is not None:
        price["delta"] = finite("delta", delta)
        if not 0 <= price["delta"] < 1:
            raise ValueError(f"delta ({delta!r}) must be in [0, 1)")
    return price


def _measure(table: Table, price: dict[str, float]) -> tuple[Measure, Any]:
    """The notion of privacy of the ledger's budget, and the price in it."""
    kind = table.ledger.budget(table.name).kind
    main = kind.main
    if main not in price:
        raise ValueError(f"the budget of {table.name!r} is one of {main}: give {main}")
    inner = max_divergence() if main == "epsilon" else zero_concentrated_divergence()
    delta = price.get("delta", 0.0)
    if not kind.delta:
        if delta:
            raise ValueError(f"delta ({delta!r}) must be 0: the budget of {table.name!r} has none")
        return inner, price[main]
    return approximate(inner), (price[main], delta)


def told(layout: Layout, at: int) -> str:
    """What one of the integers is, in words.

    :param layout: of the release
    :param at: which
    """
    total = layout.totals[at]
    if total.column < 0:
        return {"people": "people", "rows": "rows"}[total.what]
    column = layout.columns[total.column]
    name = column.name
    if total.what == "present":
        return f"records with {name}, which may be missing"
    grid = column.added
    ends = f"[{float(grid.low * grid.step):g}, {float(grid.high * grid.step):g}]"
    if total.what == "sum":
        return f"sum of {name} in {ends}, twice, from the middle, in steps of {float(grid.step):g}"
    return f"sum of squares of {name} in {ends}, likewise"


def reasons(layout: Layout) -> list[str]:
    """What a person can do at most, and why.

    :param layout: of the release
    """
    groups = layout.person_groups
    found = []
    if layout.groups is not None:
        by = ", ".join(layout.group_keys)
        found.append(f"in at most {layout.groups} groups by {by}: others are left out")
    if layout.rows is None:
        found.append("one record in a group: what a person has there, clipped")
    elif layout.rows > 1 or layout.people:
        found.append(f"at most {layout.rows} rows in all: the others are left out")
    found.append(f"moves the integers of at most {groups} of {layout.size} groups")
    return found
