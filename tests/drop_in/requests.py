"""Random requests for numbers and vectors: never refused, never worse than OpenDP's own noise.

`python -m tests.drop_in.requests 300` runs so many and says how long the longest took.
"""

from __future__ import annotations

import math
import random
import sys
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import opendp.prelude as dp

from opendp_optimal import GapWarning, make_optimal_noise
from opendp_optimal.exact.halving import largest
from opendp_optimal.known import DiscreteGaussian, Gaussian, Geometric, Laplace
from opendp_optimal.losses.base import loss_of
from opendp_optimal.measure.anatomy import law_of
from opendp_optimal.measure.vector import VectorGuarantee

dp.enable_features("contrib")

MEASURES = {
    "pure": dp.max_divergence(),
    "approximate": dp.approximate(dp.max_divergence()),
    "zcdp": dp.zero_concentrated_divergence(),
    "approximate zcdp": dp.approximate(dp.zero_concentrated_divergence()),
}


@dataclass(frozen=True)
class Asked:
    """One request; for vectors with a length and a norm."""

    measure: str
    main: float
    delta: float
    loss: str
    integer: bool
    d_in: float
    size: int | None = None
    norm: str = "absolute"

    @property
    def distance(self) -> float:
        """In the type of the data."""
        return int(self.d_in) if self.integer else self.d_in

    def made(self, *, sized: bool = True) -> dp.Measurement:
        """What answers it; for vectors whose length the domain tells, or does not."""
        kind = int if self.integer else float
        domain: Any = dp.atom_domain(T=int) if self.integer else dp.atom_domain(T=float, nan=False)
        if self.size is not None:
            domain = dp.vector_domain(domain, size=self.size if sized else None)
        metric = getattr(dp, f"{self.norm}_distance")(T=kind)
        d_out = (self.main, self.delta) if "approximate" in self.measure else self.main
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GapWarning)
            return make_optimal_noise(
                *(domain, metric, self.distance, d_out),
                loss=self.loss,
                gap=0.02,
                output_measure=MEASURES[self.measure],
            )

    def native(self) -> float:
        """The least expected loss of OpenDP's own noise at this guarantee.

        Laplace noise on l1; where OpenDP refuses the norm, at the norm's factor. Gaussian noise on
        numbers and on l2: under approximate privacy by OpenDP's own conversion from zCDP.
        """
        concentrated = "zcdp" in self.measure
        size = self.size or 1
        factor = {"l2": math.sqrt(size), "linf": float(size)}.get(self.norm, 1.0)
        moved = factor * self.d_in
        if self.integer and self.norm == "l2":  # integers that move, move by 1 at least
            moved = min(moved, self.d_in**2)
        # Laplace noise under zCDP by OpenDP's own conversion: epsilon^2 / 2.
        rate = (math.sqrt(2 * self.main) if concentrated else self.main) / moved
        laws: list[Any] = [Geometric(rate) if self.integer else Laplace(rate)]
        rho = self.main if concentrated else _converted(self.main, self.delta)
        if rho > 0 and self.norm in ("absolute", "l2"):
            sigma = self.d_in / math.sqrt(2 * rho)
            laws.append(DiscreteGaussian(sigma) if self.integer else Gaussian(sigma))
        return size * min(law.expected_loss(loss_of(self.loss)) for law in laws)


def _converted(epsilon: float, delta: float) -> float:
    """The largest rho that OpenDP converts to this epsilon and delta; 0 without a delta."""
    if delta == 0:
        return 0.0
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def fits(rho: float) -> bool:
        one = dp.m.make_gaussian(*space, scale=1 / math.sqrt(2 * rho))
        cast = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(one), delta=delta)
        return bool(cast.map(1.0)[0] <= epsilon)

    return largest(fits, 1e-4 * min(epsilon, epsilon**2), 2 * epsilon, close=1e-6)


def asked(seed: int) -> Asked:
    """A random request: in turn for a number and for a vector."""
    draw = random.Random(seed)

    def log_uniform(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    measure = draw.choice(list(MEASURES))
    main = log_uniform(1e-3, 20.0 if "zcdp" in measure else 32.0)
    delta = log_uniform(1e-12, 0.1) if "approximate" in measure and draw.random() < 0.7 else 0.0
    integer = draw.random() < 0.5
    d_in = float(draw.choice([1, 1, 2, 7, 1000])) if integer else log_uniform(1e-3, 1e6)
    one = Asked(measure, main, delta, draw.choice(["l1", "l2"]), integer, d_in)
    if seed % 2 == 0:
        return one
    size = round(log_uniform(0.51, 50.49))
    return replace(one, size=size, norm=draw.choice(["l1", "l2", "linf"]))


def holds(request: Asked) -> tuple[float, float]:
    """Ask and release; return the loss and that of the best of OpenDP."""
    meas = request.made()
    zero = 0 if request.integer else 0.0
    for each in (meas, request.made(sized=False)) if request.size else (meas,):
        price = each.map(request.distance)
        main, delta = price if isinstance(price, tuple) else (price, 0.0)
        assert main <= request.main
        assert delta <= request.delta
        released = each([zero] * request.size if request.size else zero)
        assert request.size is None or len(released) == request.size
    guarantee = getattr(meas, "guarantee", None)
    if isinstance(guarantee, VectorGuarantee):
        assert guarantee.expected_loss is not None
        return guarantee.expected_loss, request.native()
    each = law_of(meas, vectors=True).expected_loss(loss_of(request.loss))
    return (request.size or 1) * each, request.native()


if __name__ == "__main__":
    longest = total = 0.0
    for seed in range(int(sys.argv[1])):
        started = time.process_time()
        try:
            ours, native = holds(asked(seed))
            said = f"{ours / native:.6f}"
            bad = ours > 1.001 * native
        except Exception as error:
            said, bad = f"{type(error).__name__}: {error}", True
        longest = max(longest, spent := time.process_time() - started)
        total += spent
        if bad or spent > 10:
            print(seed, asked(seed), said, f"{spent:.1f} s", flush=True)
    print(f"longest {longest:.1f} s, together {total:.0f} s of processor time")
