"""The frame that a release gives."""

from __future__ import annotations

import polars as pl


class Answers(pl.DataFrame):
    """A released frame: an ordinary Polars DataFrame, which may also be collected."""

    def collect(self) -> pl.DataFrame:
        """The frame itself, as OpenDP's releases are collected."""
        return pl.DataFrame(self)
