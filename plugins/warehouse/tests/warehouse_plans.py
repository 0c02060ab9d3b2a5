"""Random plans: what is asked of the hostile rows, in every way that the plugin allows."""

from dataclasses import dataclass, field
from datetime import date, datetime

from hypothesis import strategies as st

from opendp_optimal_warehouse import col
from opendp_optimal_warehouse.public import public_frame

TOWNS = ["Bern", "bern", "Zürich", "Zu\u0308rich", "O'Hara\\", "", "東京", "\U0001f3d4", "nobody"]
NUMBERS = [-2.5, 0, 0.1, 0.30000000000000004, 1.5, 50, 1e300]


@dataclass
class Plan:
    """A plan, to be made of a table."""

    person: str | None
    wheres: list = field(default_factory=list)
    derived: dict = field(default_factory=dict)
    by: tuple = ()
    keys: dict = field(default_factory=dict)
    rows: int | None = None
    groups: tuple | None = None
    clip: dict | None = None
    asked: dict = field(default_factory=dict)
    public: object = None

    def of(self, table):
        """The table with all steps but the release."""
        if self.public is not None:
            table = table.join(self.public, "town")
        if self.derived:
            table = table.derive(**self.derived)
        for predicate in self.wheres:
            table = table.where(predicate)
        if self.by:
            table = table.by(*self.by, keys=self.keys or None)
        if self.groups:
            table = table.groups_per_person(self.groups[0], by=self.groups[1])
        if self.rows is not None and self.person:
            table = table.rows_per_person(self.rows)
        if self.clip is not None:
            table = table.clip_per_person(**self.clip)
        return table


numbers = st.sampled_from(["income", "small"])
wholes = st.one_of(
    st.sampled_from([col("age"), col("must"), col("long")]),
    st.tuples(
        st.sampled_from(["income", "age", "long", "small"]),
        st.integers(-300, 0),
        st.integers(1, 300),
    ).map(lambda t: col(t[0]).clamp(t[1], t[2])),
    st.sampled_from(["day", "at"]).flatmap(
        lambda n: st.sampled_from(["year", "month", "day", "weekday"]).map(
            lambda part: getattr(col(n), part)()
        )
    ),
    st.sampled_from([col("at").hour(), col("at").minute()]),
    numbers.map(lambda n: col(n).bins([-1.5, 0, 0.1, 99.5])),
    st.just(col("town").lookup({"Bern": 3, "東京": -4, "": 12})),
)
small = wholes.map(lambda x: x.clamp(-1000, 1000))
computed = st.one_of(
    wholes,
    st.tuples(small, small).map(lambda t: t[0] + t[1] * 3 - 7),
    st.tuples(small, st.integers(1, 17)).map(lambda t: t[0] // t[1]),
    st.tuples(small, st.integers(1, 17)).map(lambda t: -t[0] % t[1]),
    st.tuples(small, small).map(lambda t: t[0] * t[1]),
)
simple = st.one_of(
    st.tuples(numbers, st.sampled_from(NUMBERS)).map(lambda t: col(t[0]) >= t[1]),
    st.tuples(numbers, st.sampled_from(NUMBERS)).map(lambda t: col(t[0]) != t[1]),
    st.tuples(computed, st.integers(-50, 50)).map(lambda t: t[0] < t[1]),
    st.tuples(computed, computed).map(lambda t: t[0] <= t[1]),
    st.lists(st.sampled_from(TOWNS), min_size=1, max_size=4).map(lambda v: col("town").isin(v)),
    st.sampled_from(TOWNS).map(lambda v: col("town") != v),
    st.just(col("flag")),
    st.sampled_from(["income", "small", "age", "town", "day", "at"]).map(
        lambda n: col(n).is_missing()
    ),
    st.just(col("day").between(date(1900, 1, 1), date(2100, 1, 1))),
    st.just(col("at") > datetime(1970, 1, 1, 0, 0, 0, 1)),
)
predicates = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda t: t[0] & t[1]),
        st.tuples(inner, inner).map(lambda t: t[0] | t[1]),
        inner.map(lambda p: ~p),
    ),
    max_leaves=4,
)
PUBLIC = public_frame(
    {
        "town": [*TOWNS[:5], "elsewhere"],
        "land": ["a", "a", "b'\\", "", None, "c"],
        "height": [0.1, -2.5, None, 1e300, 5e-324, 7],
        "rank": [3, -(2**40), 2**40, 0, None, 1],
    },
    "town",
)
BOUNDS = [(0, 100), (-1, 1), (0.1, 0.7), (-1e6, 3.5), (100, 101), (0, 1e18), (-1e-9, 1e-9)]


@st.composite
def plans(draw, person=("pid", "name", None)):
    """Anything that a table can be asked."""
    plan = Plan(draw(st.sampled_from(list(person))))
    plan.derived = draw(st.dictionaries(st.sampled_from(["new", "more"]), computed, max_size=2))
    plan.wheres = draw(st.lists(predicates, max_size=2))
    plan.keys = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "town": st.lists(st.sampled_from(TOWNS), min_size=1, max_size=5, unique=True),
                "flag": st.just([True, False]),
                "must": st.just([0, 5, 2**31 - 1]),
                "day": st.just([date(2020, 2, 29), date(9999, 12, 31)]),
            },
        )
    )
    plan.by = tuple(plan.keys)
    if draw(st.booleans()):
        plan.public = PUBLIC
    if plan.by and draw(st.booleans()):
        plan.keys = {}
        if plan.public is not None:
            plan.by = (*plan.by, "land")
    bounds = st.sampled_from(BOUNDS)
    columns = ["income", "small", "age", "must", "long", "flag", *plan.derived]
    columns += ["height", "rank"] if plan.public is not None else []
    asked = draw(st.dictionaries(st.sampled_from(columns), bounds, max_size=3))
    if plan.person and plan.by and draw(st.booleans()):
        some = st.lists(st.sampled_from(plan.by), min_size=1, unique=True)
        by = draw(st.one_of(st.none(), some)) if plan.keys else None
        plan.groups = draw(st.integers(1, 3)), by
    how = {name: draw(st.sampled_from(["sums", "means", "variances"])) for name in asked}
    if plan.person and draw(st.booleans()) and (plan.keys or plan.groups or not plan.by):
        limits = {name: draw(st.sampled_from([(0, 150), (-3.5, 40), (0, 1e19)])) for name in asked}
        plan.clip = {"sum": limits, "rows": draw(st.integers(1, 4))}
        how = dict.fromkeys(asked, "sums")
    else:
        plan.rows = draw(st.integers(1, 5))
        cut = draw(st.dictionaries(st.sampled_from(columns), bounds, max_size=2))
        plan.asked["quantiles"] = {name: (*ends, [0.5]) for name, ends in cut.items()}
    for name, what in how.items():
        plan.asked.setdefault(what, {})[name] = asked[name]
    plan.asked["count"] = True
    plan.asked["people"] = plan.person is not None and draw(st.booleans())
    return plan
