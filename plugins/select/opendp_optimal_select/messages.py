"""The JSON messages between client and server, and their validation on both sides.

Every message is one JSON object with ``format`` and ``kind``. Unknown, missing or repeated keys,
numbers that are not finite, and anything above the size limits are refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

FORMAT = "opendp-optimal-select/1"
MAX_REQUEST_BYTES = 64 * 1024
MAX_RESPONSE_BYTES = 1024 * 1024
MAX_ANSWERS = 1000
MAX_DIMENSION = 1000
MAX_ITEM_LENGTH = 1000
MAX_ERROR_LENGTH = 1000

Noise = Literal["laplace", "gaussian"]
Signal = float | tuple[float, ...]
Item = str | int


class MessageError(ValueError):
    """A message is not what the format asks for; the text says what is wrong."""


@dataclass(frozen=True)
class Request:
    """What a client sends: its noisy value and what the noise was, never the value itself.

    :param signal: the noisy value: a number, or a tuple of numbers for features
    :param noise: the kind of noise, ``"laplace"`` or ``"gaussian"``
    :param scale: scale of the noise, ``1/epsilon`` for Laplace, standard deviation for Gaussian
    :param k: number of answers wanted

    >>> Request(signal=1.5, noise="laplace", scale=1.0, k=3).encode()
    b'{"format":"opendp-optimal-select/1","kind":"request","signal":1.5,"noise":"laplace",\
"scale":1.0,"k":3}'
    """

    signal: Signal
    noise: Noise
    scale: float
    k: int

    def __post_init__(self) -> None:
        """Check every field."""
        object.__setattr__(self, "signal", _coordinates("signal", self.signal))
        object.__setattr__(self, "scale", _number("scale", self.scale))
        if self.scale <= 0.0:
            raise MessageError(f"scale ({self.scale}) must be above 0")
        if self.noise not in ("laplace", "gaussian"):
            raise MessageError("noise must be 'laplace' or 'gaussian'")
        if isinstance(self.signal, tuple) != (self.noise == "gaussian"):
            raise MessageError("signal must be a number for laplace, a list for gaussian noise")
        if isinstance(self.k, bool) or not isinstance(self.k, int):
            raise MessageError("k must be an integer")
        if not 1 <= self.k <= MAX_ANSWERS:
            raise MessageError(f"k must be from 1 to {MAX_ANSWERS}")

    def encode(self) -> bytes:
        """Return the message as JSON."""
        return _encode("request", vars(self), MAX_REQUEST_BYTES)

    @classmethod
    def decode(cls, data: bytes) -> Request:
        """Return the request in ``data``, or raise :class:`MessageError`.

        :param data: a JSON message
        """
        body = _decode(data, "request", {"signal", "noise", "scale", "k"}, MAX_REQUEST_BYTES)
        return cls(**body)


@dataclass(frozen=True)
class Answer:
    """One result: its name and where it is.

    :param item: a string or an integer
    :param position: a number, or a tuple of numbers for features
    """

    item: Item
    position: Signal

    def __post_init__(self) -> None:
        """Check both fields."""
        if isinstance(self.item, bool) or not isinstance(self.item, (str, int)):
            raise MessageError("item must be a string or an integer")
        if isinstance(self.item, int) and abs(self.item) >= 2**63:
            raise MessageError("item must fit in 64 bits")
        if isinstance(self.item, str) and len(self.item) > MAX_ITEM_LENGTH:
            raise MessageError(f"item must be at most {MAX_ITEM_LENGTH} characters long")
        object.__setattr__(self, "position", _coordinates("position", self.position))


@dataclass(frozen=True)
class Response:
    """What a server sends back: distinct answers, in no order that means anything.

    :param answers: the answers
    """

    answers: tuple[Answer, ...]

    def __post_init__(self) -> None:
        """Check number and distinctness of the answers."""
        if not 1 <= len(self.answers) <= MAX_ANSWERS:
            raise MessageError(f"answers must be 1 to {MAX_ANSWERS} in number")
        # 1 == True == 1.0 in Python; items are strings or integers, kept apart by type.
        if len({(type(a.item), a.item) for a in self.answers}) != len(self.answers):
            raise MessageError("answers must be distinct items")

    def encode(self) -> bytes:
        """Return the message as JSON."""
        answers = [vars(answer) for answer in self.answers]
        return _encode("response", {"answers": answers}, MAX_RESPONSE_BYTES)

    @classmethod
    def decode(cls, data: bytes, *, k: int) -> Response:
        """Return the response in ``data``, or raise :class:`MessageError`.

        An error message from the server raises as well, with the server's text.

        :param data: a JSON message
        :param k: how many answers were asked for
        """
        body = _decode(data, "response", {"answers"}, MAX_RESPONSE_BYTES)
        if not isinstance(body["answers"], list) or len(body["answers"]) != k:
            raise MessageError(f"answers must be a list of {k}")
        answers = []
        for entry in body["answers"]:
            if not isinstance(entry, dict) or set(entry) != {"item", "position"}:
                raise MessageError("each answer must have exactly the keys item and position")
            answers.append(Answer(**entry))
        return cls(tuple(answers))


def encode_error(message: str) -> bytes:
    """Return an error message as JSON.

    :param message: what was wrong with the request
    """
    return _encode("error", {"message": message[:MAX_ERROR_LENGTH]}, MAX_RESPONSE_BYTES)


def _encode(kind: str, body: Mapping[str, Any], limit: int) -> bytes:
    text = json.dumps(
        {"format": FORMAT, "kind": kind, **body}, allow_nan=False, separators=(",", ":")
    )
    data = text.encode("ascii")
    if len(data) > limit:
        raise MessageError(f"message ({len(data)} bytes) must be at most {limit} bytes")
    return data


def _decode(data: bytes, kind: str, keys: set[str], limit: int) -> dict[str, Any]:
    if not isinstance(data, bytes):
        raise MessageError("message must be bytes")
    if len(data) > limit:
        raise MessageError(f"message ({len(data)} bytes) must be at most {limit} bytes")
    try:
        body = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_without_repetition,
            parse_constant=_refuse_constant,
        )
    except MessageError:
        raise
    except (ValueError, RecursionError):
        raise MessageError("message must be JSON in UTF-8") from None
    if not isinstance(body, dict):
        raise MessageError("message must be a JSON object")
    if body.get("format") != FORMAT:
        raise MessageError(f"format must be {FORMAT!r}")
    if kind == "response" and body.get("kind") == "error":
        text = body.get("message")
        shown = text[:MAX_ERROR_LENGTH] if isinstance(text, str) else "no reason given"
        raise MessageError(f"the server refused: {shown}")
    if body.get("kind") != kind:
        raise MessageError(f"kind must be {kind!r}")
    if set(body) != {"format", "kind", *keys}:
        listed = ", ".join(sorted(keys))
        raise MessageError(f"a {kind} must have exactly the keys format, kind, {listed}")
    return {key: body[key] for key in keys}


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        raise MessageError("message must not repeat a key")
    return body


def _refuse_constant(name: str) -> float:
    raise MessageError("message must hold finite numbers only")


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise MessageError(f"{name} must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise MessageError(f"{name} must be finite")
    return number


def _coordinates(name: str, value: Any) -> Signal:
    if not isinstance(value, (list, tuple)):
        return _number(name, value)
    if not 1 <= len(value) <= MAX_DIMENSION:
        raise MessageError(f"{name} must have 1 to {MAX_DIMENSION} coordinates")
    return tuple(_number(name, x) for x in value)
