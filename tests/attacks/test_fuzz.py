"""Hostile inputs: a few thousand a parser here, a million in ``make trust``."""

import contextlib
import json

import click
import opendp.prelude as dp
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from opendp_optimal import (
    CertificateError,
    NoiseTable,
    TableFormatError,
)
from opendp_optimal.cli import run
from opendp_optimal.cli.terminal import listed
from opendp_optimal.table.files import container
from opendp_optimal.table.files.bounded import KIND as BOUNDED
from opendp_optimal.table.files.noise import KIND as NOISE
from tests.attacks import fuzz

dp.enable_features("contrib", "honest-but-curious")
QUICK = settings(max_examples=60, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_a_few_thousand_hostile_inputs(name):
    found = fuzz.run(name, 3000 if "table" not in name else 1000, seed=7)
    assert found.inputs >= 1000
    assert 0 < found.accepted < found.inputs


def test_the_fuzzer_notices_a_crash_and_a_wrong_acceptance(monkeypatch):
    monkeypatch.setattr(container, "_MALFORMED", (KeyError,))
    with pytest.raises(fuzz.FuzzError):
        fuzz.run("noise table files", 20_000, seed=7)
    monkeypatch.undo()
    monkeypatch.setattr(NoiseTable, "verify", lambda self: None)
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
    for kind in (NOISE, BOUNDED):
        data = kind.seal({**header, "version": 1}, {})
        with pytest.raises((TableFormatError, CertificateError)):
            kind.decode(data)
        with pytest.raises(TableFormatError):
            kind.peek(data)


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


# --- findings -------------------------------------------------------------------------------------


def test_findings_in_regions():
    pytest.importorskip("opendp_optimal_geo.arguments")
    from opendp_optimal_geo.arguments import read_region

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
            read_region(text, None)
    corners = ", ".join(f"{i} {i * i}" for i in range(2000))
    assert read_region(f"POLYGON (({corners}, 0 0))", None).area > 0


HOSTILE_CSV = b"x,y\n1," + b'"' + b"z" * 140_000 + b'"\n'  # longer than a field may be


def test_findings_in_points(tmp_path):
    files = pytest.importorskip("opendp_optimal_geo.files")
    import gzip

    whole = gzip.compress(b"x,y\n1,2\n")
    for name, data in (
        ("points.csv", HOSTILE_CSV),
        ("points.csv.gz", whole[:-4]),
        ("points.csv.gz", whole[:12] + b"\xff" + whole[13:]),
        ("points.csv.gz", b"not packed"),
        ("points.parquet", b""),
        ("points.parquet", b"PAR1" + b"\0" * 40 + b"PAR1"),
    ):
        place = tmp_path / name
        place.write_bytes(data)
        with pytest.raises(ValueError, match="points"):
            files.read_columns(place, ["x", "y"])


def test_findings_in_data(tmp_path):
    import gzip

    income = pytest.importorskip("docs.reproduce.fernandes.income")
    (tmp_path / "income").mkdir()
    place = tmp_path / "income" / "pums_oregon_hincp.csv"
    for data in (b"", b"HINCP\n", b"HINCP\nx\n", b"HINCP\ninf\n", b"other\n1\n", HOSTILE_CSV):
        place.write_bytes(data)
        with pytest.raises(ValueError, match="pums_oregon"):
            income.read_incomes(tmp_path, "oregon")
    datasets = pytest.importorskip("docs.reproduce.liang.datasets")
    images = tmp_path / "images.gz"
    for data in (b"", b"no", gzip.compress(b""), gzip.compress(b"\0\0\x08\x03" + b"\0" * 12)):
        images.write_bytes(data)
        with pytest.raises(ValueError, match="images"):
            datasets._idx(images)
    commands = pytest.importorskip("opendp_optimal_select.commands")
    items = tmp_path / "items.csv"
    items.write_bytes(b"item,position\n" + HOSTILE_CSV)
    with pytest.raises(ValueError, match="items"):
        commands._read_catalogue(items)
