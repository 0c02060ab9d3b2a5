"""Every measurement of the core and of every installed plugin, ready to be attacked.

Registered mechanisms are found through the plugins; what they need is filled in by the names of
their parameters, so that a new mechanism is attacked without a word here. One that cannot be
filled in fails the tests with its name: add its parameters to ``VALUES`` or a case to ``CASES``.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import opendp.prelude as dp

import opendp_optimal
from opendp_optimal import make_optimal_bounded_noise, make_optimal_noise
from tests.attacks.mechanisms_more import BUILT, NOT_RELEASES, built

dp.enable_features("contrib", "honest-but-curious")

VALUES: dict[str, Any] = {
    "epsilon": 1.0,
    "rho": 0.5,
    "scale": 1.0,
    "k": 3,
    "lo": 0,
    "hi": 8,
    "range": (0, 8),
    "bounds": (0.0, 8.0),
    "size": 3,
    "d_in": 1,
    "d_out": (1.0, 1e-3),
    "delta": 1e-3,
}
"""What a required parameter of this name is given, whatever the mechanism."""

REAL = (dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float))
WHOLE = (dp.atom_domain(T=int), dp.absolute_distance(T=int))
REALS = (
    dp.vector_domain(dp.atom_domain(T=float, nan=False)),
    dp.symmetric_distance(),
)
LARGEST = 1.7976931348623157e308
SPACES = {"real": (REAL, 3.0, 4.0), "whole": (WHOLE, 3, 4)}


@dataclass(frozen=True)
class Case:
    """A measurement, two neighbours at distance 1, and its cost between them."""

    name: str
    release: Any
    x: Any
    x_prime: Any
    epsilon: float
    delta: float

    @property
    def extremes(self) -> list[Any]:
        """Inputs at the edges of the domain."""
        top, tiny = LARGEST, 5e-324
        if isinstance(self.x, float):
            huge = [top, -top, float("inf"), float("-inf"), 2.0**53 + 2]
            return [*huge, tiny, -tiny, -0.0, 1e-310]
        if isinstance(self.x, int):
            return [2**31 - 1, -(2**31), 0]
        if isinstance(self.x[0], int):
            return [[v for _ in self.x] for v in (2**31 - 1, -(2**31), 0)]
        return [[v for _ in self.x] for v in (top, -top, float("inf"), tiny, -0.0)]


def _price(measurement: Any, d_in: Any) -> tuple[float, float]:
    cost = measurement.map(d_in)
    if isinstance(cost, tuple):
        return float(cost[0]), float(cost[1])
    if "ZeroConcentrated" in str(measurement.output_measure):
        # (rho + 2 sqrt(rho log(1/delta)), delta): a valid conversion of concentrated privacy.
        delta = 1e-3
        return cost + 2 * math.sqrt(cost * math.log(1 / delta)), delta
    return float(cost), 0.0


def _deferred(make: Callable[..., Any], space: Any, options: dict[str, Any], d_in: Any) -> Any:
    deferred = make(*space, **options)
    return deferred.fix(d_in, VALUES["d_out"], output_measure=dp.approximate(dp.max_divergence()))


def _filled(name: str, make: Callable[..., Any]) -> Iterator[Case]:
    parameters = inspect.signature(make).parameters.values()
    needed = [
        p.name
        for p in list(parameters)[2:]
        if p.default is p.empty or p.name in ("range", "lo", "hi")
    ]
    options = {key: VALUES[key] for key in needed if key in VALUES}
    reasons = []
    vectors = {"vector": (REALS, [3.0, 3.0, 3.0], [3.0, 3.0])}
    for kind, (space, x, x_prime) in {**SPACES, **vectors}.items():
        fitted = {
            key: _as(kind, value) if key in ("lo", "hi", "range") else value
            for key, value in options.items()
        }
        try:
            made = make(*space, **fitted)
            if isinstance(made, opendp_optimal.Deferred):
                made = _deferred(make, space, fitted, 1)
            epsilon, delta = _price(made, 1.0 if kind == "real" else 1)
            made(x)
        except Exception as error:  # the space does not fit; at least one must
            reasons.append(f"{kind}: {error}")
            continue
        yield Case(f"{name}[{kind}]", made, x, x_prime, epsilon, delta)
        reasons = []
    if reasons and len(reasons) == 3:
        raise AssertionError(f"mechanism {name} cannot be filled in: {reasons}")


def _as(kind: str, value: Any) -> Any:
    convert = int if kind == "whole" else float
    return tuple(convert(v) for v in value) if isinstance(value, tuple) else convert(value)


def _vectors() -> Iterator[Case]:
    floats = dp.vector_domain(dp.atom_domain(T=float, nan=False), 2), dp.l1_distance(T=float)
    made = make_optimal_noise(*floats, 1.0, (1.0, 1e-3), changed=1)
    yield Case("make_optimal_noise[vector]", made, [3.0, 0.0], [4.0, 0.0], *made.map(1.0))
    wholes = dp.vector_domain(dp.atom_domain(T=int), 2), dp.l1_distance(T=int)
    made = make_optimal_noise(*wholes, 1, (1.0, 1e-3))
    yield Case("make_optimal_noise[integer vector]", made, [3, 0], [4, 0], *made.map(1))
    floats = dp.vector_domain(dp.atom_domain(T=float, nan=False), 3), dp.l2_distance(T=float)
    made = make_optimal_noise(*floats, 1.0, (1.0, 1e-3), loss="l2")
    yield Case("make_optimal_noise[l2]", made, [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], *made.map(1.0))
    made = make_optimal_noise(*floats, 1.0, (4.0, 1e-2), loss="l2")
    assert made.guarantee.chosen == "steps in the l2 norm"
    yield Case("make_optimal_noise[steps]", made, [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], *made.map(1.0))
    wholes = dp.vector_domain(dp.atom_domain(T=int), 2), dp.linf_distance(T=int)
    made = make_optimal_noise(*wholes, 2, (1.0, 1e-3), loss="l2")
    yield Case("make_optimal_noise[integer linf]", made, [0, 0], [2, -2], *made.map(2))
    made = opendp_optimal.make_joint([REALS >> dp.t.then_count()] * 2, 1, (1.0, 1e-3))
    yield Case("make_joint[counts]", made, [3.0, 3.0, 3.0], [3.0, 3.0], *made.map(1))
    sums = [REALS >> dp.t.then_clamp((0.0, top)) >> dp.t.then_sum() for top in (1.0, 4.0)]
    made = opendp_optimal.make_joint(sums, 1, (1.0, 1e-3))
    yield Case("make_joint", made, [3.0, 3.0, 3.0], [3.0, 3.0], *made.map(1))


def _more() -> Iterator[Case]:
    pure = make_optimal_noise(*REAL, 1.0, 1.0)
    yield Case("make_optimal_noise[pure]", pure, 3.0, 4.0, pure.map(1.0), 0.0)
    pure = make_optimal_noise(*WHOLE, 1, 1.0)
    yield Case("make_optimal_noise[pure integer]", pure, 3, 4, pure.map(1), 0.0)
    wide = make_optimal_noise(*REAL, 1.0, (2.0, 0.05))
    yield Case("make_optimal_noise[large delta]", wide, 0.0, 1.0, *wide.map(1.0))
    bounded = make_optimal_bounded_noise(*REAL, 1.0, (1.0, 1e-2), range=(0.0, 4.0))
    yield Case("make_optimal_bounded_noise[real]", bounded, 1.0, 2.0, *bounded.map(1.0))


def _spiked() -> Iterator[Case]:
    """Large epsilons, where nearly all noise is narrower than a cell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", opendp_optimal.GapWarning)
        made = make_optimal_noise(*REAL, 1.0, (20.0, 1e-6))
        far = make_optimal_noise(*WHOLE, 5000, 17.0)
    assert made.table.spike is not None
    assert far.table.spike is not None
    yield Case("make_optimal_noise[spiked]", made, 3.0, 4.0, *made.map(1.0))
    yield Case("make_optimal_noise[integers that move far]", far, 0, 5000, far.map(5000), 0.0)


