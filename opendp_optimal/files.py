"""Files that others may have put there: only regular ones of bounded size are read, and written
files appear whole or not at all.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

LARGEST = 1 << 28
"""The most bytes of a file that are read, if nothing else is said."""


def read_regular(path: Path | str, largest: int = LARGEST) -> bytes:
    """Return the bytes of a regular file.

    A pipe is not waited for, and an endless device is not read.

    :param path: the file, or a link to it
    :param largest: the most bytes it may have
    :raises OSError: if there is no such file, it is no regular file, or it is too large
    """
    # Without O_NONBLOCK, opening a pipe waits for somebody to write to it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as stream:
        about = os.fstat(stream.fileno())
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        if about.st_size > largest:
            raise OSError(errno.EFBIG, f"is larger than {largest} bytes", str(path))
        data = stream.read(largest + 1)
    if len(data) > largest:
        raise OSError(errno.EFBIG, f"is larger than {largest} bytes", str(path))
    return data


def write_whole(path: Path, data: bytes) -> None:
    """Write a file in one step, with the permissions of any new file (those of the umask).

    :param path: the file; its folder must exist
    :param data: all that it is to hold
    :raises OSError: if it cannot be written; then nothing has changed
    """
    temporary = path.with_name(f"{secrets.token_hex(8)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def check_output(path: Path | str) -> None:
    """Raise unless a file can be written there, before anything is spent on what it will hold.

    :param path: the file to write
    :raises OSError: saying what stands in the way
    """
    place = Path(path)
    folder = place.parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(folder))
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
    if not os.access(place if place.exists() else folder, os.W_OK):
        raise PermissionError(errno.EACCES, "cannot be written", str(path))


@contextlib.contextmanager
def csv_rows(path: Path, largest: int = LARGEST) -> Iterator[Iterator[list[str]]]:
    """Read a CSV file in UTF-8, with or without a byte order mark, and yield its rows.

    :param path: the file
    :param largest: the most bytes it may have
    :raises OSError: if it is no regular file, or too large
    :raises ValueError: where it is no CSV file
    """
    try:
        text = read_regular(path, largest).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} must be text in UTF-8") from None
    with io.StringIO(text, newline="") as lines:
        try:
            yield csv.reader(lines)
        except csv.Error as error:
            raise ValueError(f"{path.name} must be a CSV file: {error}") from None
