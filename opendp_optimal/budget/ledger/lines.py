"""What goes into a line of the log: names, requests and notes that were checked, who and when."""

from __future__ import annotations

import getpass
import platform
import re
from datetime import UTC, datetime
from functools import cache, lru_cache
from time import time_ns
from typing import Any

from opendp_optimal.checks import storable

LONGEST_NOTE = 10_000
LONGEST_REQUEST = 500
"""Requests are keys: in any alphabet these fit in an index of PostgreSQL."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}")


def check_name(name: Any) -> None:
    """Raise unless it can be the name of a data set."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"name ({_shown(name)}) must be 1 to 100 letters (A to z), digits, spaces, dots, "
            "dashes or underscores, and begin with a letter or a digit"
        )


def check_request(request: Any) -> None:
    """Raise unless it can be the key of a request."""
    if (
        not isinstance(request, str)
        or not 0 < len(request) <= LONGEST_REQUEST
        or not storable(request)
    ):
        raise ValueError(
            f"request ({_shown(request)}) must be a text of 1 to {LONGEST_REQUEST} letters"
        )


def detail_of(note: str, **more: Any) -> dict[str, Any]:
    """The detail of a line: a note, who writes it, and what else belongs to it."""
    if not isinstance(note, str) or len(note) > LONGEST_NOTE:
        raise ValueError(f"note must be a text of at most {LONGEST_NOTE} letters")
    if not storable(note):
        raise ValueError(f"note ({_shown(note)}) must be a text in UTF-8, without zeros")
    return {"note": note, "by": _by(), **more}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


_PARTS = [f".{number:03d}+00:00" for number in range(1000)]


def now() -> str:
    """The time in UTC, to the millisecond."""
    seconds, parts = divmod(time_ns(), 10**9)
    return _second(seconds) + _PARTS[parts // 10**6]


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@cache
def _by() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{platform.node()}"
