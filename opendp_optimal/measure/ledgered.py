"""Contexts whose every release is charged to a ledger first."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
from opendp.context import domain_of
from opendp.core import measurement_invoke, measurement_map
from opendp.domains import with_margin
from opendp.extras.polars import OnceFrame
from opendp.mod import OdometerQueryable, Queryable

from opendp_optimal.budget.ledger.answers import from_bytes, to_bytes
from opendp_optimal.budget.ledger.chain import Kind
from opendp_optimal.budget.ledger.ledger import Ledger
from opendp_optimal.checks import fraction
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import hand_over, make_measurement, require_features
from opendp_optimal.measure.anatomy import is_interactive, record_of, spaces

_LONGEST_NOTE = 1000
_QUERYABLES = Queryable, OdometerQueryable


class _ChargedData(OdometerQueryable):
    """Answers measurements that the ledger was charged for."""

    def __init__(self, ledger: Ledger, name: str, accountant: dp.Measurement, data: Any) -> None:
        """Hand the data to OpenDP once."""
        self._ledger, self._name = ledger, name
        self._spaces = spaces(accountant)
        self._kind = ledger.budget(name).kind
        self._data = hand_over(data, accountant.input_domain)

    d_in: Any = None

    def invoke(self, query: dp.Measurement) -> Any:
        """Charge a measurement, then run it."""
        return self.ask(query, None)

    __call__ = invoke

    def ask(self, query: Any, request: str | None) -> Any:
        """Charge a measurement, then run it, or return the stored answer of a request."""
        if not isinstance(query, dp.Measurement):
            raise ValueError(f"query ({type(query).__name__}) must be a measurement")
        if spaces(query) != self._spaces:
            raise ValueError("query must have the input space and output measure of the context")
        sequential = self._kind.main == "rho" and self._kind.delta
        if (sequential or request is not None) and is_interactive(query):
            raise ValueError(_REFUSED[request is not None])
        # OpenDP's own map and function: methods of the object can be anybody's.
        loss = measurement_map(query, self.d_in)
        price = dict(zip(self._kind.names, loss if self._kind.delta else (loss,), strict=True))
        try:
            question = record_of(query)
        except ValueError:
            question = None
        note = _told(question)
        if request is None:
            self._ledger.charge(self._name, **price, note=note)
            drawn = measurement_invoke(query, self._data)
            if sequential and isinstance(drawn, _QUERYABLES):
                raise ValueError(_REFUSED[False])
            return drawn
        if question is None:
            raise ValueError("request needs a query that can be told from others")

        failures: list[BaseException] = []

        def draw() -> bytes:
            # That a release failed is an answer, too, and may depend on the data: a second try
            # under the same charge would tell more than was paid for.
            try:
                drawn = measurement_invoke(query, self._data)
                return to_bytes(drawn.collect() if isinstance(drawn, OnceFrame) else drawn)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # Polars' panics are no mere exceptions
                failures.append(error)
                return b""

        stored = self._ledger.answer_once(self._name, request, question, draw, note=note, **price)
        if failures and not stored:
            raise failures[0]
        if not stored:
            raise ValueError(
                f"request ({request!r}) failed when it was drawn, and stays so; what it cost stays "
                "charged: ask under another key"
            )
        value = from_bytes(stored)
        return StoredFrame(value) if hasattr(value, "write_ipc") else value

    def privacy_loss(self, d_in: Any) -> Any:
        """Return what was spent, rounded up."""
        if d_in != self.d_in:
            raise ValueError(f"d_in ({d_in!r}) must be the context's, {self.d_in!r}")
        return self._kind.floats(self._ledger.budget(self._name).spent, up=True)

    def __repr__(self) -> str:
        return f"ChargedData({self._name!r}, {self._ledger!r})"


_REFUSED = {
    False: "query must not be a compositor: under approximate zero-concentrated privacy what was "
    "begun before would have to end with every charge, in all processes",
    True: "request needs an answer to store, not a queryable",
}


def _told(question: str | None) -> str:
    """The steps of a query, in the order of its record."""
    steps = re.findall(r"\b(?:make|then)_(\w+)", question or "")
    return ", ".join(dict.fromkeys(steps))[:_LONGEST_NOTE] or "a measurement"


def _column(key: Any) -> str:
    """A grouping key as text; a name and the column of this name are the same."""
    return f'col("{key}")' if isinstance(key, str) else str(key)


def _unit(metric: dp.Metric, d_in: Any) -> str:
    """A privacy unit as text, the same for the same unit."""
    if isinstance(d_in, tuple) and not any(hasattr(part, "by") for part in d_in):
        parts = [fraction("privacy_unit", part, least=0) for part in d_in]
        if not all(parts):
            raise ValueError(f"privacy_unit ({d_in!r}) must protect positive distances")
        return f"{metric} at {tuple(np.asarray(part).item() for part in d_in)!r}"
    if isinstance(d_in, list | tuple):
        bounds = [(sorted(_column(key) for key in b.by), b.per_group, b.num_groups) for b in d_in]
        return f"{metric} at {sorted(bounds, key=repr)}"
    if not fraction("privacy_unit", d_in, least=0):
        raise ValueError(f"privacy_unit ({d_in!r}) must protect a positive distance")
    return f"{metric} at {np.asarray(d_in).item()!r}"


class StoredFrame:
    """A released frame that comes from the ledger; it can be collected any number of times."""

    def __init__(self, frame: Any) -> None:
        """Keep the frame."""
        self._frame = frame

    def collect(self) -> Any:
        """The released DataFrame."""
        return self._frame

    def lazy(self) -> Any:
        """The released DataFrame, as a LazyFrame."""
        return self._frame.lazy()


class LedgerContext(dp.Context):
    """An OpenDP Context on a data set whose budget a ledger keeps; made by ``Ledger.context``."""

    _request: str | None = None

    def query(self, *, request: str | None = None, **kwargs: Any) -> Any:
        """Begin a query.

        :param request: a key under which the answer is stored: asked again, the same answer comes
            back and nothing is charged
        :param kwargs: the budget of the query: ``epsilon=``, ``delta=``, ``rho=``
        """
        charged: Any = self.queryable
        kind: Kind = charged._kind
        price = {name: kwargs.get(name) for name in ("epsilon", "delta", "rho")}
        kind.limit(price)  # where a limit makes sense, so does a price
        asking = self
        if request is not None:
            asking = copy.copy(self)
            asking._request = request
        return dp.Context.query(asking, **kwargs)

    def __call__(self, query: dp.Measurement, *, request: str | None = None) -> Any:
        """Charge a measurement, then run it.

        :param query: any measurement on the data
        :param request: as for :meth:`query`
        """
        charged: Any = self.queryable
        return charged.ask(query, self._request if request is None else request)

    def remaining_privacy_loss(self) -> Any:
        """What the ledger has left for the data set."""
        kept: Any = self.queryable
        return kept._ledger.remaining(kept._name)


def ledger_context(
    ledger: Ledger, name: str, data: Any, privacy_unit: Any, domain: Any, margins: Any
) -> LedgerContext:
    """Return a Context whose releases are charged to a ledger; see ``Ledger.context``."""
    require_features("contrib")
    try:
        metric, d_in = privacy_unit
    except (TypeError, ValueError):
        raise ValueError(f"privacy_unit ({privacy_unit!r}) must be (metric, distance)") from None
    d_in = copy.deepcopy(d_in)  # a list of bounds could be changed later
    domain = domain_of(data, infer=True) if domain is None else domain
    for margin in margins or ():
        domain = with_margin(domain, margin)
    budget = ledger.budget(name)
    pure = budget.kind.main == "epsilon"
    main = dp.max_divergence() if pure else dp.zero_concentrated_divergence()
    measure = dp.approximate(main) if budget.kind.delta else main
    limit = budget.kind.floats(budget.limit, up=False)

    def privacy_map(d: Any) -> Any:
        if d != d_in:
            raise ValueError(f"d_in ({d!r}) must be the ledger's, {d_in!r}")
        return limit

    unit = _unit(metric, d_in)
    accountant = make_measurement(
        domain, metric, measure, lambda _: None, privacy_map, TO="ExtrinsicObject"
    )
    charged: Any = _ChargedData(ledger, name, accountant, data)
    charged.d_in = d_in
    ledger.fix_unit(name, unit)
    return LedgerContext(accountant=accountant, queryable=charged, d_in=d_in, d_out=limit)