def _closed() -> Iterator[Case]:
    """Noise in closed form beside the registered Gaussian: real Laplace noise, rounded."""
    laplace = opendp_optimal.make_concentrated_noise
    for kind, (space, x, x_prime) in SPACES.items():
        made = laplace(*space, x_prime - x, 0.5, "laplace")
        price = _price(made, x_prime - x)
        yield Case(f"make_concentrated_noise[laplace, {kind}]", made, x, x_prime, *price)


@cache
def cases() -> tuple[Case, ...]:
    """All of them, by discovery."""
    found = [*_more(), *_spiked(), *_closed(), *_vectors()]
    for name, release, x, x_prime, distance in built():
        found.append(Case(name, release, x, x_prime, *_price(release, distance)))
    for name, mechanism in opendp_optimal.load_plugins().mechanisms.items():
        if f"make_{name}" not in (*BUILT, *NOT_RELEASES):
            found += _filled(name, mechanism.value)
    return tuple(found)


@cache
def naive(kind: str) -> Callable[[float], float]:
    """A textbook implementation with a known hole, to show that an attack works."""
    import numpy as np

    rng = np.random.default_rng()

    def porous(x: float) -> float:
        return float(x + rng.laplace())

    def coarse(x: float) -> float:
        step = float(np.spacing(max(abs(x), 1.0)))
        return float(x + np.rint(rng.laplace() / step) * step)

    def infinite(x: float) -> float:
        with np.errstate(all="ignore"):
            noisy = x + rng.laplace() * LARGEST / 4
        return float(noisy if np.isfinite(noisy) else x)

    def flushed(x: float) -> float:
        with np.errstate(all="ignore"):
            return float(x + rng.laplace() * 5e-324 * 0.5)

    return {"porous": porous, "coarse": coarse, "infinite": infinite, "flushed": flushed}[kind]
