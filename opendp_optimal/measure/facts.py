"""What this package knows of the parts of OpenDP that it made.

Facts are kept here, by identity and by the address of what runs: an attribute of a measurement can
be written by anybody.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from opendp_optimal.budget.events import Event
    from opendp_optimal.known import Law
    from opendp_optimal.table import NoiseTable

T = TypeVar("T")


@dataclass(frozen=True)
class Facts:
    """What is known of a measurement, a transformation or a function.

    :param record: text that identifies it: its constructor and every parameter
    :param law: of the noise that a measurement adds
    :param event: what a release at a distance is; at None, at the distance of the design
    :param answers: of a release of several answers, the law of the noise on each one's numbers
    """

    record: str | None = None
    law: Callable[[], Law | None] | None = None
    event: Callable[[Any], Event] | None = None
    answers: Callable[[], tuple[Law, ...]] | None = None


_known: dict[int, tuple[weakref.ref[Any], int, Facts]] = {}


def remember(part: T, facts: Facts) -> T:
    """Keep the facts of a part as long as it lives."""
    key = id(part)
    alive = weakref.ref(part, lambda _: _known.pop(key, None))
    _known[key] = alive, _address(part), facts
    return part


def facts_of(part: Any) -> Facts:
    """The facts of a part; empty ones for what is not known here."""
    alive, address, facts = _known.get(id(part), (lambda: None, 0, Facts()))
    known = alive() is part and address == _address(part)
    return facts if known else Facts()


def _address(part: Any) -> int:
    return ctypes.cast(part, ctypes.c_void_p).value or 0


def record_text(name: str, *values: Any) -> str:
    """A constructor and its parameters as text; floats print as they are, exactly.

    >>> record_text("make_it", 1, (0.5, 1e-6), None)
    'make_it(1, (0.5, 1e-06), None)'
    """
    return name + _plain(values)


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_plain(each) for each in value) + ")"
    if isinstance(value, float):
        return repr(float(value))
    return str(int(value)) if type(value) is not bool and isinstance(value, int) else repr(value)


def digest_of(table: NoiseTable) -> str:
    """What a table draws and was asked for, as a digest."""
    tail = table.tail
    ends = None if tail is None else (tail.weight, tail.again, tail.weights.tolist())
    drawn = [table.problem.fingerprint, table.cells, table.atom, table.weights.tolist(), ends]
    if table.spike is not None:
        drawn += [table.spike.weight, table.spike.parts]
    return hashlib.sha256(repr(tuple(drawn)).encode()).hexdigest()


def plan_digest(plan: Any) -> str:
    """What a Polars plan asks, as a digest: the same in every process.

    :param plan: a LazyFrame without private data
    :raises ValueError: if it cannot be told from others
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        written = json.loads(plan.serialize(format="json"))
    return hashlib.sha256(json.dumps(_steady(written), sort_keys=True).encode()).hexdigest()


def _steady(node: Any) -> Any:
    """A plan without the numbers that Polars gives its parts in passing."""
    if isinstance(node, list):
        plain = set(map(type, node)) <= {int, str}  # such as the bytes of a frame
        return node if plain else [_steady(each) for each in node]
    if not isinstance(node, dict):
        return node
    if "IR" in node and len(node) == 1:
        return _steady(node["IR"]["dsl"])
    for name, value in node.items():
        if value is None and name.startswith("Float"):  # infinities and NaN are written alike
            raise ValueError("query: a number in the plan is not finite")
    return {name: _steady(value) for name, value in node.items()}
