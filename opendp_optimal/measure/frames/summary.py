"""What a query releases, before anything is spent."""

from __future__ import annotations

from typing import Any

from opendp_optimal.measure.frames.parts import Parts
from opendp_optimal.measure.frames.secret import count_accuracy

_WITH_KEYS = "counts by key"
_SELECTED = "selection among candidates"


class Summary:
    """What a query releases: a frame with a line for each answer, and what is paid for all."""

    def __init__(self, parts: Parts, alpha: float) -> None:
        """Keep what was prepared."""
        self._parts, self._alpha = parts, alpha

    @property
    def price(self) -> str:
        """What is paid, and what for."""
        price, limits = self._parts.price, self._parts.limits
        named = "rho" if price.concentrated else "epsilon"
        paid = f"{named} {price.main:g}" + (f", delta {price.delta:g}" if price.delta else "")
        rows = f"{limits.rows} row{'s' * (limits.rows > 1)}"
        groups = f"{limits.groups} group{'s' * (limits.groups > 1)}"
        names = ", ".join(self._parts.names)
        chosen = "" if self._parts.secret is None else f"; {self._parts.secret.told}"
        parts = self._parts.quantiles
        of = len(parts) + bool(self._parts.table.asked)
        if parts and of > 1:
            columns = ", ".join(one.name for one in parts)
            share = f"1/{of} of what is left" + " each" * (len(parts) > 1)
            chosen += f"; quantiles of {columns} have {share}"
        told = f"{paid}, once, for {names} of all groups{chosen}"
        return f"{told}; a person has {rows} in {groups} at most"

    @property
    def noise(self) -> str:
        """Which noise is added."""
        return self._parts.noise.name if self._parts.alone is None else _WITH_KEYS

    @property
    def frame(self) -> Any:
        """A line for each answer.

        ``accuracy`` is what the noise stays within; that of a mean or a variance is to be divided
        by the number of rows in its group, and is for the worst mean; that of a quantile is in
        ranks, for 95 %.
        """
        import numpy as np
        import polars as pl

        from opendp_optimal.measure.frames.answer import combined_accuracy
        from opendp_optimal.measure.frames.noise import rounded

        names = ["column", "aggregate", "noise", "accuracy", "divided_by_rows"]
        table, alone = self._parts.table, self._parts.alone
        if alone is not None:
            within = count_accuracy(alone, self._alpha)
            lines = [(one.name, one.told, _WITH_KEYS, within, False) for one in table.asked]
            return pl.DataFrame(lines, schema=names, orient="row")
        noise = self._parts.noise
        rows = []
        for one in table.asked:
            divided = one.told.startswith(("mean", "variance"))
            # A group of very many rows, all at the top.
            many = np.array([1e12])
            used = [many * max(1, table.row[j]) for j in one.uses]
            if divided:
                used[0] = many
            weights = dict(zip(one.uses, one.weights(*used), strict=True))
            within = float(combined_accuracy(noise, weights, self._alpha)[0])
            if one.exact:
                within = float(rounded(within))
            rows.append(
                (one.name, one.told, noise.name, within * (1e12 if divided else 1.0), divided)
            )
        for part in self._parts.quantiles:
            line = part.line
            ends = "bounds that are found" if line is None else f"[{line.low:g}, {line.high:g}]"
            told = f"of values in {ends}, accuracy in ranks"
            off = part.design.spread.tolist()
            for name, j in part.shown:
                kind = f"{part.design.wanted[j]:g}-quantile {told}"
                rows.append((name, kind, _SELECTED, off[j], False))
        return pl.DataFrame(rows, schema=names, orient="row")

    def __str__(self) -> str:
        """The price, then the frame."""
        return f"{self.price}\n{self.frame}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p>{self.price}</p>{self.frame._repr_html_()}"
