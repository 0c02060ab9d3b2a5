"""Whether two processes with the same memory release the same values: seedable randomness.

A generator that lives in the process's memory, however it was seeded, goes on identically in two
forked copies of it. The operating system's source does not.
"""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

from opendp_optimal.testing.bounds import clopper_high

_LEARN = 200


def repeats(release: Callable[[Any], Any], x: Any, alarm: float, count: int = 64) -> bool:
    """Whether forked copies release one and the same sequence.

    For a mechanism that repeats itself often (two equal releases in a row are likely), more
    releases are compared, and none if even those could be equal by chance.

    :param release: the mechanism
    :param x: an input
    :param alarm: the chance of calling an honest mechanism repeating
    :param count: the least number of releases to compare

    >>> import secrets
    >>> repeats(lambda x: x + secrets.randbelow(100), 0, 1e-6)
    False
    """
    if not hasattr(os, "fork"):
        return False
    seen = Counter(repr(release(x)) for _ in range(_LEARN))
    # Two honest releases are equal with at most the chance of the likeliest value, which was met at
    # most as often as the value that was met most often.
    likeliest = clopper_high(max(seen.values()), _LEARN, alarm / 2)
    if likeliest >= 0.99:
        return False
    count = max(count, math.ceil(math.log(alarm / 2) / math.log(likeliest)))
    return _in_a_copy(release, x, count) == _in_a_copy(release, x, count)


def _in_a_copy(release: Callable[[Any], Any], x: Any, count: int) -> bytes:
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # later versions of Python warn of forks beside threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            text = "\n".join(repr(release(x)) for _ in range(count)).encode()
            with os.fdopen(write, "wb") as stream:
                stream.write(text)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError("a release failed in a forked process")
    return data
