"""Connections that nobody can use to keep others out.

A client that opens many connections and never finishes a request would fill the service. Here a
connection has a moment to send a whole request and another to take the answer, and there is room
for so many: one more, and the one that has done nothing for longest is closed. Only whole requests
and answers count as doing something, so who sends its request at once is answered at once.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 200
PATIENCE_SECONDS = 15.0
"""For a whole request, and again for taking the answer."""


def guarded(
    *, most: int = MOST_CONNECTIONS, seconds: float = PATIENCE_SECONDS
) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with a limit on connections and on their time.

    :param most: connections that are open at a time
    :param seconds: for a whole request, and again for taking the answer
    """
    open_ones: dict[Guarded, None] = {}  # those that have done nothing for longest come first

    class Guarded(H11Protocol):
        """A connection that is closed when it takes too long, or when others need the room."""

        _asked = False
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            """Make room, and start to wait for a request."""
            super().connection_made(transport)
            self._begin(asked=False)
            while len(open_ones) > most:
                next(iter(open_ones))._drop()

        def data_received(self, data: bytes) -> None:
            """Read on; with a whole request a new time begins."""
            super().data_received(data)
            whole = self.conn.their_state not in (h11.IDLE, h11.SEND_BODY)
            if whole and not self._asked and self in open_ones:
                self._begin(asked=True)

        def on_response_complete(self) -> None:
            """Wait for the next request."""
            super().on_response_complete()
            if self in open_ones:
                self._begin(asked=False)

        def connection_lost(self, exc: Exception | None) -> None:
            """Forget the connection."""
            self._forget()
            super().connection_lost(exc)

        def _begin(self, *, asked: bool) -> None:
            self._forget()
            self._asked = asked
            open_ones[self] = None
            self._deadline = self.loop.call_later(seconds, self._drop)

        def _forget(self) -> None:
            open_ones.pop(self, None)
            if self._deadline is not None:
                self._deadline.cancel()

        def _drop(self) -> None:
            self._forget()
            self.transport.abort()

    return Guarded
