"""A release that was checked: its chain of OpenDP's parts, its price, and how it is explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ibis
from opendp.measures import approximate, max_divergence, zero_concentrated_divergence
from opendp.mod import Measure, Measurement, OpenDPException, Transformation

from opendp_optimal.extend import count_law, finite, positive, require_features
from opendp_optimal_warehouse import aggregate
from opendp_optimal_warehouse.asking import watched
from opendp_optimal_warehouse.designs import Designs
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


@dataclass(frozen=True)
class Release:
    """A release that is ready: nothing is charged and nothing was sent.

    :param table: that it is of
    :param layout: its integers
    :param rows: from the source to whole numbers of which each person has few
    :param measurement: all of it
    :param designs: of the noise
    :param price: in the words of the ledger
    """

    table: Table
    layout: Layout
    rows: Transformation
    measurement: Measurement
    designs: Designs
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
        return Release(table, layout, chain, chain >> tally >> noisy, noisy.designs, price)

    def run(self, *, request: str | None = None, progress: Callable[[], None] | None = None) -> Any:
        """Charge the ledger, ask the database, add noise.

        :param request: a key under which the answer is stored
        :param progress: called again and again while the database works
        """
        table = self.table
        table.check_unchanged()
        domain, metric = table.input_space
        context = table.ledger.context(
            table.name, data=table.source, privacy_unit=(metric, 1), domain=domain
        )
        charged: Any = context.queryable
        try:
            with watched(progress):
                found = charged.ask(self.measurement, request)
        except OpenDPException:
            found = None
        if found is None:  # outside of the handler: nothing keeps what the database said
            raise WarehouseError(
                "the database did not answer, or no noise could be drawn; what was charged to "
                f"{table.name!r} stays charged"
            )
        return found if request is None else found.collect()

    def law(self, name: str) -> Any:
        """The law of the noise of a count, as the posterior wants it.

        :param name: "people" or "count"
        :raises ValueError: where no single table hides it
        """
        noise = None if self.designs.alone else self.designs.table
        asked = {"people": self.layout.people, "count": self.layout.count}
        if not asked.get(name):
            raise ValueError(f"name ({name!r}) must be a count that is asked for")
        what = "people" if name == "people" else "rows"
        law = None
        if noise is not None:
            at = next(at for at, total in enumerate(self.layout.totals) if total.what == what)
            law = count_law(noise, at)
        if law is None:
            told = "chosen with its keys" if noise is None else noise.name
            raise ValueError(f"name ({name!r}): its noise ({told}) must be one table for the count")
        return law

    @property
    def queries(self) -> list[Any]:
        """What the database is asked, as tables of Ibis; the answers are not private."""
        rows, layout = self.rows(self.table.source), self.layout
        found = [aggregate.tally(rows, layout)] if layout.totals or layout.secret else []
        return found + [aggregate.histogram(rows, layout, at) for at in range(len(layout.cuts))]

    @property
    def sql(self) -> str:
        """What the database is asked."""
        return ";\n\n".join(str(ibis.to_sql(query)) for query in self.queries)

    def explain(self) -> str:
        """The SQL, what a person can change and why, the noise and the price."""
        price = ", ".join(f"{name} {value:g}" for name, value in self.price.items())
        layout, noise = self.layout, self.designs.table
        groups = "those of enough people" if layout.size is None else layout.size
        lines = [
            f"price      {price}, charged to {self.table.name!r} before anything is sent",
            *(f"noise      {words}" for words in self.designs.words),
            f"groups     {groups}",
            *(f"person     {reason}" for reason in reasons(layout)),
        ]
        for at, total in enumerate(layout.totals if noise is not None else ()):
            assert noise is not None
            lines.append(
                f"integer    {told(layout, at)}: a record moves it by at most {total.move}, "
                f"noise of standard deviation {noise.variance[at] ** 0.5:.4g}"
            )
        for cut, design in zip(layout.cuts, self.designs.cuts, strict=True):
            ranks = ", ".join(f"{off:.3g}" for off in design.spread)
            lines.append(
                f"quantiles  of {cut.name} in [{cut.bounds[0]:g}, {cut.bounds[1]:g}], "
                f"{cut.grid.width + 1} candidates: a row is at one; about 95 % of the time ranks "
                f"are off by at most {ranks}"
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
    groups, size = layout.person_groups, layout.size
    found = []
    if layout.groups is not None:
        by = ", ".join(layout.group_keys)
        found.append(f"in at most {layout.groups} groups by {by}: others are left out")
    if layout.rows is None:
        found.append("one record in a group: what a person has there, clipped")
    elif layout.rows > 1 or layout.people:
        found.append(f"at most {layout.rows} rows in all: the others are left out")
    found.append(
        f"moves the integers of at most {groups} {'' if size is None else f'of {size} '}groups"
    )
    return found
