"""Noise tables: the certified object, its file format and where files are kept."""

from opendp_optimal.table.noise import NoiseTable

__all__ = ["NoiseTable"]
