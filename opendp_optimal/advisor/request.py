"""What is asked of the advisor, and what a candidate for an answer is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opendp_optimal.checks import finite, positive, whole
from opendp_optimal.lazy import late
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.measure import dp
from opendp_optimal.problem.noise import MIN_EPSILON, check_target
from opendp_optimal.table import NoiseTable

MOST_RELEASES = 1_000_000
MOST_NUMBERS = 1 << 20
MAX_RHO = 1e3
_CLOSE = 1e-9
_SMALL, _LARGE = 1e-300, 1e300
"""Losses of one error between these, those of much smaller and much larger errors are floats."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A query, a privacy target and a loss.

    :param epsilon: privacy loss of all releases together; infinite where a rho is given
    :param delta: chance of a larger loss, of all releases together; 0 for pure privacy
    :param sensitivity: how far the answers of neighbouring data can be apart: for vectors in their
        norm, for several queries each of them
    :param integer: whether the query answers integers
    :param bounds: smallest and largest answer, where they are known
    :param loss: of the error of each release, in the units of the query
    :param prior: chances of the answers: of each integer within the bounds, or of equal parts of
        a real range; uniform if None
    :param releases: how many releases of this kind share the budget
    :param gap: largest acceptable certified gap of optimised tables
    :param rho: in place of epsilon, the loss under zCDP of all releases together
    :param length: of vectors; None for single numbers
    :param norm: in which vectors move: "l1", "l2" or "linf"
    :param queries: how many such queries are asked together in a release
    """

    epsilon: float = math.inf
    delta: float = 0.0
    sensitivity: float = 1.0
    integer: bool = False
    bounds: tuple[float, float] | None = None
    loss: Loss = field(default_factory=lambda: loss_of("l1"))
    prior: tuple[float, ...] | None = None
    releases: int = 1
    gap: float = 1e-3
    rho: float | None = None
    length: int | None = None
    norm: str = "l2"
    queries: int = 1

    def __post_init__(self) -> None:
        """Check arguments at the door."""
        self._check_target()
        for name in ("sensitivity", "gap"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        if not self.in_floats(self.sensitivity):
            wanted = "larger" if self.sensitivity < 1 else "smaller"
            raise ValueError(
                f"sensitivity ({self.sensitivity}) must be {wanted}: floats do not hold its "
                f"{self.loss.name} loss"
            )
        if not isinstance(self.integer, bool):
            raise ValueError(f"integer ({self.integer!r}) must be True or False")
        count = whole("releases", self.releases, most=MOST_RELEASES)
        object.__setattr__(self, "releases", count)
        if self.integer and self.sensitivity != int(self.sensitivity):
            raise ValueError(
                f"sensitivity ({self.sensitivity}) must be an integer for integer queries"
            )
        if self.bounds is not None:
            object.__setattr__(self, "bounds", self._checked_bounds())
        if self.prior is not None:
            object.__setattr__(self, "prior", self._checked_prior(self.prior))
        self._check_shape()

    def _check_target(self) -> None:
        object.__setattr__(self, "delta", finite("delta", self.delta))
        if self.rho is None:
            object.__setattr__(self, "epsilon", finite("epsilon", self.epsilon))
            check_target(self.epsilon, self.delta)
            return
        if self.epsilon != math.inf:
            raise ValueError(f"give one of epsilon ({self.epsilon}) and rho ({self.rho})")
        rho = positive("rho", self.rho)
        if not MIN_EPSILON**2 <= rho <= MAX_RHO:
            raise ValueError(f"rho ({rho}) must be in [{MIN_EPSILON**2:g}, {MAX_RHO:g}]")
        object.__setattr__(self, "rho", rho)
        check_target(MIN_EPSILON, self.delta)

    def _check_shape(self) -> None:
        object.__setattr__(self, "queries", whole("queries", self.queries, most=MOST_NUMBERS))
        if self.norm not in ("l1", "l2", "linf"):
            raise ValueError(f"norm ({self.norm!r}) must be l1, l2 or linf")
        if self.length is not None:
            object.__setattr__(self, "length", whole("size", self.length, most=MOST_NUMBERS))
            if self.queries > 1:
                raise ValueError(
                    f"queries ({self.queries}) must be of single numbers: without size"
                )
        if self.wide and self.bounds is not None:
            raise ValueError("bounds must come without rho, size and queries")
        if self.wide and not self.loss.endless:
            raise ValueError(f"loss ({self.loss.name}) must be l1 or l2 with rho, size or queries")
        if self.queries > 1 and self.loss.power != 2:
            raise ValueError(
                f"loss ({self.loss.name}) must be l2 for queries ({self.queries}): noise for all "
                "of them is made for the squared error"
            )

    def in_floats(self, error: float) -> bool:
        """Whether floats hold the losses of errors about as large, for losses that are a power."""
        power = max(1, self.loss.power)
        return bool(_SMALL ** (1 / power) <= error <= _LARGE ** (1 / power))

    @property
    def wide(self) -> bool:
        """Whether it is for more than one number, or under zCDP."""
        return self.rho is not None or self.length is not None or self.queries > 1

    def _checked_bounds(self) -> tuple[float, float]:
        given: Any = self.bounds
        try:
            low, high = given
        except (TypeError, ValueError):
            raise ValueError(f"bounds ({given!r}) must be a pair (lo, hi)") from None
        low, high = finite("bounds", low), finite("bounds", high)
        if not low < high:
            raise ValueError(f"bounds ({low:g}, {high:g}) must have lo below hi")
        if self.integer and (low != int(low) or high != int(high)):
            raise ValueError(f"bounds ({low:g}, {high:g}) must be integers for integer queries")
        return low, high

    def _checked_prior(self, prior: Sequence[float]) -> tuple[float, ...]:
        if self.bounds is None:
            raise ValueError("prior must come with bounds: it weighs the answers within them")
        values = tuple(finite("prior", p) for p in prior)
        if self.integer and len(values) != self.size:
            raise ValueError(
                f"prior (of length {len(values)}) must have {self.size} chances, one for each "
                "integer within the bounds"
            )
        if not values or min(values) < 0:
            raise ValueError("prior must not be empty or have negative chances")
        if abs(math.fsum(values) - 1) > _CLOSE:
            raise ValueError(f"prior must add up to 1, not to {math.fsum(values):.9g}")
        return values

    @property
    def size(self) -> int:
        """Number of integers within the bounds; 0 if there are none."""
        if self.bounds is None or not self.integer:
            return 0
        return int(self.bounds[1]) - int(self.bounds[0]) + 1

    @property
    def distance(self) -> float:
        """The sensitivity as it stands in a call: an integer for integers."""
        return int(self.sensitivity) if self.integer else self.sensitivity

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds as they stand in a call: integers for integers."""
        assert self.bounds is not None
        low, high = self.bounds
        return (int(low), int(high)) if self.integer else (low, high)


