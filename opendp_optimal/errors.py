"""Errors of this package that are not plain ``ValueError``."""

from __future__ import annotations


class CertificateError(Exception):
    """A table does not prove what it claims; the message says which step failed."""


class TableFormatError(Exception):
    """A table file cannot be read: damaged, truncated, or of an unknown version."""


class SolverError(Exception):
    """A solver ended without an answer that could be certified."""


class GapWarning(UserWarning):
    """The certified gap that was reached is larger than the one asked for."""


class BudgetError(ValueError):
    """A query costs more than is left. Nothing was charged; cheaper queries still run."""


class LedgerError(Exception):
    """A ledger cannot be used: out of reach, in use, damaged, or an old copy."""
