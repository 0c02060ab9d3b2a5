"""Hostile inputs: a few thousand a parser here, a million in ``make trust``."""

import contextlib
import json

import click
import opendp.prelude as dp
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import opendp_optimal
from opendp_optimal import (
    CertificateError,
    Loss,
    TableFormatError,
    make_optimal_bounded_noise,
    make_optimal_noise,
)
from opendp_optimal.cli import run
from opendp_optimal.cli.terminal import listed
from opendp_optimal.spec.problem import NoiseProblem
from opendp_optimal.table import bounded_files, format
from opendp_optimal.testing import audit
from tests.trust import fuzz

dp.enable_features("contrib", "honest-but-curious")
QUICK = settings(max_examples=60, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_a_few_thousand_hostile_inputs(name):
    found = fuzz.run(name, 3000 if "table" not in name else 1000, seed=7)
    assert found.inputs >= 1000
    assert 0 < found.accepted < found.inputs


def test_the_fuzzer_notices_a_crash_and_a_wrong_acceptance(monkeypatch):
    monkeypatch.setattr(format, "MALFORMED", (KeyError,))
    with pytest.raises(fuzz.FuzzError):
        fuzz.run("noise table files", 20_000, seed=7)
    monkeypatch.undo()
    monkeypatch.setattr(format.NoiseTable, "verify", lambda self: None)
    with pytest.raises(fuzz.FuzzError):
        fuzz.run("noise table files", 20_000, seed=7)


def test_inputs_can_be_had_again():
    first, second = (fuzz.run("select requests", 500, seed=3).accepted for _ in range(2))
    assert first == second


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@given(anything)
@QUICK
@example({"version": 1, "problem": {}, "arrays": {}})
def test_any_header_is_refused(header):
    header = header if isinstance(header, dict) else {"version": 1, "x": header}
    header.pop("arrays", None)
    for magic, module in ((format.MAGIC, format), (bounded_files.MAGIC, bounded_files)):
        data = format.seal(magic, {**header, "version": 1}, {})
        with pytest.raises((TableFormatError, CertificateError)):
            module.decode(data)
        with pytest.raises(TableFormatError):
            module.peek(data)


@given(st.binary(max_size=400))
@QUICK
def test_any_bytes_are_no_message(data):
    messages = pytest.importorskip("opendp_optimal_select.messages")
    for decode in (messages.Request.decode, lambda d: messages.Response.decode(d, k=1)):
        with contextlib.suppress(messages.MessageError):
            decode(data)


@given(anything)
@QUICK
def test_any_json_is_no_message(document):
    messages = pytest.importorskip("opendp_optimal_select.messages")
    data = json.dumps(document).encode()
    with pytest.raises(messages.MessageError):
        messages.Request.decode(data)


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), max_size=4))
@QUICK
def test_any_words_end_in_a_documented_exit_code(words):
    # A word that is no command cannot do anything.
    assert run([f"x{words[0] if words else ''}", *words]) == 2
    assert run(["solve", "--no-such", *words]) == 2


@given(st.text(max_size=30))
@QUICK
def test_lists_of_numbers(text):
    try:
        values = listed(text, "epsilon")
    except click.BadParameter:
        return
    assert values
    assert all(isinstance(v, float) for v in values)


# --- constructors: a good object, or ValueError/TypeError; nothing else, and nothing slow ---------

numbers = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.integers(-3, 3),
    st.integers(min_value=2**62),
    st.floats(),
    st.floats(0.0, 1.0),
    st.lists(st.floats(), max_size=2),
)
NOT_BUILT = (ValueError, TypeError)
SPACES = [
    (dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)),
    (dp.atom_domain(T=float), dp.absolute_distance(T=float)),
    (dp.atom_domain(T=int), dp.absolute_distance(T=int)),
    (dp.atom_domain(T=str), dp.discrete_distance()),
    (dp.vector_domain(dp.atom_domain(T=int), 2), dp.l1_distance(T=int)),
    (dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)),
    (None, 3),
]


@given(numbers, numbers, numbers, numbers)
@QUICK
def test_problems(epsilon, delta, support, sensitivity):
    try:
        problem = NoiseProblem(
            epsilon=epsilon, delta=delta, support=support, integer_sensitivity=sensitivity
        )
    except (ValueError, TypeError, OverflowError):
        return
    assert 0 < problem.epsilon <= 32
    assert 0 <= problem.delta < 1