@dataclass(frozen=True)
class Call:
    """A constructor and its arguments: can be called, and written.

    :param place: where the constructor is, ``module:function``
    :param arguments: those after the domain and the metric, by name

    >>> print(Call("opendp.measurements:make_laplace", {"scale": 2.0}))
    dp.m.make_laplace(input_domain, input_metric, scale=2.0)
    """

    place: str
    arguments: Mapping[str, Any]

    def __call__(self, input_domain: dp.Domain, input_metric: dp.Metric) -> dp.Measurement:
        """Make the measurement."""
        made: dp.Measurement = late(self.place)(input_domain, input_metric, **self.arguments)
        return made

    def __str__(self) -> str:
        """The call in words; what has no short text is called by the name of its argument."""
        given = (f"{name}={_spelt(name, value)}" for name, value in self.arguments.items())
        face = "dp.m" if self.place.startswith("opendp.") else "opendp_optimal"
        function = self.place.partition(":")[2]
        return f"{face}.{function}({', '.join(['input_domain', 'input_metric', *given])})"


def _spelt(name: str, value: Any) -> str:
    """The text of an argument; measures of privacy as the calls that make them."""
    if name == "prior":
        return name
    if isinstance(value, Loss):
        return value.spelling
    if not isinstance(value, dp.Measure):
        return repr(value)
    inner = "dp.zero_concentrated_divergence()"
    return f"dp.approximate({inner})" if str(value.type).startswith("Approximate") else inner


@dataclass(frozen=True)
class Noise:
    """What a candidate adds whatever the answer: for plugins that post-process it.

    :param kind: "laplace", "gaussian" or "table"; discrete where the request is for integers
    :param scale: of Laplace and Gaussian noise; for a real table, what its noise is multiplied by
    :param table: the table, where there is one
    """

    kind: str
    scale: float
    table: NoiseTable | None = None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One mechanism that satisfies a request.

    :param name: what it is called, the same in every request
    :param loss: expected loss of each release: for vectors summed over coordinates, for several
        queries of each of them
    :param make: makes it: takes ``(input_domain, input_metric)``, returns a measurement
    :param constructor: the same as the text of a call; by default what ``str(make)`` says
    :param epsilon: privacy loss of a single release; infinite where only a rho bounds it
    :param delta: chance of a larger one, of a single release
    :param note: what else to know before using it
    :param noise: what is added, where it does not depend on the answer
    :param by: the distribution that proposed it; filled in by the host
    :param together: whether ``epsilon`` and ``delta`` are of all releases together
    """

    name: str
    loss: float
    make: Callable[[dp.Domain, dp.Metric], dp.Measurement] = field(repr=False, compare=False)
    constructor: str = ""
    epsilon: float
    delta: float = 0.0
    note: str = ""
    noise: Noise | None = field(default=None, repr=False)
    by: str = ""
    together: bool = False

    def __post_init__(self) -> None:
        """Write the call down where it was not given in words."""
        if not callable(self.make):
            raise ValueError(f"make ({self.make!r}) must be a function of a domain and a metric")
        if not self.constructor:
            object.__setattr__(self, "constructor", str(self.make))


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A proof that no mechanism of some kind has a smaller expected loss.

    :param value: no expected loss is below it
    :param additive: whether it speaks of noise that is added whatever the answer is, only
    :param note: where it comes from
    :param by: the distribution that proposed it; filled in by the host
    """

    value: float
    additive: bool
    note: str
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class Remark:
    """Something that could not be compared, and why.

    :param text: one line
    :param by: the distribution that says so; filled in by the host
    """

    text: str
    by: str = ""


Proposal = Candidate | Bound | Remark


def budget(epsilon: float, delta: float) -> float | tuple[float, float]:
    """A privacy target as constructors take it: a single epsilon without delta.

    :param epsilon: privacy loss
    :param delta: chance of a larger one
    """
    return (epsilon, delta) if delta else epsilon
