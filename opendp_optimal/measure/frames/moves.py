"""How far a person moves a table of integers, and what its release may cost."""

from __future__ import annotations

from dataclasses import dataclass

MEAN = 1 / 12, 1 / 4
"""What the variances of a count and of a doubled centred sum count in that of a mean's error times
the count, on average over all means; the sum in units of the range."""
LARGEST_MOVE = 1 << 24
"""Of a column, by one row of data."""


@dataclass(frozen=True)
class Price:
    """What a release may cost.

    :param main: an epsilon, or a rho
    :param delta: probability of more
    :param concentrated: whether it is a rho
    """

    main: float
    delta: float = 0.0
    concentrated: bool = False


@dataclass(frozen=True)
class Moves:
    """How far one person moves the integers of a table.

    :param row: how far one row of the data moves each column, at most
    :param person: how far all rows of a person move each column in one group, at most
    :param rows: how many rows a person has at most, in all groups
    :param groups: how many groups a person is in at most
    :param pair: whether the columns are a count, which every row moves by exactly 1, and one other
    :param line: whether a row moves one column only, as in a histogram
    :param weights: what the squared error of each column counts, in units of a row's move; all the
        same by default
    """

    row: tuple[int, ...]
    person: tuple[int, ...]
    rows: int = 1
    groups: int = 1
    pair: bool = False
    line: bool = False
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Check that the numbers are whole and agree."""
        if len(self.row) != len(self.person):
            raise ValueError(f"person ({self.person}) must have a move for each column of row")
        if not all(0 <= r <= LARGEST_MOVE for r in self.row) or min(self.person, default=0) < 0:
            raise ValueError(f"row ({self.row}) must have moves in [0, {LARGEST_MOVE}]")
        if self.rows < 1 or self.groups < 1:
            raise ValueError(f"rows ({self.rows}) and groups ({self.groups}) must be at least 1")
        if self.pair and (len(self.row) != 2 or self.row[0] != 1):
            raise ValueError(f"row ({self.row}) must be a count and one other for a pair")
        if self.weights is not None and len(self.weights) != len(self.row):
            raise ValueError(f"weights ({self.weights}) must have one for each column of row")

    @property
    def counted(self) -> tuple[float, ...]:
        """What the squared error of each column counts."""
        if self.pair:  # in that of the mean, on average over all means
            return MEAN
        return self.weights or (1.0,) * len(self.row)
