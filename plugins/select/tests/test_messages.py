import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opendp_optimal_select import Answer, MessageError, Request, Response
from opendp_optimal_select.messages import (
    FORMAT,
    MAX_ANSWERS,
    MAX_REQUEST_BYTES,
    MAX_RESPONSE_BYTES,
    encode_error,
)

finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=1e-300, max_value=1e300)
items = st.one_of(st.text(max_size=30), st.integers(-(2**62), 2**62))
laplace = st.builds(Request, finite, st.just("laplace"), positive, st.integers(1, MAX_ANSWERS))
gaussian = st.builds(
    Request,
    st.lists(finite, min_size=1, max_size=20).map(tuple),
    st.just("gaussian"),
    positive,
    st.integers(1, MAX_ANSWERS),
)
GOOD = {
    "format": FORMAT,
    "kind": "request",
    "signal": 1.5,
    "noise": "laplace",
    "scale": 1.0,
    "k": 3,
}


@given(st.one_of(laplace, gaussian))
def test_requests_survive_the_journey(request):
    assert Request.decode(request.encode()) == request


@given(
    st.lists(
        st.tuples(items, finite), min_size=1, max_size=30, unique_by=lambda a: (type(a[0]), a[0])
    )
)
def test_responses_survive_the_journey(pairs):
    response = Response(tuple(Answer(item, position) for item, position in pairs))
    assert Response.decode(response.encode(), k=len(pairs)) == response


@given(st.binary(max_size=200))
@example(b"")
@example(b"[" * 60000)
@example(b'{"a":' * 10000)
@example(b"\xff\xfe")
@example(b"9" * 5000)
def test_any_bytes_are_refused_politely(data):
    with pytest.raises(MessageError):
        Request.decode(data)
    with pytest.raises(MessageError):
        Response.decode(data, k=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other/1"}, "format must be"),
        ({"kind": "response"}, "kind must be 'request'"),
        ({"extra": 1}, "exactly the keys"),
        ({"signal": None}, "signal must be a number"),
        ({"signal": True}, "signal must be a number"),
        ({"signal": "1"}, "signal must be a number"),
        ({"signal": 10**400}, "signal must be finite"),
        ({"signal": [1.0]}, "signal must be a number for laplace"),
        ({"signal": []}, "1 to 1000 coordinates"),
        ({"signal": [1.0] * 1001}, "1 to 1000 coordinates"),
        ({"signal": [[1.0]]}, "signal must be a number"),
        ({"noise": "cauchy"}, "noise must be"),
        ({"noise": ["laplace"]}, "noise must be"),
        ({"noise": "gaussian"}, "a list for gaussian"),
        ({"scale": 0}, "scale .* must be above 0"),
        ({"scale": -1}, "scale .* must be above 0"),
        ({"k": 0}, "k must be from 1"),
        ({"k": 1001}, "k must be from 1 to 1000"),
        ({"k": 2.0}, "k must be an integer"),
        ({"k": True}, "k must be an integer"),
    ],
)
def test_malformed_requests(change, message):
    with pytest.raises(MessageError, match=message):
        Request.decode(json.dumps(GOOD | change).encode())


@pytest.mark.parametrize("missing", sorted(GOOD))
def test_missing_keys(missing):
    body = {key: value for key, value in GOOD.items() if key != missing}
    with pytest.raises(MessageError, match="must"):
        Request.decode(json.dumps(body).encode())


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "1e400", "-1e999"])
def test_numbers_that_are_not_finite(constant):
    text = json.dumps(GOOD).replace("1.5", constant)
    with pytest.raises(MessageError, match="finite"):
        Request.decode(text.encode())
    answer = (
        f'{{"format":"{FORMAT}","kind":"response","answers":[{{"item":1,"position":{constant}}}]}}'
    )
    with pytest.raises(MessageError, match="finite"):
        Response.decode(answer.encode(), k=1)


def test_repeated_keys_and_sizes():
    with pytest.raises(MessageError, match="repeat a key"):
        Request.decode(json.dumps(GOOD).replace('"k": 3', '"k": 3, "k": 4').encode())
    with pytest.raises(MessageError, match="at most"):
        Request.decode(b" " * (MAX_REQUEST_BYTES + 1))
    with pytest.raises(MessageError, match="at most"):
        Response.decode(b" " * (MAX_RESPONSE_BYTES + 1), k=1)
    with pytest.raises(MessageError, match="must be bytes"):
        Request.decode("{}")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_own_messages_are_checked_too(value):
    with pytest.raises(MessageError, match="signal must be finite"):
        Request(value, "laplace", 1.0, 1)
    with pytest.raises(MessageError, match="scale must be finite"):
        Request(0.0, "laplace", value, 1)
    with pytest.raises(MessageError, match="position must be finite"):
        Answer("a", value)


@pytest.mark.parametrize(
    ("answers", "k", "message"),
    [
        ([], 1, "a list of 1"),
        ("ab", 2, "a list of 2"),
        ([{"item": "a", "position": 0.0}], 2, "a list of 2"),
        ([{"item": "a"}], 1, "exactly the keys item and position"),
        ([{"item": "a", "position": 0.0, "choice": True}], 1, "exactly the keys"),
        ([["a", 0.0]], 1, "exactly the keys"),
        ([{"item": None, "position": 0.0}], 1, "string or an integer"),
        ([{"item": 1.5, "position": 0.0}], 1, "string or an integer"),
        ([{"item": 2**70, "position": 0.0}], 1, "64 bits"),
        ([{"item": "a" * 1001, "position": 0.0}], 1, "at most 1000 characters"),
        ([{"item": "a", "position": 0.0}] * 2, 2, "distinct"),
    ],
)
def test_malformed_responses(answers, k, message):
    data = json.dumps({"format": FORMAT, "kind": "response", "answers": answers}).encode()
    with pytest.raises(MessageError, match=message):
        Response.decode(data, k=k)


def test_an_error_from_the_server_reaches_the_client():
    with pytest.raises(MessageError, match="the server refused: no such thing"):
        Response.decode(encode_error("no such thing"), k=1)
