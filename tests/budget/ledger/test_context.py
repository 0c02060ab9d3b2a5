"""Contexts behind a ledger: every release is charged first, requests are answered once."""

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_optimal import joint, make_joint, optimal
from opendp_optimal.budget.ledger import open_ledger
from opendp_optimal.budget.ledger.answers import from_bytes, to_bytes
from opendp_optimal.errors import BudgetError
from opendp_optimal.measure import ledgered
from opendp_optimal.measure._opendp import inner_query
from opendp_optimal.measure.anatomy import spaces
from opendp_optimal.measure.facts import plan_digest

dp.enable_features("contrib")

ONE = dp.unit_of(contributions=1)
FLOATS = dp.vector_domain(dp.atom_domain(T=float, nan=False))


@pytest.fixture
def ledger(tmp_path):
    opened = open_ledger(tmp_path / "budgets.db")
    opened.create("census", epsilon=2.0, delta=1e-6)
    yield opened
    opened.verify()
    opened.close()


@pytest.fixture
def context(ledger):
    return ledger.context("census", data=[1.0, 2.0] * 20, privacy_unit=ONE, domain=FLOATS)


def test_every_release_is_charged(ledger, context):
    context.query(epsilon=0.5, delta=2.0**-24).clamp((0.0, 10.0)).sum().optimal().release()
    assert ledger.remaining("census")[0] == 1.5
    assert context.query(epsilon=0.25, delta=0.0).count().laplace().release() > -1000
    assert context.remaining_privacy_loss() == ledger.remaining("census")
    nested = context.query(epsilon=0.25, delta=0.0).compositor(split_evenly_over=2).release()
    nested.query().count().laplace().release()
    assert context.current_privacy_loss()[0] == 1.0
    notes = [entry.detail.get("note", "") for entry in ledger.log() if entry.action == "charge"]
    assert "optimal_noise" in notes[0]
    assert "laplace" in notes[1]


def test_a_refusal_is_not_the_end(ledger, context):
    with pytest.raises(BudgetError):
        context.query(epsilon=5.0, delta=0.0).count().laplace().release()
    context.query(epsilon=2.0, delta=0.0).count().laplace().release()
    assert ledger.remaining("census")[0] == 0.0


def test_a_release_that_fails_is_charged(ledger, context):
    def fails(_):
        raise RuntimeError("no")

    dp.enable_features("honest-but-curious")
    broken = dp.m.make_user_measurement(
        FLOATS,
        dp.symmetric_distance(),
        dp.approximate(dp.max_divergence()),
        fails,
        lambda d: (0.5 * d, 0.0),
        TO="f64",
    )
    with pytest.raises(dp.OpenDPException):
        context(broken)
    assert ledger.remaining("census")[0] == 1.5


def test_a_map_written_over_is_not_believed(ledger, context):
    query = context.query(epsilon=0.5, delta=0.0).count().laplace().resolve()
    query.map = lambda _: (0.0, 0.0)
    context(query)
    assert ledger.remaining("census")[0] == 1.5


def test_a_request_is_answered_once(ledger, context):
    def ask(epsilon=0.5, request="2026-11"):
        query = context.query(epsilon=epsilon, delta=0.0, request=request)
        return query.clamp((0.0, 10.0)).sum().optimal().release()

    first = ask()
    assert [ask(), ask()] == [first, first]
    assert ledger.remaining("census")[0] == 1.5
    other = ledger.context("census", data=[9.0], privacy_unit=ONE, domain=FLOATS)
    stored = other.query(epsilon=0.5, delta=0.0, request="2026-11")
    assert stored.clamp((0.0, 10.0)).sum().optimal().release() == first
    with pytest.raises(ValueError, match="another question"):
        context.query(epsilon=0.5, delta=0.0, request="2026-11").count().laplace().release()
    nested = context.query(epsilon=0.5, delta=0.0, request="x").compositor(split_evenly_over=2)
    with pytest.raises(ValueError, match="queryable"):
        nested.release()
    assert ledger.remaining("census")[0] == 1.5
    assert ask(request="2026-12") != first


def test_questions_that_cannot_be_told_apart_are_not_stored(ledger, context):
    """Functions of a user look the same: nothing is answered in their place, or charged."""
    dp.enable_features("honest-but-curious")
    space = FLOATS, dp.symmetric_distance()
    same = dp.t.make_user_transformation(*space, *space, lambda rows: rows, lambda d: d)
    count = dp.t.make_count(*space) >> dp.m.then_laplace(10.0)
    for odd in (same >> count, count >> (lambda answer: answer + 1)):
        with pytest.raises(ValueError, match="told from others"):
            context(dp.c.make_approximate(odd), request="mine")
    assert ledger.remaining("census")[0] == 2.0
    both = dp.c.make_approximate(dp.c.make_composition([count, count]))
    assert context(both, request="mine") == context(both, request="mine")
    assert ledger.remaining("census")[0] == pytest.approx(1.8)


