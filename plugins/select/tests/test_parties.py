import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal_select import (
    Answer,
    Catalogue,
    Client,
    FeatureClient,
    FeatureSpace,
    MessageError,
    Request,
    Response,
    Server,
)

PAGES = Catalogue(range(200), [f"page {i}" for i in range(200)])


@pytest.mark.parametrize("k", [1, 2, 3, 10])
def test_client_and_server_talk(k):
    sent = []
    server = Server(PAGES)

    def transport(data):
        sent.append(data)
        return server.handle(data)

    answer = Client(epsilon=1.0, k=k).ask(100.25, transport)
    assert str(answer.item).startswith("page ")
    assert len(sent) == 1
    assert set(json.loads(sent[0])) == {"format", "kind", "signal", "noise", "scale", "k"}


def test_client_picks_by_its_own_disutility():
    response = Response((Answer("near", 1.0), Answer("far", 9.0)))
    assert Client(1.0, 2).choose(2.0, response).item == "near"
    assert Client(1.0, 2, preference=lambda v, a: -a.position).choose(2.0, response).item == "far"


def test_answers_are_distinct_however_far_the_signal():
    server = Server(Catalogue([0.0, 1.0, 2.0, 3.0], list("abcd")))
    for signal in (-1e9, 0.0, 1.5, 1e9, 1e308, -1e308):
        for scale in (1e-9, 1.0, 1e9):
            for k in (1, 2, 3, 4):
                response = server.respond(Request(signal, "laplace", scale, k))
                assert len({a.item for a in response.answers}) == k


def test_unrestricted_results_cost_no_more():
    """Theorem A.2: the disutility of OPT(s + a) never exceeds that of s + a itself."""
    boundaries = np.array([-3.0, -1.0, 2.0, 2.5])
    opt = Catalogue(range(5), optimum=lambda v: np.searchsorted(boundaries, v))
    low, high = np.append(-np.inf, boundaries), np.append(boundaries, np.inf)
    client, server = Client(1.0, 3), Server(Catalogue(range(5), list("abcde"), opt.optimum))
    for value in np.linspace(-5.0, 5.0, 25):
        request = client.privatise(float(value))
        steps = (-math.log(4), 0.0, math.log(4))
        restricted = min(abs(value - request.signal - a) for a in steps)
        best = math.inf
        for answer in server.respond(request).answers:
            i = "abcde".index(str(answer.item))
            best = min(best, max(low[i] - value, value - high[i], 0.0))
        assert best <= restricted + 1e-12


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "7", None, True, 10**400])
def test_bad_values_are_refused_without_being_shown(value):
    with pytest.raises(ValueError, match=r"^value must be a finite number$"):
        Client(1.0, 1).privatise(value)
    with pytest.raises(ValueError, match=r"^value must be a finite number$"):
        FeatureClient(1.0, 3, 1).privatise([value])


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request(0.0, "laplace", 1.0, 101), r"k \(101\) must be at most 100"),
        (Request((0.0,), "gaussian", 1.0, 3), "noise must be 'laplace'"),
        (Request(1.7e308, "laplace", 2e307, 9), "keep every answer finite"),
        (Request(0.0, "laplace", 1e-320, 9), "must be one this server can answer"),
    ],
)
def test_server_refuses(request_, message):
    server = Server(PAGES)
    with pytest.raises(MessageError, match=message):
        server.respond(request_)
    reply = json.loads(server.handle(request_.encode()))
    assert reply["kind"] == "error"


def test_server_refuses_k_beyond_the_catalogue():
    with pytest.raises(MessageError, match=r"k \(3\) must be at most 2"):
        Server(Catalogue([1.0, 2.0], ["a", "b"])).respond(Request(0.0, "laplace", 1.0, 3))


