"""The steps of a release as OpenDP transformations on tables that stay where they are.

A member of a domain is a table of Ibis: a query that has not run. Neighbours differ by everything
that is there of a person; each step takes tables of one person more or less to such tables again,
so its stability map is the identity. What a person can do at most is known of the domain. Only the
last step runs the query: its integers move by what :attr:`Layout.moves` says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import ibis
from opendp.mod import Domain, Metric, Transformation

from opendp_optimal.extend import (
    make_transformation,
    new_domain,
    new_metric,
    record_text,
    require_features,
    to_then,
)
from opendp_optimal_warehouse import aggregate
from opendp_optimal_warehouse.asking import ask_all
from opendp_optimal_warehouse.counted import Counted, counted
from opendp_optimal_warehouse.engine import read, value_of
from opendp_optimal_warehouse.errors import WarehouseError
from opendp_optimal_warehouse.expressions import Expression, col
from opendp_optimal_warehouse.kinds import Kind, kind_of
from opendp_optimal_warehouse.layout import Layout
from opendp_optimal_warehouse.public import Public

_LONGEST_NAME = 63
"""PostgreSQL cuts longer ones off."""


class _Told:
    """A descriptor whose text is a digest of all that it holds."""

    def told(self) -> str:
        """Everything."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return hashlib.sha256(self.told().encode()).hexdigest()[:32]


@dataclass(frozen=True, repr=False)
class Columns(_Told):
    """What is known of a table.

    :param person: column that says whose row it is; none: every row is its own person's
    :param who: kind of this column
    :param kinds: of the columns that can be computed with
    :param others: names of columns that cannot
    """

    person: str | None
    who: Kind | None
    kinds: dict[str, Kind] = field(hash=False)
    others: tuple[str, ...] = ()

    def told(self) -> str:
        """Everything."""
        return repr((self.person, self.who, sorted(self.kinds.items()), self.others))


@dataclass(frozen=True, repr=False)
class Whole(_Told):
    """What is known of a table of whole numbers.

    :param layout: of the release
    :param who: kind of the column that says whose row it is
    :param groups: whether each person is in few groups
    :param rows: whether each person has few rows, or one record in a group
    """

    layout: Layout
    who: Kind | None
    groups: bool = False
    rows: bool = False

    def told(self) -> str:
        """Everything."""
        return repr((self.layout, self.who, self.groups, self.rows))


def _is_table(value: Any) -> bool:
    return isinstance(value, ibis.Table)


def table_domain(columns: Columns) -> Domain:
    """The domain of all tables with such columns, whatever their rows.

    :param columns: of the tables
    """
    return new_domain("WarehouseTable", _is_table, columns)


def people_distance(person: str | None) -> Metric:
    """How many people's rows must be added or removed; or how many rows, if there is no person.

    :param person: column that says whose row it is
    """
    return new_metric("WarehouseRows" if person is None else f"WarehousePeople({person!r})")


def _whole_domain(whole: Whole) -> Domain:
    return new_domain("WarehouseWhole", _is_table, whole)


def _totals_domain(layout: Layout) -> Domain:
    return new_domain("WarehouseTotals", lambda x: isinstance(x, Counted), Totals(layout))


@dataclass(frozen=True, repr=False)
class Totals(_Told):
    """What is known of the integers.

    :param layout: of the release
    """

    layout: Layout

    def told(self) -> str:
        """Everything."""
        return repr(self.layout)


def totals_distance() -> Metric:
    """How many people moved the integers."""
    return new_metric("WarehouseMoves")


def described(domain: Domain, kind: type[Any]) -> Any:
    """The descriptor of a domain; refuse domains of other steps.

    :param domain: of a step
    :param kind: what its descriptor must be
    """
    require_features("contrib")
    found = getattr(domain, "descriptor", None)
    if not isinstance(found, kind):
        raise ValueError(f"input_domain ({domain}) must be that of {kind.__name__.lower()}")
    return found