def test_compositors_under_approximate_concentrated_privacy(ledger):
    """There they compose one after the other only, which nobody can see to over processes."""
    ledger.create("a", rho=1.0, delta=1e-6)
    context = ledger.context("a", data=[1.0], privacy_unit=ONE, domain=FLOATS)
    for split in ({"split_evenly_over": 2}, {}):
        with pytest.raises(ValueError, match="compositor"):
            context.query(rho=0.5, delta=0.0).compositor(**split).release()
    assert ledger.remaining("a")[0] == 1.0


@pytest.mark.parametrize("limit", [{"epsilon": 1.0}, {"rho": 1.0}, {"rho": 1.0, "delta": 1e-6}])
def test_every_measure(ledger, limit):
    ledger.create("a", **limit)
    context = ledger.context("a", data=[1.0, 2.0], privacy_unit=ONE, domain=FLOATS)
    price = {name: value / 4 for name, value in limit.items()}
    count = context.query(**price).count()
    (count.gaussian() if "rho" in limit else count.laplace()).release()
    left = ledger.remaining("a")
    assert (left if isinstance(left, float) else left[0]) <= 1.0 - 0.2


@pytest.mark.slow
def test_polars_queries_are_charged_and_stored(ledger):
    frame = pl.LazyFrame({"town": ["a", "b"] * 50})
    margins = [dp.polars.Margin(by=[], max_length=1000)]
    context = ledger.context("census", data=frame, privacy_unit=ONE, margins=margins)
    query = context.query(epsilon=0.5, delta=0.0, request="towns").select(dp.len(signed=True))
    count = query.resolve()  # OpenDP searches for the scale, for seconds
    context(count).collect()
    assert ledger.remaining("census")[0] == 1.5
    asking = inner_query(query)._context
    assert asking(count).collect().equals(asking(count).collect())
    assert ledger.remaining("census")[0] == 1.0
    plan = object.__getattribute__(query, "polars_plan")
    other = dp.m.make_private_lazyframe(*spaces(count), plan, global_scale=4.5)
    with pytest.raises(ValueError, match="another question"):
        asking(other)
    assert ledger.remaining("census")[0] == 1.0


def test_another_unit_is_refused(ledger, context):
    with pytest.raises(ValueError, match="first context"):
        ledger.context(
            "census", data=[1.0], privacy_unit=dp.unit_of(contributions=2), domain=FLOATS
        )
    with pytest.raises(ValueError, match="positive distance"):
        ledger.context(
            "census", data=[1.0], privacy_unit=dp.unit_of(contributions=0), domain=FLOATS
        )
    again = dp.symmetric_distance(), np.int64(1)
    ledger.context("census", data=[1.0], privacy_unit=again, domain=FLOATS)
    with pytest.raises(ValueError, match="no budget"):
        ledger.context("other", data=[1.0], privacy_unit=ONE, domain=FLOATS)


def test_answers_come_back_as_they_were():
    values = [None, True, 2**70, -0.1, float("inf"), "a", [1, (2.5, "b")], {"k": [1.5]}]
    for value in values:
        assert from_bytes(to_bytes(value)) == value
    for array in (np.array([1.5, np.nan]), np.array([[2**63]], np.uint64), np.float32(0.1)):
        back = from_bytes(to_bytes(array))
        assert back.dtype == array.dtype
        assert np.array_equal(back, array, equal_nan=True)
    with pytest.raises(TypeError, match="cannot be stored"):
        to_bytes(object())


ASKED = {
    "sum": lambda query: query.clamp((0.0, 10.0)).sum().optimal().release(),
    "mean": lambda query: query.optimal_mean((0.0, 10.0)).release(),
    "moments": lambda query: query.optimal_moments((0.0, 10.0)).release(),
    "quantiles": lambda query: query.optimal_quantiles((0.0, 10.0), [0.25, 0.5]).release(),
    "bounds": lambda query: query.optimal_quantiles(None, [0.5]).release(),
    "joint": lambda query: joint(query.count(), query.clamp((0.0, 10.0)).sum()).release(),
    "other joint": lambda query: joint(query.count(), query.clamp((0.0, 9.0)).sum()).release(),
}


