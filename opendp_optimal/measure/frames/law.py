"""What is known of the noise of a count that was released with other answers."""

from __future__ import annotations

from opendp_optimal.certify.pair import unfolded
from opendp_optimal.known.law import Law, Tabulated
from opendp_optimal.measure.frames.noise import TableNoise
from opendp_optimal.table.noise import NoiseTable
from opendp_optimal.table.pair import PairTable


def count_law(noise: TableNoise, column: int) -> Law | None:
    """The law of whole noise on a column; None where it is not of one table for this column.

    :param noise: of the table
    :param column: its place
    """
    table = noise.table
    if noise.scale[column] != 1:
        return None
    if isinstance(table, PairTable) and column == 0:  # where the count is
        chances = unfolded(table.weights).sum(1) / 2.0**62
        return Tabulated(chances, 1.0, 1 / table.epsilon, integer=True)
    return table.law() if isinstance(table, NoiseTable) and table.kind == "integer" else None
