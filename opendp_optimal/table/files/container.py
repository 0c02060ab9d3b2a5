"""The container of table files, alike for every kind. Nothing in a file is executed or trusted.

    8 bytes   magic, which says what kind of table it is
    4 bytes   length h of the header, little-endian
    h bytes   header, JSON: version, problem, bounds, what the kind adds, and a list of arrays
    ...       the arrays' bytes, compressed with zlib, one after the other
    32 bytes  SHA-256 of everything before

Integers are stored in the narrowest type that holds them, byte planes apart, which compresses
well. A published meaning never changes: another meaning gets another version.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from opendp_optimal.arrays import Integers
from opendp_optimal.errors import TableFormatError
from opendp_optimal.losses.base import Loss
from opendp_optimal.table.base import Certified

Header = dict[str, Any]
Arrays = dict[str, Integers]
T = TypeVar("T", bound=Certified)

_MOST_HEADER = 1 << 26
_MOST_ELEMENTS = 1 << 25
_MOST_ARRAYS = 16
_MALFORMED = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
    zlib.error,
    struct.error,
)
"""What reading hostile bytes may raise on the way; all of it means: not a table."""


@dataclass(frozen=True, kw_only=True)
class Kind(Generic[T]):
    """A kind of table that is kept in files.

    :param name: the kind; files end in it
    :param magic: the first eight bytes of its files
    :param versions: the versions of its header that are known
    :param problem: the class of what its tables answer
    :param parts: the header and the arrays of a table
    :param build: a table from the header and the arrays of a file, not yet proved; and from the
        loss that it must be for, if one is given
    :param numbers: entries of the described problem that are floats in hexadecimal
    :param sizes: entries of the header that say how large the table is
    :param own_losses: whether a table for a user's own loss can be kept without its function
    """

    name: str
    magic: bytes
    versions: tuple[int, ...]
    problem: type
    parts: Callable[[T], tuple[Header, Arrays]]
    build: Callable[[Header, Arrays, Loss | None], T]
    numbers: tuple[str, ...] = ("epsilon", "delta")
    sizes: tuple[str, ...] = ()
    own_losses: bool = False

    @property
    def suffix(self) -> str:
        """The end of the names of its files."""
        return f".{self.name}"

    def encode(self, table: T) -> bytes:
        """The bytes of a table's file."""
        return self.seal(*self.parts(table))

    def decode(self, data: bytes, loss: Loss | None = None) -> T:
        """Read a table and repeat both of its proofs.

        :param data: the bytes of a file
        :param loss: the loss it must be for; needed to use a table of a user's own loss
        :raises TableFormatError: the bytes are damaged or of an unknown version
        :raises CertificateError: the table does not prove what it claims
        """
        try:
            table = self.build(*self.unseal(data), loss)
            table.verify()
            return table
        except _MALFORMED as error:
            raise TableFormatError(f"the file is not a {self.name} table: {error}") from None

    def peek(self, data: bytes) -> dict[str, Any]:
        """What a file says it is, unverified: for looking through directories."""
        try:
            header, _ = self._header(data)
            return {
                **self.plain(header["problem"]),
                **bounds(header),
                **{key: int(header[key]) for key in self.sizes},
            }
        except _MALFORMED as error:
            raise TableFormatError(f"the file is not a {self.name} table: {error}") from None

    def plain(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """A described problem with its numbers as floats."""
        return {**described, **{key: float.fromhex(described[key]) for key in self.numbers}}

    def seal(self, header: Mapping[str, Any], arrays: Mapping[str, Integers]) -> bytes:
        """A file: its header, its arrays and the digest of both.

        :raises TableFormatError: if it would be too large to be read again
        """
        packed = {name: _pack(array) for name, array in arrays.items()}
        entries = {name: entry for name, (entry, _) in packed.items()}
        text = json.dumps({**header, "arrays": entries}, separators=(",", ":")).encode()
        if len(text) > _MOST_HEADER:
            raise TableFormatError(f"the header, of {len(text)} bytes, is too large")
        body = self.magic + struct.pack("<I", len(text)) + text
        body += b"".join(data for _, data in packed.values())
        return body + hashlib.sha256(body).digest()

    def unseal(self, data: bytes) -> tuple[Header, Arrays]:
        """The header and the arrays of a file that is whole, of this kind and a known version."""
        if data[:8] != self.magic or len(data) < 44:
            raise TableFormatError(f"the file does not begin like a {self.name} table")
        if hashlib.sha256(data[:-32]).digest() != data[-32:]:
            raise TableFormatError("the file is damaged: its digest does not fit")
        header, at = self._header(data[:-32])
        if header.get("version") not in self.versions:
            raise TableFormatError(f"version {header.get('version')!r} of the format is unknown")
        entries = header["arrays"]
        elements = sum(math.prod(entry["shape"]) for entry in entries.values())
        if len(entries) > _MOST_ARRAYS or elements > _MOST_ELEMENTS:
            raise TableFormatError("the arrays are too large")
        arrays: Arrays = {}
        for name, entry in entries.items():
            arrays[name] = _unpack(entry, data[at : at + entry["bytes"]])
            at += entry["bytes"]
        if at != len(data) - 32:
            raise TableFormatError("the arrays do not fill the file")
        return header, arrays

    def _header(self, data: bytes) -> tuple[Header, int]:
        """The header of a file, unverified, and where it ends."""
        (length,) = struct.unpack("<I", data[8:12])
        if data[:8] != self.magic or length > min(_MOST_HEADER, len(data) - 12):
            raise TableFormatError(f"the file does not begin like a {self.name} table")
        header = json.loads(data[12 : 12 + length])
        if not isinstance(header, dict):
            raise TableFormatError("the header of the file is no object")
        return header, 12 + length


def bounds(header: Header) -> dict[str, float]:
    """The bounds that a header states."""
    return {key: float.fromhex(header[key]) for key in ("upper", "lower")}


def _pack(array: Integers) -> tuple[dict[str, Any], bytes]:
    largest = max(int(array.max(initial=0)), ~int(array.min(initial=0)))
    width = next(width for width in (1, 2, 4, 8) if largest < 1 << (8 * width - 1))
    raw = np.ascontiguousarray(array.astype(f"<i{width}")).view(np.uint8)
    planes = np.ascontiguousarray(raw.reshape(-1, width).T).tobytes()
    packed = zlib.compress(planes, 6)
    return {"shape": list(array.shape), "width": width, "bytes": len(packed)}, packed


def _unpack(entry: dict[str, Any], data: bytes) -> Integers:
    shape, width = tuple(entry["shape"]), entry["width"]
    if width not in (1, 2, 4, 8) or len(shape) not in (1, 2) or min(shape) < 0:
        raise TableFormatError("an array has an impossible shape")
    size = math.prod(shape) * width
    if math.prod(shape) > _MOST_ELEMENTS:
        raise TableFormatError("an array is too large")
    expander = zlib.decompressobj()
    planes = expander.decompress(data, size + 1)
    if len(planes) != size or not expander.eof or expander.unused_data:
        raise TableFormatError("an array has another size than its header says")
    raw = np.frombuffer(planes, np.uint8).reshape(width, -1).T
    return np.ascontiguousarray(raw).view(f"<i{width}").reshape(shape).astype(np.int64)