@pytest.mark.parametrize("asked", ASKED)
def test_whatever_is_released_can_be_stored(ledger, context, asked):
    """Charged once, and the same when another context asks in other words."""
    again = ledger.context("census", data=[9.0], privacy_unit=ONE, domain=FLOATS)
    first, second = (
        ASKED[asked](each.query(epsilon=0.5, delta=2.0**-24, request="key"))
        for each in (context, again)
    )
    assert repr(first) == repr(second)
    assert type(first) is type(second)
    assert ledger.remaining("census")[0] == 1.5
    for other in ASKED.keys() - {asked}:
        with pytest.raises(ValueError, match="another question"):
            ASKED[other](context.query(epsilon=0.5, delta=2.0**-24, request="key"))
    assert ledger.remaining("census")[0] == 1.5


def test_secret_keys_are_stored(ledger):
    """Which keys there are is drawn once, whatever the data are when it is asked again."""
    ledger.create("words", epsilon=1.0, delta=1e-6)
    texts = dp.vector_domain(dp.atom_domain(T=str))
    first, second = (
        ledger.context("words", data=data, privacy_unit=ONE, domain=texts)
        .query(epsilon=0.5, delta=2.0**-24, request="key")
        .count_by()
        .optimal_threshold()
        .release()
        for data in (["the"] * 500 + ["été"] * 400, ["other"] * 500)
    )
    assert set(first) == {"the", "été"}
    assert first == second
    assert ledger.remaining("words")[0] == 0.5


@pytest.mark.parametrize("limit", [{"epsilon": 1.0, "delta": 1e-6}, {"rho": 1.0}])
def test_optimal_tables_are_stored(ledger, limit):
    """Keys that are made anew are the same keys: Polars numbers its plans in passing."""
    ledger.create("towns", **limit)
    frame = pl.LazyFrame({"town": ["a", "b"] * 50})
    context = ledger.context("towns", data=frame, privacy_unit=ONE)
    price = {name: value / 4 for name, value in limit.items()}

    def ask(towns):
        query = context.query(**price, request="towns").group_by("town").agg(dp.len(signed=True))
        return optimal(query.with_keys(pl.LazyFrame({"town": towns}))).release()

    first = ask(["a", "b"])
    assert ask(["a", "b"]).equals(first)
    with pytest.raises(ValueError, match="another question"):
        ask(["a", "c"])
    left = np.atleast_1d(ledger.remaining("towns"))[0]
    assert left == 0.75


def test_queries_of_one_context_are_asked_together(ledger, context):
    parts = [context.query(epsilon=0.5, delta=0.0) for _ in range(2)]
    answers = joint(parts[0].count(), parts[1].clamp((0.0, 10.0)).sum()).release()
    assert len(answers) == 2
    assert ledger.remaining("census")[0] == 1.5


def test_a_plan_has_one_digest():
    def plan(value=1.0, towns=("a", "b")):
        keys = pl.LazyFrame({"town": towns})
        keys.collect_schema()
        frame = pl.LazyFrame(schema={"town": pl.String, "x": pl.Float64})
        return keys.join(frame.filter(pl.col("x") < value), on="town", how="left")

    assert plan_digest(plan()) == plan_digest(plan())
    others = {plan_digest(plan(2.0)), plan_digest(plan(towns=("a", "c"))), plan_digest(plan())}
    assert len(others) == 3
    with pytest.raises(ValueError, match="finite"):
        plan_digest(plan(float("inf")))


def test_a_request_that_failed_stays_failed(ledger, context, monkeypatch):
    """Whether it fails may depend on the data: a second try would tell more than was paid for."""
    query = dp.c.make_approximate(
        dp.t.make_count(FLOATS, dp.symmetric_distance()) >> dp.m.then_laplace(2.0)
    )

    def fails(*_):
        raise dp.OpenDPException("FailedFunction", "no")

    with monkeypatch.context() as broken:
        broken.setattr(ledgered, "measurement_invoke", fails)
        with pytest.raises(dp.OpenDPException, match="no"):
            context(query, request="key")
    with pytest.raises(ValueError, match="another key"):
        context(query, request="key")
    assert ledger.remaining("census")[0] == 1.5

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(ledgered, "measurement_invoke", interrupted)
        with pytest.raises(KeyboardInterrupt):
            context(query, request="interrupted")
    assert isinstance(context(query, request="interrupted"), int)
    assert ledger.remaining("census")[0] == 1.0


def test_a_unit_that_is_changed_later(ledger):
    """A list of bounds is copied: the price is that of the unit which the ledger knows."""
    bounds = [dp.polars.Bound(by=[], per_group=10)]
    unit = dp.frame_distance(dp.symmetric_distance()), bounds
    frame = pl.LazyFrame({"x": [1.0] * 100})
    context = ledger.context("census", data=frame, privacy_unit=unit)
    bounds[0] = dp.polars.Bound(by=[], per_group=1)
    assert context.d_in[0].per_group == 10
    with pytest.raises(ValueError, match="first context"):
        ledger.context("census", data=frame, privacy_unit=unit)