def test_client_refuses_a_short_or_foreign_answer():
    client = Client(1.0, 2)
    with pytest.raises(MessageError, match="a list of 2"):
        client.ask(1.0, lambda data: Response((Answer("a", 1.0),)).encode())
    with pytest.raises(MessageError, match="must be JSON"):
        client.ask(1.0, lambda data: b"<html>")
    with pytest.raises(MessageError, match="position must be a number"):
        client.choose(1.0, Response((Answer("a", (1.0, 2.0)),)))


def test_disutility_of_the_server():
    server = Server(Catalogue(np.arange(-50, 50) / 10, list(range(100))), disutility=math.sqrt)
    assert len(server.respond(Request(0.0, "laplace", 1.0, 5)).answers) == 5
    growing = Server(PAGES, disutility=lambda t: math.expm1(0.5 * t))
    with pytest.raises(MessageError, match="must be one this server can answer"):
        growing.respond(Request(0.0, "laplace", 10.0, 3))


def test_features():
    rng = np.random.default_rng(3)
    space = FeatureSpace(rng.normal(size=(80, 4)), directions=2)
    client, server = FeatureClient(0.5, 9, 4), Server(space)
    answer = client.ask([0.1, 0.2, 0.3, 0.4], server.handle)
    assert len(answer.position) == 4
    with pytest.raises(MessageError, match="odd number, 3 or more, to the power 2"):
        FeatureClient(0.5, 8, 4).ask([0.0] * 4, server.handle)
    with pytest.raises(MessageError, match="must have 4 coordinates"):
        FeatureClient(0.5, 9, 3).ask([0.0] * 3, server.handle)
    with pytest.raises(ValueError, match="value must have 4 features"):
        client.privatise([0.0] * 3)
    for far, scale in ((1.7e308, 1e308), (1e200, 1.0), (-1e300, 1e-3)):
        # The ends of the floats are far away, and no more than that.
        assert len(server.respond(Request((far,) * 4, "gaussian", scale, 9)).answers) == 9


def test_bad_parties():
    with pytest.raises(ValueError, match=r"k \(0\) must be in \[1, 1000\]"):
        Client(1.0, 0)
    with pytest.raises(ValueError, match=r"epsilon \(-1.0\) must be positive"):
        Client(-1.0, 1)
    with pytest.raises(ValueError, match="must be a Catalogue or a FeatureSpace"):
        Server([1.0])
    with pytest.raises(ValueError, match="must not decrease"):
        Server(PAGES, disutility=lambda t: -t)
    with pytest.raises(ValueError, match=r"items \(of type float\) must be str or int"):
        Server(Catalogue([1.5, 2.5]))
    with pytest.raises(ValueError, match="at most 1000 characters"):
        Server(Catalogue([1.5, 2.5], ["a", "b" * 1001]))
    for items in ([1, 2**63], [-(2**63), 1], range(2**63 - 1, 2**63 + 1)):
        with pytest.raises(ValueError, match="must fit in 64 bits"):
            Server(Catalogue([1.5, 2.5], items))


@pytest.mark.parametrize("value", [Decimal("0.5"), Fraction(1, 2), np.float32(0.5), 1, True])
def test_whatever_can_be_released_can_be_compared(value):
    """Nobody pays for a signal whose answers cannot be told apart."""
    client = Client(1.0, 2)
    server = Server(Catalogue(range(5), [f"page {i}" for i in range(5)]))
    if value is True:
        with pytest.raises(ValueError, match="value must be a finite number"):
            client.ask(value, server.handle)
        return
    near = client.choose(value, server.respond(Request(0.5, "laplace", 1.0, 5)))
    assert near.position in (0, 1)
    assert client.ask(value, server.handle).item.startswith("page ")


@pytest.mark.parametrize(
    "value", [5.0, None, (x for x in (1.0, 2.0)), np.float64(1.0), [[1.0], [2.0]]]
)
def test_features_are_a_list(value):
    with pytest.raises(ValueError, match="value must be"):
        FeatureClient(1.0, 9, 2).privatise(value)
