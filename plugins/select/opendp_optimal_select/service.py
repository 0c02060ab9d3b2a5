"""A reference service: the server of :mod:`opendp_optimal_select.parties` over HTTP.

``POST /select`` takes a request and returns a response; ``GET /health`` says that it runs. Needs
the extra ``service`` (Starlette and uvicorn); :func:`http_transport` needs nothing.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opendp_optimal.extend import positive
from opendp_optimal_select.messages import (
    MAX_REQUEST_BYTES,
    MAX_RESPONSE_BYTES,
    MessageError,
    Request,
    encode_error,
)
from opendp_optimal_select.parties import Server, Transport

if TYPE_CHECKING:
    import starlette.requests
    from starlette.applications import Starlette
    from starlette.responses import Response

logger = logging.getLogger(__name__)

READ_SECONDS = 10.0
MAX_HEAD_BYTES = 16 * 1024


def application(server: Server, *, read_seconds: float = READ_SECONDS) -> Starlette:
    """Return the ASGI application that serves ``server``.

    :param server: answers the requests
    :param read_seconds: how long a client may take to send its request
    """
    try:
        from starlette.applications import Starlette
        from starlette.requests import ClientDisconnect
        from starlette.responses import Response
        from starlette.routing import Route
    except ImportError as error:
        raise ImportError("the service needs the extra: opendp-optimal-select[service]") from error

    def reply(status: int, body: bytes) -> Response:
        return Response(body, status_code=status, media_type="application/json")

    async def select(request: starlette.requests.Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return reply(415, encode_error("content-type must be application/json"))
        try:
            body = await asyncio.wait_for(_read(request), read_seconds)
        except TimeoutError:
            return reply(408, encode_error(f"message must arrive within {read_seconds} seconds"))
        except ClientDisconnect:
            return reply(400, encode_error("message must be whole"))
        except MessageError as error:
            return reply(413, encode_error(str(error)))
        try:
            answer = server.respond(Request.decode(body)).encode()
        except MessageError as error:
            return reply(400, encode_error(str(error)))
        return reply(200, answer)

    async def health(request: starlette.requests.Request) -> Response:
        return reply(200, b'{"status":"ok"}')

    async def failed(request: starlette.requests.Request, error: Exception) -> Response:
        logger.error("request failed", exc_info=error)
        return reply(500, encode_error("internal error"))

    routes = [Route("/select", select, methods=["POST"]), Route("/health", health, methods=["GET"])]
    return Starlette(routes=routes, exception_handlers={Exception: failed})


async def _read(request: starlette.requests.Request) -> bytes:
    """Read the body, giving up as soon as it is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_REQUEST_BYTES:
            raise MessageError(f"message must be at most {MAX_REQUEST_BYTES} bytes")
    return bytes(body)


def serve(server: Server, *, host: str = "127.0.0.1", port: int = 8765) -> None:
    """Serve until interrupted.

    Connections are guarded: see :mod:`opendp_optimal_select.guard`.

    :param server: answers the requests
    :param host: address to listen on
    :param port: port to listen on
    """
    try:
        import uvicorn

        from opendp_optimal_select.guard import guarded
    except ImportError as error:
        raise ImportError("the service needs the extra: opendp-optimal-select[service]") from error
    uvicorn.run(
        application(server),
        host=host,
        port=port,
        http=guarded(),
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        log_level="warning",
        lifespan="off",
        ws="none",
    )


def http_transport(url: str, *, timeout: float = 10.0) -> Transport:
    """Return a transport that posts requests to a service.

    :param url: where the service is, e.g. ``"http://127.0.0.1:8765"``
    :param timeout: seconds to wait for an answer
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url ({url!r}) must be http://host[:port] or https://host[:port]")
    timeout = positive("timeout", timeout)
    secure = parts.scheme == "https"
    connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection

    path = parts.path.rstrip("/") + "/select"

    def send(data: bytes) -> bytes:
        try:
            with closing(connect(str(parts.hostname), parts.port, timeout=timeout)) as connection:
                connection.request("POST", path, data, {"content-type": "application/json"})
                return connection.getresponse().read(MAX_RESPONSE_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(f"no answer from the service: {type(error).__name__}") from None

    return send
