"""The reference service over a real socket on the loopback address."""

import http.client
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest

from opendp_optimal_select import Catalogue, Client, MessageError, Request, Response, Server
from opendp_optimal_select.messages import MAX_REQUEST_BYTES
from opendp_optimal_select.service import http_transport

pytest.importorskip("starlette", reason="the extra opendp-optimal-select[service] is not installed")
uvicorn = pytest.importorskip(
    "uvicorn", reason="the extra opendp-optimal-select[service] is not installed"
)

PATIENCE = 10.0


@contextmanager
def serving(server, **limits):
    """Run the service on a free port, as the command does, and give the port."""
    from opendp_optimal_select.guard import guarded
    from opendp_optimal_select.service import application

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        application(server, read_seconds=0.5),
        http=guarded(**limits),
        log_level="critical",
        lifespan="off",
        ws="none",
    )
    runner = uvicorn.Server(config)
    thread = threading.Thread(target=runner.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + PATIENCE
    while not runner.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        assert runner.started
        yield listener.getsockname()[1]
    finally:
        runner.should_exit = True
        thread.join(PATIENCE)
        listener.close()
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def port():
    with serving(Server(Catalogue(range(1000), [f"item {i}" for i in range(1000)]))) as number:
        yield number


def post(port, body, kind="application/json", path="/select", method="POST"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, {"content-type": kind})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def test_a_client_asks_over_the_network(port):
    transport = http_transport(f"http://127.0.0.1:{port}")
    for k in (1, 3, 8):
        answer = Client(epsilon=0.5, k=k).ask(500.0, transport)
        assert str(answer.item).startswith("item ")


GOOD = Request(500.0, "laplace", 2.0, 3).encode()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\x00", 400),
        (b"[" * 50000, 400),
        (GOOD.replace(b"500.0", b"NaN"), 400),
        (GOOD.replace(b"500.0", b"1e400"), 400),
        (GOOD.replace(b'"k":3', b'"k":0'), 400),
        (GOOD.replace(b'"k":3', b'"k":101'), 400),
        (GOOD.replace(b'"k":3', b'"k":3,"choice":1'), 400),
        (b" " * (MAX_REQUEST_BYTES + 1), 413),
        (b" " * (40 * MAX_REQUEST_BYTES), 413),
    ],
)
def test_bad_messages_get_an_error_and_the_service_goes_on(port, body, status):
    try:
        found, reply = post(port, body)
    except (BrokenPipeError, ConnectionResetError):
        # The service hung up in the middle of an oversized body, as it may.
        assert status == 413
    else:
        assert found == status
        with pytest.raises(MessageError, match="the server refused"):
            Response.decode(reply, k=3)
    found, reply = post(port, GOOD)
    assert found == 200
    assert len(Response.decode(reply, k=3).answers) == 3


def test_other_doors_are_closed(port):
    assert post(port, GOOD, kind="text/plain")[0] == 415
    assert post(port, None, path="/health", method="GET")[0] == 200
    assert post(port, None, method="GET")[0] == 405
    assert post(port, GOOD, path="/other")[0] == 404


def test_half_a_request_times_out_and_the_service_goes_on(port):
    head = b"POST /select HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as sock:
        sock.sendall(head + b"content-length: 100\r\n\r\n{")
        assert b" 408 " in sock.recv(4096)
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as sock:
        sock.sendall(b"\x00\x01\x02 nonsense\r\n\r\n")
        assert b"400" in sock.recv(4096)
    assert post(port, GOOD)[0] == 200


HALVES = {
    "nothing": b"",
    "half a head": b"POST /select HTTP/1.1\r\nhost: x\r\n",
    "half a body": b"POST /select HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    b"content-length: 100\r\n\r\n{",
    "one request, then nothing": b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n",
}


@pytest.mark.parametrize("half", HALVES)
def test_an_honest_client_is_answered_beside_300_half_open_connections(port, half):
    with ExitStack() as stack:
        for _ in range(300):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            sock.sendall(HALVES[half])
        for _ in range(3):
            assert post(port, GOOD)[0] == 200


def test_who_never_reads_the_answer_makes_room():
    items = [f"{i:0>900}" for i in range(1000)]
    large = Request(500.0, "laplace", 2.0, 1000).encode()
    head = b"POST /select HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    whole = head + b"content-length: %d\r\n\r\n" % len(large) + large
    server = Server(Catalogue(range(1000), items), max_answers=1000)
    with serving(server, most=4) as number, ExitStack() as stack:
        for _ in range(8):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", number))
            sock.sendall(whole)
        assert post(number, GOOD)[0] == 200


def test_time_is_limited():
    with serving(Server(Catalogue([1.0], ["a"])), seconds=0.3) as number:
        for half in (b"", HALVES["half a head"]):
            with socket.create_connection(("127.0.0.1", number), timeout=PATIENCE) as sock:
                sock.sendall(half)
                with suppress(ConnectionResetError):
                    assert sock.recv(10) == b""
        assert post(number, GOOD.replace(b'"k":3', b'"k":1'))[0] == 200


def test_a_connection_is_used_again(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    for _ in range(3):
        connection.request("POST", "/select", GOOD, {"content-type": "application/json"})
        assert connection.getresponse().read()
    connection.close()


def test_a_failure_inside_shows_nothing_and_the_service_goes_on():
    class Broken(Server):
        def respond(self, request):
            if request.k == 1:
                raise RuntimeError("secret")
            return super().respond(request)

    with serving(Broken(Catalogue([1.0, 2.0, 3.0], ["a", "b", "c"]))) as number:
        status, reply = post(number, GOOD.replace(b'"k":3', b'"k":1'))
        assert status == 500
        assert b"secret" not in reply
        assert post(number, GOOD)[0] == 200


@pytest.mark.process
def test_two_processes(tmp_path):
    """The command that serves, as a process of its own, and a client here."""
    path = tmp_path / "inns.csv"
    path.write_text("item,position\n" + "".join(f"inn {i},{i}\n" for i in range(100)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    options = ["select", "serve", "--catalogue", str(path), "--port", str(number)]
    code = f"from opendp_optimal.cli import main; main({options!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 6 * PATIENCE
        while True:
            try:
                assert post(number, None, path="/health", method="GET")[0] == 200
                break
            except ConnectionError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        answer = Client(epsilon=1.0, k=3).ask(50.0, http_transport(f"http://127.0.0.1:{number}"))
        assert str(answer.item).startswith("inn ")
        assert post(number, b"{")[0] == 400
        assert post(number, GOOD)[0] == 200
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()


def test_transport_errors():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = free.getsockname()[1]
    with pytest.raises(ConnectionError, match="no answer from the service"):
        http_transport(f"http://127.0.0.1:{nobody}", timeout=2.0)(b"{}")
    with pytest.raises(ValueError, match=r"url \('ftp://x'\) must be http"):
        http_transport("ftp://x")
