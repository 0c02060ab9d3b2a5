"""Warnings of this package. Their texts never depend on the data."""

from __future__ import annotations

import warnings

__all__ = ["BoundsExceededWarning", "PrivacyLeakWarning", "clipped", "leaked"]


class PrivacyLeakWarning(UserWarning):
    """Something that should be public knowledge was read from the data."""


class BoundsExceededWarning(UserWarning):
    """Some of the data are beyond what was said of them; they are clipped."""


def leaked(what: str, stacklevel: int = 3) -> None:
    """Warn that an argument was taken from the data.

    :param what: the arguments
    :param stacklevel: as in :func:`warnings.warn`
    """
    warnings.warn(
        f"{what} not given and taken from the data: what they reveal is not private",
        PrivacyLeakWarning,
        stacklevel=stacklevel,
    )


def clipped(stacklevel: int = 3) -> None:
    """Warn that data are beyond their bounds. The text is always the same.

    :param stacklevel: as in :func:`warnings.warn`
    """
    warnings.warn(
        "some data are outside of the given bounds or categories: numbers are clipped, other "
        "categories are not counted. This line is for whoever holds the data, not for publication",
        BoundsExceededWarning,
        stacklevel=stacklevel,
    )