def _same(distance: Any) -> int:
    if isinstance(distance, bool) or not isinstance(distance, int) or distance < 0:
        raise ValueError(f"d_in ({distance!r}) must be a number of people")
    return distance


def _step(
    domain: Domain, metric: Metric, output: Domain, function: Callable[[Any], Any], record: str
) -> Transformation:
    return make_transformation(domain, metric, output, metric, function, _same, record=record)


def make_where(input_domain: Domain, input_metric: Metric, predicate: Expression) -> Transformation:
    """Make a transformation that keeps the rows for which something is true.

    :param input_domain: of tables
    :param input_metric: of people
    :param predicate: made of comparisons of columns
    """
    columns = described(input_domain, Columns)
    kind = kind_of(predicate, columns.kinds)
    if kind.name != "boolean":
        raise ValueError(f"predicate ({predicate!r}) must be true or false, not {kind.name}")

    def function(table: Any) -> Any:
        return table.filter(value_of(predicate, values(table, columns), columns.kinds))

    record = record_text("make_where", repr(predicate))
    return _step(input_domain, input_metric, input_domain, function, record)


def make_derive(
    input_domain: Domain, input_metric: Metric, columns: dict[str, Expression]
) -> Transformation:
    """Make a transformation that adds columns, each computed from its row alone.

    :param input_domain: of tables
    :param input_metric: of people
    :param columns: what each new column is
    """
    known = described(input_domain, Columns)
    found = {name: kind_of(what, known.kinds) for name, what in columns.items()}
    _check_new(found, known)

    def function(table: Any) -> Any:
        before = values(table, known)
        return table.mutate(
            **{name: value_of(what, before, known.kinds) for name, what in columns.items()}
        )

    output = table_domain(replace(known, kinds=known.kinds | found))
    record = record_text("make_derive", repr(columns))
    return _step(input_domain, input_metric, output, function, record)


def make_join(
    input_domain: Domain, input_metric: Metric, public: Public, on: str
) -> Transformation:
    """Make a transformation that adds the columns of a public table; missing where it has no row.

    A row finds at most one row of the public table.

    :param input_domain: of tables
    :param input_metric: of people
    :param public: has every key once
    :param on: the column with keys
    """
    known = described(input_domain, Columns)
    kind = kind_of(col(on), known.kinds)
    if kind.name != public.kinds[public.key].name or not kind.listable:
        raise ValueError(
            f"on ({on!r}, of kind {kind.name}) must be of the kind of the public key: "
            f"{public.kinds[public.key].name}"
        )
    new = {
        name: replace(k, nullable=True) for name, k in public.kinds.items() if name != public.key
    }
    _check_new(new, known)

    def function(table: Any) -> Any:
        there = public.rows(table)
        names = {name: f"public {at}" for at, name in enumerate(public.kinds)}
        there = there.rename({names[name]: name for name in names})
        found = table.left_join(there, values(table, known)[on] == there[names[public.key]])
        kept = {name: table[name] for name in table.columns}
        return found.select(**kept, **{name: there[names[name]] for name in new})

    output = table_domain(replace(known, kinds=known.kinds | new))
    record = record_text("make_join", public.told(), on)
    return _step(input_domain, input_metric, output, function, record)


def _check_new(names: Any, known: Columns) -> None:
    for name in names:
        if name in known.kinds or name == known.person or name in known.others:
            raise ValueError(f"column ({name!r}) must have a name that no column has")
        if not name or "\0" in name or len(name.encode(errors="replace")) > _LONGEST_NAME:
            raise ValueError(f"column ({name!r}) must have a name of 1 to {_LONGEST_NAME} bytes")


def make_whole_rows(input_domain: Domain, input_metric: Metric, layout: Layout) -> Transformation:
    """Make a transformation from rows to whole numbers, row by row.

    Rows without a person, and rows of no known group, are left out.

    :param input_domain: of tables
    :param input_metric: of people
    :param layout: of the release
    """
    known = described(input_domain, Columns)

    def function(table: Any) -> Any:
        return aggregate.whole_rows(table, known.person, values(table, known), layout)

    output = _whole_domain(Whole(layout, known.who))
    return _step(input_domain, input_metric, output, function, f"make_whole_rows({layout!r})")