def test_steps_written_over_are_not_believed(ledger, context):
    steps = [dp.t.make_count(FLOATS, dp.symmetric_distance())]
    together = make_joint(steps, 1, (0.5, 2.0**-24))
    steps[0].map = lambda _: 0
    context(together)
    assert ledger.remaining("census")[0] == 1.5


@pytest.mark.parametrize(
    ("price", "words"),
    [
        ({}, "epsilon must be given"),
        ({"rho": 0.5}, r"rho \(0.5\) must be left out"),
        ({"epsilon": float("nan"), "delta": 0.0}, r"epsilon \(nan\) must be finite"),
        ({"epsilon": -1.0, "delta": 0.0}, r"epsilon \(-1.0\) must be at least 0"),
        ({"epsilon": 0.0, "delta": 0.0}, r"epsilon \(0.0\) must be at least 2\*\*-40"),
        ({"epsilon": 5e-324, "delta": 0.0}, r"epsilon \(5e-324\) must be at least 2\*\*-40"),
        ({"epsilon": 1e300, "delta": 0.0}, r"epsilon \(1e\+300\) must be at most 2\*\*22"),
        ({"epsilon": 0.5, "delta": 2.0}, r"delta \(2.0\) must be below 1"),
    ],
)
@pytest.mark.parametrize("request_key", [None, "key"])
def test_bad_prices_of_a_query(ledger, context, price, words, request_key):
    with pytest.raises(ValueError, match=words):
        context.query(**price, request=request_key)
    assert ledger.remaining("census") == (2.0, 1e-6)


COUNTS = dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T="u32"))
COUNTS_METRIC = dp.l01inf_distance(dp.absolute_distance(T="u32"))


def test_a_unit_of_several_distances(ledger):
    """Tables of counts are told apart by how many keys, how much of all, how much of each."""
    ledger.create("counts", epsilon=100.0, delta=0.01)
    unit = COUNTS_METRIC, (1, 1, 1)
    ask = dp.m.make_laplace_threshold(COUNTS, COUNTS_METRIC, scale=2.0, threshold=30)
    given = {"privacy_unit": unit, "domain": COUNTS}
    first, second = (
        ledger.context("counts", data=data, **given)(ask, request="key")
        for data in ({"a": 900}, {"b": 900})
    )
    assert first == second
    assert set(first) == {"a"}
    queryable = dp.c.make_approximate(
        dp.m.make_alp_queryable(COUNTS, COUNTS_METRIC, scale=2.0, total_limit=24, value_limit=24)
    )
    spent = ledger.budget("counts").spent
    context = ledger.context("counts", data={"a": 1}, **given)
    with pytest.raises(ValueError, match="not a queryable"):
        context(queryable, request="other")
    assert ledger.budget("counts").spent == spent
    for distances, words in (((1, 1, 2), "first context"), ((1, 0, 1), "positive")):
        with pytest.raises(ValueError, match=words):
            ledger.context(
                "counts", data={}, privacy_unit=(COUNTS_METRIC, distances), domain=COUNTS
            )


def test_bits_are_stored(ledger):
    ledger.create("bits", epsilon=100.0)
    bits = dp.bitvector_domain(max_weight=4)
    unit = dp.discrete_distance(), 1
    answers = {
        ledger.context("bits", data=bytes([n] * 8), privacy_unit=unit, domain=bits)(
            dp.m.make_randomized_response_bitvec(bits, dp.discrete_distance(), f=0.95),
            request="key",
        )
        for n in range(4)
    }
    assert len(answers) == 1
    assert len(answers.pop()) == 8


def test_a_count_of_identifiers_is_answered_once(ledger):
    """How many people there are, with a bound on the rows of each."""
    person = dp.unit_of(contributions=1, identifier=pl.col("person"))
    ledger.create("people", epsilon=1.0)

    def ask(people, asked):
        context = ledger.context(
            "people",
            data=pl.LazyFrame({"person": people}),
            privacy_unit=person,
            margins=[dp.polars.Margin(by=[], max_length=1000)],
        )
        query = context.query(epsilon=0.5, request="key").truncate_per_group(2)
        return query.select(asked).release().collect().item()

    count = pl.col("person").n_unique().dp.noise(scale=4.0)
    first = ask([1, 1, 2, 3] * 100, count)
    assert ledger.remaining("people") == 0.5
    assert ask([5], count) == first
    with pytest.raises(ValueError, match="another question"):
        ask([5], dp.len(signed=True))
    assert ledger.remaining("people") == 0.5
