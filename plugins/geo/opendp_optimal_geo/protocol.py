"""Algorithm 1: what runs on a user's own device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from opendp_optimal.budget import Filter
from opendp_optimal.extend import fraction, require_features

__all__ = ["LocalProtocol", "Reply", "Status"]


class Status(Enum):
    """Whether a user still takes part."""

    CONT = "continue"
    HALT = "halt"


class Reply(NamedTuple):
    """What a user sends back: a status, and an answer or None (NULL)."""

    status: Status
    answer: Any


class LocalProtocol:
    """One user's data behind a filter.

    After the first refusal the user answers None for ever. A price of 0 is answered with None,
    free of charge. A mechanism that may run is charged before it runs, so that one that fails has
    been paid for.

    The data may have components with metrics of their own, under the maximum metric: a mechanism
    that reads one component costs what it costs on that component alone. Components may be added
    at any time; data that changed is a new component.

    Nothing checks that a mechanism costs what it is said to cost: asking needs OpenDP's feature
    "honest-but-curious".

    :param budget: a filter, used by this user only
    :param components: data by name; a single value is called "data"

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> from opendp_optimal_geo import CgpFilter
    >>> user = LocalProtocol(CgpFilter(1.0), {"home": 3})
    >>> user.ask(lambda x: x + 1, 0.75, component="home")
    Reply(status=<Status.CONT: 'continue'>, answer=4)
    >>> user.ask(lambda x: x, 0.5, component="home")
    Reply(status=<Status.HALT: 'halt'>, answer=None)
    """

    def __init__(self, budget: Filter, components: Mapping[str, Any] | Any = None) -> None:
        """Keep the data behind the filter."""
        if not isinstance(budget, Filter):
            raise ValueError(f"budget ({budget!r}) must be a filter")
        self.filter = budget
        if not isinstance(components, Mapping):
            components = {} if components is None else {"data": components}
        self._components = dict(components)
        self._status = Status.CONT

    def __repr__(self) -> str:
        """Show the budget and what the components are called, not the data."""
        return f"LocalProtocol({self.filter!r}, {list(self._components)})"

    @property
    def status(self) -> Status:
        """Whether the user still takes part."""
        return self._status

    def add_component(self, name: str, data: Any) -> None:
        """Add data under a new name.

        :param name: not yet taken: what was queried once never changes
        :param data: any value
        """
        if name in self._components:
            raise ValueError(f"name ({name!r}) must be new: changed data is a new component")
        self._components[name] = data

    def ask(
        self,
        mechanism: Callable[[Any], Any],
        price: Any,
        *,
        component: str = "data",
        gaussian: bool = False,
    ) -> Reply:
        """Run a mechanism if the filter lets it through.

        :param mechanism: called with the component's data
        :param price: what it costs, at least
        :param component: which data it reads
        :param gaussian: whether it is a Gaussian mechanism
        """
        require_features("contrib", "honest-but-curious")
        if not callable(mechanism):
            raise ValueError(f"mechanism ({mechanism!r}) must be callable")
        exact = fraction("price", price, least=0)
        if component not in self._components:
            raise ValueError(f"component ({component!r}) must be one that was added")
        if self._status is Status.HALT or exact == 0:
            return Reply(self._status, None)
        if not self.filter.charge(exact, gaussian=gaussian):
            self._status = Status.HALT
            return Reply(self._status, None)
        return Reply(self._status, mechanism(self._components[component]))
