"""Random requests for single numbers: never refused, never worse than OpenDP's own noise.

`python -m tests.drop_in.requests 300` runs so many and says how long the longest took.
"""

from __future__ import annotations

import math
import random
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import opendp.prelude as dp

from opendp_optimal import GapWarning, make_optimal_noise
from opendp_optimal.known import DiscreteGaussian, Gaussian, Geometric, Laplace
from opendp_optimal.losses.base import parse
from opendp_optimal.measure.anatomy import law_of

dp.enable_features("contrib")

MEASURES = {
    "pure": dp.max_divergence(),
    "approximate": dp.approximate(dp.max_divergence()),
    "zcdp": dp.zero_concentrated_divergence(),
    "approximate zcdp": dp.approximate(dp.zero_concentrated_divergence()),
}


@dataclass(frozen=True)
class Asked:
    """One request."""

    measure: str
    main: float
    delta: float
    loss: str
    integer: bool
    d_in: float

    def made(self) -> dp.Measurement:
        """What answers it."""
        kind = int if self.integer else float
        domain = dp.atom_domain(T=int) if self.integer else dp.atom_domain(T=float, nan=False)
        d_out = (self.main, self.delta) if "approximate" in self.measure else self.main
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GapWarning)
            return make_optimal_noise(
                *(domain, dp.absolute_distance(T=kind), kind(self.d_in), d_out),
                loss=self.loss,
                gap=0.02,
                output_measure=MEASURES[self.measure],
            )

    def native(self) -> float:
        """The least expected loss of OpenDP's own noise at this guarantee."""
        loss, d_in = parse(self.loss), self.d_in
        laws: list[Any] = []
        if "zcdp" in self.measure:  # Laplace noise by OpenDP's own conversion: epsilon^2 / 2
            sigma, rate = d_in / math.sqrt(2 * self.main), math.sqrt(2 * self.main) / d_in
            laws = [DiscreteGaussian(sigma) if self.integer else Gaussian(sigma)]
        else:
            rate = self.main / d_in
        laws.append(Geometric(rate) if self.integer else Laplace(rate))
        return min(law.expected_loss(loss) for law in laws)


def asked(seed: int) -> Asked:
    """A random request."""
    draw = random.Random(seed)

    def log_uniform(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    measure = draw.choice(list(MEASURES))
    main = log_uniform(1e-3, 20.0 if "zcdp" in measure else 32.0)
    delta = log_uniform(1e-12, 0.1) if "approximate" in measure and draw.random() < 0.7 else 0.0
    integer = draw.random() < 0.5
    d_in = float(draw.choice([1, 1, 2, 7, 1000])) if integer else log_uniform(1e-3, 1e6)
    return Asked(measure, main, delta, draw.choice(["l1", "l2"]), integer, d_in)


def holds(request: Asked) -> tuple[float, float]:
    """Ask; return the loss and that of the best of OpenDP."""
    meas = request.made()
    price = meas.map(int(request.d_in) if request.integer else request.d_in)
    main, delta = price if isinstance(price, tuple) else (price, 0.0)
    assert main <= request.main
    assert delta <= request.delta
    return law_of(meas).expected_loss(parse(request.loss)), request.native()


if __name__ == "__main__":
    longest = 0.0
    for seed in range(int(sys.argv[1])):
        started = time.process_time()
        try:
            ours, native = holds(asked(seed))
            said = f"{ours / native:.6f}"
            bad = ours > 1.001 * native
        except Exception as error:
            said, bad = f"{type(error).__name__}: {error}", True
        longest = max(longest, spent := time.process_time() - started)
        if bad or spent > 10:
            print(seed, asked(seed), said, f"{spent:.1f} s", flush=True)
    print(f"longest {longest:.1f} s of processor time")