def make_groups_per_person(input_domain: Domain, input_metric: Metric) -> Transformation:
    """Make a transformation that keeps few groups of each person, by a hash of their own.

    :param input_domain: of whole numbers
    :param input_metric: of people
    """
    known = described(input_domain, Whole)
    if known.who is None or known.layout.groups is None or known.rows:
        raise ValueError("groups of people are chosen once, before rows, where there are people")

    def function(rows: Any) -> Any:
        return aggregate.few_groups(rows, known.who, known.layout)

    output = _whole_domain(replace(known, groups=True))
    return _step(input_domain, input_metric, output, function, "make_groups_per_person()")


def make_rows_per_person(input_domain: Domain, input_metric: Metric) -> Transformation:
    """Make a transformation that keeps few rows of each person, by a hash of what is used of them.

    :param input_domain: of whole numbers
    :param input_metric: of people
    """
    known = described(input_domain, Whole)
    if known.who is None or known.layout.rows is None:
        raise ValueError("rows of people are chosen where there are people and a bound")

    def function(rows: Any) -> Any:
        return aggregate.few_rows(rows, known.who, known.layout)

    output = _whole_domain(replace(known, rows=True))
    return _step(input_domain, input_metric, output, function, "make_rows_per_person()")


def make_clip_per_person(input_domain: Domain, input_metric: Metric) -> Transformation:
    """Make a transformation that gives each person one record in a group, of clipped sums.

    :param input_domain: of whole numbers
    :param input_metric: of people
    """
    known = described(input_domain, Whole)
    if known.who is None or known.layout.rows is not None:
        raise ValueError("sums of people are clipped where there are people and no bound on rows")

    def function(rows: Any) -> Any:
        return aggregate.clip_people(rows, known.layout)

    output = _whole_domain(replace(known, rows=True))
    return _step(input_domain, input_metric, output, function, "make_clip_per_person()")


def make_tally(input_domain: Domain, input_metric: Metric) -> Transformation:
    """Make a transformation that runs the query: the integers of every group.

    :param input_domain: of whole numbers of which each person has few
    :param input_metric: of people
    """
    known = described(input_domain, Whole)
    layout = known.layout
    if known.who is not None and not known.rows:
        raise ValueError("input_domain must be of rows of which each person has few")
    if layout.groups is not None and not known.groups:
        raise ValueError("input_domain must be of people who are in few groups")
    if known.who is None and layout.rows != 1:
        raise ValueError("without a person every row counts for itself")

    def function(rows: Any) -> Any:
        queries = [aggregate.tally(rows, layout)] if layout.totals or layout.secret else []
        queries += [aggregate.histogram(rows, layout, at) for at in range(len(layout.cuts))]
        found = ask_all(queries)
        first = found.pop(0) if len(found) > len(layout.cuts) else None
        return counted(first, found, layout)

    return make_transformation(
        input_domain,
        input_metric,
        _totals_domain(layout),
        totals_distance(),
        function,
        _same,
        record="make_tally()",
    )


def values(table: Any, columns: Columns) -> dict[str, Any]:
    """The columns of a table as they are computed with.

    :param table: of Ibis
    :param columns: what is known of it
    """
    missing = [name for name in columns.kinds if name not in table.columns]
    if missing:
        raise WarehouseError(f"the table has no column {missing[0]!r} any more")
    return {name: read(table, name, kind) for name, kind in columns.kinds.items()}


then_where = to_then(make_where)
then_derive = to_then(make_derive)
then_join = to_then(make_join)
then_whole_rows = to_then(make_whole_rows)
then_groups_per_person = to_then(make_groups_per_person)
then_rows_per_person = to_then(make_rows_per_person)
then_clip_per_person = to_then(make_clip_per_person)
then_tally = to_then(make_tally)
