"""A query that was prepared, and its release on data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from opendp_optimal.arrays import Integers
from opendp_optimal.errors import CertificateError, SolverError
from opendp_optimal.known.law import Law
from opendp_optimal.measure.frames.answer import ALPHA
from opendp_optimal.measure.frames.columns import Table
from opendp_optimal.measure.frames.keys import UNUSED, key_columns, key_schema, plain_keys
from opendp_optimal.measure.frames.law import count_law
from opendp_optimal.measure.frames.limits import Limits
from opendp_optimal.measure.frames.noise import Price, TableNoise, table_noise
from opendp_optimal.measure.frames.plan import Plan
from opendp_optimal.measure.frames.quantiles import GroupQuantiles, shared
from opendp_optimal.measure.frames.run import Collector, whole_numbers
from opendp_optimal.measure.frames.secret import SecretKeys, count_accuracy
from opendp_optimal.measure.keys import KeyDesign

__all__ = ["COUNT", "PERSON", "Parts"]

COUNT, PERSON = f"{UNUSED}count", f"{UNUSED}person"
"""What keys are chosen by."""
_ENDS = "", "_accuracy", "_variance", "_variance_accuracy", "_low", "_high"
"""What an answer brings with it."""


@dataclass(frozen=True)
class Parts:
    """A query, ready to run."""

    plan: Plan
    limits: Limits
    table: Table
    collector: Collector
    price: Price
    key_frame: Any
    secret: SecretKeys | None = None
    quantiles: tuple[GroupQuantiles, ...] = ()

    @property
    def rest(self) -> Price:
        """What the table may cost."""
        left = self.price if self.secret is None else self.secret.rest or self.price
        return shared(left, len(self.quantiles) + bool(self.table.asked))

    @property
    def names(self) -> list[str]:
        """Of the answers: those of the table, and quantiles that the query asks for."""
        asked = [a.name for a in self.plan.aggregates if a.kind == "quantile"]
        return [*(one.name for one in self.table.asked), *asked]

    @property
    def alone(self) -> KeyDesign | None:
        """What releases the counts, where they are released with their keys and are all."""
        return self.secret.design if self.secret is not None and self.secret.alone else None

    @cached_property
    def noise(self) -> TableNoise:
        """For the whole table; for any number of groups, where only the data have the keys."""
        groups = 1 if self.key_frame is None else self.key_frame.height
        known = not self.plan.keys or self.key_frame is not None
        return table_noise(self.table.moves, self.rest, groups if known else None)

    def noise_for(self, groups: int) -> TableNoise:
        """The best noise for so many groups, or what was designed before anything was paid."""
        try:
            return table_noise(self.table.moves, self.rest, groups)
        except (ValueError, CertificateError, SolverError):
            return self.noise

    def law(self, name: str) -> Law:
        """The law of the noise of a count.

        :param name: of the count
        :raises ValueError: if it is no count, or no single table hides it
        """
        uses = {one.name: one.uses for one in self.table.asked if one.exact}
        counts = [n for n, at in uses.items() if len(at) == 1 and self.table.row[at[0]] == 1]
        if name not in counts:
            known = ", ".join(counts) or "none"
            raise ValueError(f"name ({name!r}) must be that of a count with noise: {known}")
        chosen = self.plan.keys and self.key_frame is None  # then noise may follow the groups
        law = None if chosen else count_law(self.noise, uses[name][0])
        if law is None:
            told = "chosen with its keys" if chosen else self.noise.name
            raise ValueError(f"name ({name!r}): its noise ({told}) must be one table for the count")
        return law

    def release(self, frame: Any) -> Any:
        """The answers on some data."""
        if not self.plan.keys or self.key_frame is not None:
            answers = self._answers(self.key_frame, self.noise, self.collector(frame))
            return self._with_quantiles(answers, frame, self.collector)
        if self.secret is not None:
            return self._passing(frame, self.secret)
        # Keys that are public by a margin: those of the data.
        names = [key["Column"] for key in self.plan.keys]
        found = frame.select(names).unique().collect(engine="streaming").sort(names)
        expressions, texts = key_columns(self.plan, found)
        collector = replace(self.collector, keys=expressions, key_frame=texts)
        answers = self._answers(found, self.noise_for(found.height), collector(frame))
        return self._with_quantiles(answers, frame, collector)

    def _passing(self, frame: Any, secret: SecretKeys) -> Any:
        """The keys that are released, sorted, and the answers for them."""
        import polars as pl

        found = self.collector.groups(frame)
        shown, counts = secret.design.release(found[COUNT].to_numpy())
        names = list(self.collector.keys)
        kept = found.with_columns(pl.Series(COUNT, counts)).filter(pl.Series(shown)).sort(names)
        keys = kept.select(
            pl.col(own).cast(pl.String if kind == pl.Categorical else kind).alias(name)
            for own, (name, kind) in zip(names, key_schema(self.plan).items(), strict=True)
        )
        if secret.alone:
            within = pl.lit(count_accuracy(secret.design, ALPHA))
            told = [one.name for one in self.table.asked]
            both = [e for n in told for e in (kept[COUNT].alias(n), within.alias(f"{n}_accuracy"))]
            return plain_keys(keys).with_columns(both)
        values = whole_numbers(kept.drop(*names, COUNT))
        answers = self._answers(keys, self.noise_for(keys.height), values)
        collector = replace(self.collector, key_frame=kept.select(names))
        return self._with_quantiles(answers, frame, collector)

    def _answers(self, keys: Any, noise: TableNoise, values: Integers) -> Any:
        import polars as pl

        shown = pl.DataFrame() if keys is None else plain_keys(keys)
        answers = self.table.answers(noise, values)
        return shown.with_columns([pl.Series(n, v) for n, v in answers.items()])

    def _with_quantiles(self, answers: Any, frame: Any, collector: Collector) -> Any:
        groups = answers.height if self.plan.keys else 1
        for one in self.quantiles:
            if one.line is None:
                one = one.bounded(collector.histogram(frame, one.power))
            rows = collector.histogram(frame, one.cell)
            answers = answers.with_columns(one.answers(groups, rows))
        asked = [a.name for a in self.plan.aggregates if a.kind == "quantile"]
        if not asked:
            return answers
        # In the order of the query: what is asked there, then what belongs to it.
        names = [a.name for a in self.plan.aggregates]
        place = {f"{name}{end}": at for at, name in enumerate(names) for end in _ENDS}
        keys = len(self.plan.keys)
        last = answers.columns[keys:]
        return answers.select(
            *answers.columns[:keys], *sorted(last, key=lambda c: place.get(c, len(names)))
        )
