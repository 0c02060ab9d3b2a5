"""Tables of a warehouse, and what is asked of them: each step returns a new value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from opendp.mod import Domain, Metric, Transformation

from opendp_optimal.budget import Ledger
from opendp_optimal.extend import whole
from opendp_optimal_warehouse.asked import (
    check_answers,
    cut_of,
    key_of,
    measured_of,
    secret_key,
)
from opendp_optimal_warehouse.asking import turn_of
from opendp_optimal_warehouse.errors import WarehouseError
from opendp_optimal_warehouse.expressions import Expression
from opendp_optimal_warehouse.kinds import Kind
from opendp_optimal_warehouse.layout import MOST_GROUPS, Key, Layout
from opendp_optimal_warehouse.public import Public, public_frame
from opendp_optimal_warehouse.release import Release
from opendp_optimal_warehouse.steps import (
    Columns,
    described,
    make_derive,
    make_join,
    make_where,
    people_distance,
    table_domain,
)

MOST_ROWS = 1024
_MOST_COLUMNS = 100
Bounds = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """A private table where it lives, and what was decided about it so far.

    Made by :meth:`Warehouse.table`. Nothing is sent to the database before :meth:`release`.

    :param source: of Ibis
    :param ledger: that is charged
    :param name: of the data set's budget in the ledger
    :param columns: what is known of the source
    :param again: opens the source again, to see whether its columns are the same
    """

    source: Any = field(repr=False)
    ledger: Ledger
    name: str
    columns: Columns = field(repr=False)
    again: Callable[[], Any] | None = field(default=None, repr=False)
    _steps: tuple[Transformation, ...] = field(default=(), repr=False)
    _keys: tuple[Key, ...] = field(default=(), repr=False)
    _rows: int | None = None
    _groups: int | None = None
    _group_keys: tuple[str, ...] = ()
    _clip: Any = field(default=None, repr=False)

    @property
    def input_space(self) -> tuple[Domain, Metric]:
        """The domain of the source, and the distance between neighbours."""
        return table_domain(self.columns), people_distance(self.columns.person)

    @property
    def _space(self) -> tuple[Domain, Metric]:
        if not self._steps:
            return self.input_space
        return self._steps[-1].output_domain, self._steps[-1].output_metric

    @property
    def kinds(self) -> dict[str, Kind]:
        """The columns that can be used, derived ones included."""
        known: Columns = described(self._space[0], Columns)
        return dict(known.kinds)

    def where(self, predicate: Expression) -> Table:
        """Keep the rows for which something is true.

        :param predicate: made of comparisons, as ``(col("age") >= 18) & ~col("town").is_missing()``
        """
        return self._after(make_where(*self._space, predicate))

    def derive(self, **columns: Expression) -> Table:
        """Add columns that are computed from each row alone.

        :param columns: what each is, as ``decade=col("age").clamp(0, 119) // 10``
        """
        if not columns:
            raise ValueError("derive needs a column, as decade=col('age').clamp(0, 119) // 10")
        return self._after(make_derive(*self._space, dict(columns)))

    def join(self, public: Any, on: str) -> Table:
        """Add the columns of a public table that has every key once; missing where it has none.

        :param public: from :meth:`Warehouse.public`, or a Polars frame with the column ``on``
        :param on: the column with keys
        """
        known = public if isinstance(public, Public) else public_frame(public, on)
        return self._after(make_join(*self._space, known, on))

    def _after(self, step: Transformation) -> Table:
        if len(self._steps) >= _MOST_COLUMNS:
            raise ValueError(f"a table must have at most {_MOST_COLUMNS} steps")
        return replace(self, _steps=(*self._steps, step))

    def by(self, *names: str, keys: Any = None) -> Table:
        """Release a row for each group.

        :param names: of the columns that groups are made by: texts, whole numbers, truth values or
            dates
        :param keys: the groups, which are public: a list for one column, a dictionary of lists for
            several. Rows of other groups are left out. None: only the data have them, and groups
            of enough people are released
        """
        if self._keys:
            raise ValueError("by must be called once, with all columns")
        if not names or len(set(names)) != len(names):
            raise ValueError(f"names ({names!r}) must be different columns, at least one")
        kinds = self.kinds
        if keys is None:
            return replace(self, _keys=tuple(secret_key(name, kinds) for name in names))
        lists = keys if isinstance(keys, Mapping) else {names[0]: keys}
        if set(lists) != set(names):
            raise ValueError(f"keys must have a list for each of {', '.join(names)}")
        made = tuple(key_of(name, lists[name], kinds) for name in names)
        size = Layout(made, (), True, True, 1, None).size or 0
        if size > MOST_GROUPS:
            raise ValueError(f"keys ({size} groups) must make at most {MOST_GROUPS} groups")
        return replace(self, _keys=made)

    def rows_per_person(self, count: int) -> Table:
        """Use at most so many rows of each person, chosen by a hash of the person's own rows.

        :param count: of rows
        """
        self._need_people("rows_per_person")
        if self._rows is not None or self._clip is not None:
            raise ValueError("rows_per_person must be called once, and not with clip_per_person")
        return replace(self, _rows=whole("count", count, most=MOST_ROWS))

    def groups_per_person(self, count: int, by: str | Iterable[str] | None = None) -> Table:
        """Use rows of at most so many groups of each person, chosen by a hash.

        :param count: of groups
        :param by: the columns that these groups are made by; those of :meth:`by` by default
        """
        self._need_people("groups_per_person")
        if self._groups is not None:
            raise ValueError("groups_per_person must be called once")
        names = () if by is None else (by,) if isinstance(by, str) else tuple(by)
        most = whole("count", count, most=MOST_ROWS)
        return replace(self, _groups=most, _group_keys=names)

    def clip_per_person(self, *, sum: Bounds | None = None, rows: int | None = None) -> Table:
        """Use all rows of each person, and clip what they add up to in a group.

        :param sum: bounds of a person's sum in a group, for each column that is summed
        :param rows: a person counts for at most so many rows in a group; needed to count rows
        """
        self._need_people("clip_per_person")
        if self._rows is not None or self._clip is not None:
            raise ValueError("clip_per_person must be called once, and not with rows_per_person")
        if sum is not None and not isinstance(sum, Mapping):
            raise ValueError(f"sum ({sum!r}) must be a dictionary: bounds for each column")
        most = None if rows is None else whole("rows", rows, most=1 << 20)
        return replace(self, _clip=(dict(sum or {}), most))

    def check_unchanged(self) -> None:
        """Refuse a source whose columns are not those it was opened with; nothing is charged."""
        if self.again is None:
            return
        with turn_of(self.source.get_backend()):
            now = self.again()
        if now.schema() != self.source.schema():
            raise WarehouseError(
                "the table has other columns than when it was opened: open it again"
            )

    def _need_people(self, what: str) -> None:
        if self.columns.person is None:
            raise ValueError(f"{what} needs a table with a person")

    def release(
        self,
        *,
        people: bool = False,
        count: bool = False,
        sums: Bounds | None = None,
        means: Bounds | None = None,
        variances: Bounds | None = None,
        quantiles: Mapping[str, Any] | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        request: str | None = None,
        progress: Callable[[], None] | None = None,
    ) -> Any:
        """Charge the ledger, ask the database, add noise: one table, one price.

        :param people: count people in each group
        :param count: count rows in each group
        :param sums: bounds of the values of each column that is summed; values are clamped to them
        :param means: bounds, for each column whose mean is asked for
        :param variances: bounds, for each column whose variance is asked for
        :param quantiles: ``(low, high, probabilities)``, for each column
        :param epsilon: the price
        :param delta: the price
        :param rho: the price, in place of epsilon and delta
        :param request: a key under which the answer is stored: asked again, the same answer comes
            back and nothing is charged
        :param progress: called again and again while the database works
        :returns: a Polars frame: the keys, and for each answer its value, ``<name>_accuracy``,
            which the noise stays within with a chance of 95 %, and the interval that follows,
            ``<name>_lower`` to ``<name>_upper``
        """
        prepared = self.prepare(
            people=people,
            count=count,
            sums=sums,
            means=means,
            variances=variances,
            quantiles=quantiles,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
        )
        return prepared.run(request=request, progress=progress)

    def explain(self, **asked: Any) -> str:
        """The SQL, what a person can change and why, the noise and the price; nothing is charged.

        :param asked: as for :meth:`release`
        """
        return self.prepare(**asked).explain()

    def prepare(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        **asked: Any,
    ) -> Release:
        """What :meth:`release` would do, checked: with its measurement, and an explanation.

        :param epsilon: as for :meth:`release`, as all others
        """
        return Release.of(self, self.layout(**asked), epsilon, delta, rho)

    def layout(
        self,
        *,
        people: bool = False,
        count: bool = False,
        sums: Bounds | None = None,
        means: Bounds | None = None,
        variances: Bounds | None = None,
        quantiles: Mapping[str, Any] | None = None,
    ) -> Layout:
        """The integers that are asked for, and how far a person moves them.

        :param people: as for :meth:`release`, as all others
        """
        sums, means, variances = sums or {}, means or {}, variances or {}
        cuts = quantiles or {}
        kinds = self.kinds
        asked = {"sums": sums, "means": means, "variances": variances}
        for name, bounds in {**asked, "quantiles": cuts}.items():
            if not isinstance(bounds, Mapping):
                raise ValueError(f"{name} ({bounds!r}) must be a dictionary: bounds by column")
        if people:
            self._need_people("people")
        rows_needed = bool(count or sums or means or variances or cuts)
        if not (people or rows_needed):
            raise ValueError(
                "nothing is asked for: people, count, sums, means, variances or quantiles"
            )
        rows, clip = self._rows, self._clip
        if self.columns.person is None:
            rows = 1
        elif rows is None and clip is None:
            if rows_needed:
                raise ValueError("say how many rows_per_person, or clip_per_person")
            clip = {}, None  # people alone: once in a group
        if clip is not None and (means or variances or cuts):
            raise ValueError(
                "means, variances and quantiles need rows_per_person, not clip_per_person"
            )
        if clip is not None and count and clip[1] is None:
            raise ValueError("count needs clip_per_person(rows=...)")
        names = list(dict.fromkeys([*sums, *means, *variances]))
        columns = tuple(
            measured_of(name, kinds, asked, None if clip is None else clip[0]) for name in names
        )
        made = Layout(
            self._keys,
            columns,
            people,
            count,
            rows,
            self._groups,
            self._checked_groups(),
            None if clip is None or not count else clip[1],
            tuple(cut_of(name, cuts[name], kinds) for name in cuts),
            self.columns.person is None,
        )
        check_answers(made)
        if rows is None and (made.person_groups is None or made.person_groups > MOST_ROWS):
            raise ValueError("say how many groups_per_person, among all columns of by(...)")
        return made

    def _checked_groups(self) -> tuple[str, ...]:
        names = [key.name for key in self._keys]
        if self._groups is None:
            return ()
        unknown = [name for name in self._group_keys if name not in names]
        if unknown or not names:
            raise ValueError(f"groups_per_person needs columns of by(...), not {unknown}")
        return self._group_keys or tuple(names)