@given(st.sampled_from(SPACES), numbers, st.one_of(numbers, st.tuples(numbers, numbers)))
@QUICK
def test_make_optimal_noise(space, d_in, d_out):
    d_out = _cheap(d_out)
    with contextlib.suppress(*NOT_BUILT):
        made = make_optimal_noise(*space, d_in, d_out, gap=10.0, cache=False)
        assert made.map(d_in) is not None


def _cheap(d_out):
    """Rounded to a few targets, so that hardly anything new is solved."""

    def near(value):
        if isinstance(value, float) and 1e-3 < value < 1:
            return 0.5
        if isinstance(value, float) and 0 < value < 32:
            return 1.0 if value >= 1 else 1e-3
        return value

    return tuple(map(near, d_out)) if isinstance(d_out, tuple) else near(d_out)


@given(st.sampled_from(SPACES), numbers, numbers, st.tuples(numbers, numbers))
@settings(QUICK, max_examples=40)
def test_make_optimal_bounded_noise(space, d_in, epsilon, ends):
    with contextlib.suppress(*NOT_BUILT):
        make_optimal_bounded_noise(
            *space, d_in, (_cheap(epsilon), 0.5), range=ends, bins=2, gap=10.0, cache=False
        )


@given(st.text(max_size=12))
@QUICK
@example("pinball:nan")
@example("pinball:1e999")
@example("custom:a:b")
def test_losses_by_name(name):
    from opendp_optimal.spec.loss import parse

    with contextlib.suppress(ValueError):
        assert isinstance(parse(name), Loss)


@given(numbers, numbers, numbers, numbers)
@QUICK
def test_audit_arguments(epsilon, delta, draws, alarm):
    with contextlib.suppress(*NOT_BUILT):
        few = draws if not isinstance(draws, int) or draws < 0 else 100
        audit(lambda x: x, 0, 1, epsilon, delta, draws=few, alarm=alarm, fork=False)


@pytest.mark.parametrize("name", sorted(opendp_optimal.load_plugins().mechanisms))
@given(data=st.data())
@settings(QUICK, max_examples=40)
def test_constructors_of_plugins(name, data):
    import inspect

    from tests.trust.mechanisms import VALUES

    make = opendp_optimal.load_plugins().mechanisms[name].value
    parameters = list(inspect.signature(make).parameters.values())[2:]
    options = {}
    for parameter in parameters:
        if parameter.default is parameter.empty or data.draw(st.integers(0, 9)) == 0:
            good = st.just(VALUES[parameter.name]) if parameter.name in VALUES else numbers
            options[parameter.name] = data.draw(st.one_of(good, numbers))
    space = data.draw(st.sampled_from(SPACES))
    with contextlib.suppress(*NOT_BUILT, OverflowError, dp.OpenDPException):
        make(*space, **options)


# --- findings -------------------------------------------------------------------------------------


def test_findings_in_regions():
    pytest.importorskip("opendp_optimal_geo.commands")
    from opendp_optimal_geo.commands import _region

    hostile = [
        '{"features": 3}',
        '{"features": null}',
        '{"features": []}',
        '{"features": [3]}',
        '{"a":' * 20_000,
        "[" * 20_000,
        "POLYGON ((0 0, " + "1 1, " * 2000 + "0 0))",  # longer than a file name may be
        "\0",
        "",
    ]
    for text in hostile:
        with pytest.raises(ValueError, match="region"):
            _region(text, None)
    corners = ", ".join(f"{i} {i * i}" for i in range(2000))
    assert _region(f"POLYGON (({corners}, 0 0))", None).area > 0


def test_findings_in_budgets(tmp_path):
    pytest.importorskip("opendp_optimal_geo.state")
    import zlib

    from opendp_optimal_geo.state import FORMAT, load_ledger

    place = tmp_path / "budgets"
    for body in (b"", b"PK\3\4", b"not an archive"):
        header = {
            "format": FORMAT,
            "capacity": ["1", "0"],
            "size": 10**15,
            "settings": {},
            "crc32": zlib.crc32(body),
            "bytes": len(body),
        }
        place.write_bytes(json.dumps(header).encode() + b"\n" + body)
        with pytest.raises(ValueError, match="budgets"):
            load_ledger(place)
