"""Algorithm 1: what runs on a user's own device."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from enum import Enum
from fractions import Fraction
from typing import Any, NamedTuple

from opendp.core import measurement_invoke
from opendp.measures import max_divergence, zero_concentrated_divergence
from opendp.mod import Domain, Measurement, Metric

from opendp_optimal.budget import Filter, GpFilter, check_filter, priced
from opendp_optimal.extend import positive

Space = tuple[Domain, Metric]
"""Input domain and input metric."""


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
    free of charge. A measurement that may run is charged before it runs, so that one that fails
    has been paid for.

    A measurement costs what its own map says at ``d_in``, per unit of distance (GP) or squared
    unit (CGP): values that are ``d_in`` apart are told apart with the filter's loss at that
    distance, and closer ones with no more than that. Noise whose map is proportional to the
    distance (squared, for CGP) costs the same at any ``d_in``: then it holds at all distances.

    The data may have components with metrics of their own, under the maximum metric: a measurement
    of one component costs what it costs on that component alone. Components may be added at any
    time; data that changed is a new component.

    :param budget: a fresh filter, used by this user only
    :param components: data by name; a single value is called "data"
    :param space: input domain and metric of these data
    :param d_in: distance at which measurements are priced, at most the filter's reach

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> from opendp_optimal_geo import GpFilter
    >>> space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    >>> user = LocalProtocol(GpFilter(1.0), {"age": 42}, space=space, d_in=1)
    >>> user.ask(space >> dp.m.then_laplace(scale=2.0), component="age").status
    <Status.CONT: 'continue'>
    >>> user.ask(space >> dp.m.then_laplace(scale=1.0), component="age")
    Reply(status=<Status.HALT: 'halt'>, answer=None)
    """

    def __init__(
        self,
        budget: Filter,
        components: Mapping[str, Any] | Any = None,
        *,
        space: Space,
        d_in: float = 1,
    ) -> None:
        """Keep the data behind the filter."""
        self._pure = isinstance(budget, GpFilter)
        check_filter("budget", budget, pure=self._pure, distance=positive("d_in", d_in))
        self.filter, self._d_in = budget, d_in
        self._space = _checked(space)
        if not isinstance(components, Mapping):
            components = {} if components is None else {"data": components}
        self._components = {name: (data, self._space) for name, data in components.items()}
        self._status = Status.CONT
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        """Show the budget and what the components are called, not the data."""
        return f"LocalProtocol({self.filter!r}, {list(self._components)})"

    @property
    def status(self) -> Status:
        """Whether the user still takes part."""
        return self._status

    def add_component(self, name: str, data: Any, *, space: Space | None = None) -> None:
        """Add data under a new name.

        :param name: not yet taken: what was queried once never changes
        :param data: any value
        :param space: its input domain and metric; those of the others by default
        """
        if name in self._components:
            raise ValueError(f"name ({name!r}) must be new: changed data is a new component")
        self._components[name] = data, self._space if space is None else _checked(space)

    def ask(self, measurement: Measurement, *, component: str = "data") -> Reply:
        """Run a measurement if the filter lets it through.

        :param measurement: of the component's space, in max-divergence (GP) or zero-concentrated
            divergence (CGP)
        :param component: which data it is of
        """
        if component not in self._components:
            raise ValueError(f"component ({component!r}) must be one that was added")
        data, space = self._components[component]
        notion = max_divergence() if self._pure else zero_concentrated_divergence()
        gaussian = self.filter.gaussian_only
        known, loss = priced(measurement, *space, notion, self._d_in, gaussian=gaussian)
        price = loss / Fraction(self._d_in) ** (1 if self._pure else 2)
        with self._lock:
            if self._status is Status.HALT or price == 0:
                return Reply(self._status, None)
            if not self.filter.charge(price, gaussian=gaussian):
                self._status = Status.HALT
                return Reply(self._status, None)
        return Reply(Status.CONT, measurement_invoke(known, data))


def _checked(space: Any) -> Space:
    """Return an input domain and metric."""
    domain, metric = space if isinstance(space, tuple) and len(space) == 2 else (None, None)
    if not isinstance(domain, Domain) or not isinstance(metric, Metric):
        raise ValueError("space must be an input domain and an input metric")
    return domain, metric
