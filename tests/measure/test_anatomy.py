"""What a measurement is made of, which noise is in it, what it costs, and how it is named."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import make_optimal_bounded_noise, make_optimal_noise, solve
from opendp_optimal.budget.events import Approximate, Concentrated, Gaussian, Profile
from opendp_optimal.extend import chain_of, event_of, law_of, postprocess, record_of
from opendp_optimal.measure.anatomy import as_gaussian
from opendp_optimal.measure.gaussian import make_grid_gaussian, make_grid_laplace

dp.enable_features("contrib", "honest-but-curious")

WHOLE = dp.atom_domain(T=int), dp.absolute_distance(T=int)
REAL = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
ROWS = dp.vector_domain(dp.atom_domain(bounds=(0, 9))), dp.symmetric_distance()


def same(x: Any) -> Any:
    return x


def test_the_parts_of_a_chain_in_order() -> None:
    noise = make_optimal_noise(*WHOLE, 9, (1.0, 1e-6))
    clamp = dp.t.make_clamp(*ROWS, bounds=(0, 5))
    total = dp.t.make_sum(*clamp.output_space)
    chain = postprocess((clamp >> total) >> noise, same, "i32")
    parts = chain_of(chain)
    assert parts[:2] == (clamp, total)
    assert parts[2] is noise
    assert len(parts) == 4
    cast = dp.c.make_approximate(dp.m.make_laplace(*WHOLE, scale=1.0))
    assert len(chain_of(cast)) == 1
    assert chain_of(noise) == (noise,)


@pytest.mark.parametrize("space", [WHOLE, REAL])
@pytest.mark.parametrize("d_out", [(1.0, 1e-3), 1.0, (0.5, 0.2)])
def test_the_law_is_that_of_the_draws(space: Any, d_out: Any) -> None:
    unit = 3 if space is WHOLE else 2.5
    meas = make_optimal_noise(*space, unit, d_out)
    law = law_of(meas)
    rng_free = np.array([meas(0 if space is WHOLE else 0.0) for _ in range(4000)])
    for x in (-2 * unit, -0.4 * unit, 0.0, 0.7 * unit, 3 * unit):
        chance = float(law.cdf(np.array([x]))[0])
        # A false alarm once in 10^12 (Hoeffding).
        assert abs(float((rng_free <= x).mean()) - chance) < math.sqrt(28 / (2 * 4000))
    assert law.integer == (space is WHOLE)
    far = np.array([-law.margin, law.margin])
    assert law.cdf(far)[0] < 1e-9
    assert law.cdf(far)[1] > 1 - 1e-9


def test_a_tail_goes_on_as_the_noise_does() -> None:
    law = law_of(make_optimal_noise(*WHOLE, 1, 1.0))
    x = np.arange(-35, 1)
    mass = np.diff(law.cdf(x))
    assert mass.min() > 0
    assert np.all(np.abs(np.diff(np.log(mass))) <= 1 + 1e-9)


def test_what_has_no_law_is_refused() -> None:
    laplace = dp.m.make_laplace(*WHOLE, scale=1.0)
    vector = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    for meas in (
        postprocess(laplace, same, "i32"),
        dp.m.make_laplace(*vector, scale=1.0),
        make_optimal_bounded_noise(*WHOLE, 1, 1.0, range=(0, 5)),
    ):
        with pytest.raises(ValueError, match="measurement must be"):
            law_of(meas)


def test_events_by_value() -> None:
    one, two = (make_optimal_noise(*WHOLE, 2, (1.0, 1e-6)) for _ in range(2))
    assert event_of(one) == event_of(two) == event_of(one, 2) != event_of(one, 1)
    assert isinstance(event_of(one), Profile)
    chain = dp.t.make_sum(*ROWS) >> make_optimal_noise(*WHOLE, 9, (1.0, 1e-6))
    assert event_of(postprocess(chain, same, "i32"), 1) == event_of(chain, 1)
    assert event_of(dp.m.make_laplace(*WHOLE, scale=2.0), 1) == Approximate(0.5, 0.0)
    gauss = dp.m.make_gaussian(*WHOLE, scale=1.0)
    assert event_of(gauss, 1) == event_of(dp.c.make_approximate(gauss), 1) != event_of(gauss, 2)
    assert event_of(dp.m.make_gaussian(*WHOLE, scale=1e9), 10**9) == Concentrated(0.5)
    assert event_of(make_grid_gaussian(*WHOLE, 0.5), 2) == Gaussian(2.0)
    assert event_of(make_grid_laplace(*WHOLE, 0.5), 2) == Approximate(1.0)
    table = solve(1.0, 1e-6)
    assert event_of(table) == event_of(table)
    with pytest.raises(ValueError, match="d_in must be given"):
        event_of(chain)


def test_attributes_written_by_hand_are_not_believed() -> None:
    table = solve(0.1, 0.0, integer_sensitivity=1)
    loud = dp.m.make_laplace(*WHOLE, scale=0.01)
    quiet = make_optimal_noise(*WHOLE, 1, 0.1)
    loud.table, loud.guarantee = table, quiet.guarantee
    assert event_of(loud, 1).epsilon == pytest.approx(100)  # type: ignore[attr-defined]
    loud.__opendp_dict__ = postprocess(quiet, same, "i32").__opendp_dict__
    with pytest.raises(ValueError, match="not that of its parts"):
        event_of(loud, 1)
    quiet.table = None
    assert isinstance(event_of(quiet), Profile)
    loud.__opendp_dict__ = (dp.t.make_sum(*ROWS) >> make_grid_gaussian(*WHOLE, 1.0)).__opendp_dict__
    rebuilt = as_gaussian(loud)
    assert rebuilt is not None
    assert rebuilt is not loud
    assert rebuilt.input_domain == ROWS[0]


def test_a_record_says_what_is_asked_and_nothing_else() -> None:
    def chain(scale: float, hi: int) -> dp.Measurement:
        rows = dp.vector_domain(dp.atom_domain(bounds=(0, hi))), dp.symmetric_distance()
        made: dp.Measurement = dp.t.make_sum(*rows) >> dp.m.make_laplace(*WHOLE, scale=scale)
        return made

    assert record_of(chain(1.0, 9)) == record_of(chain(1.0, 9))
    texts = [record_of(chain(1.0, 9)), record_of(chain(1.0, 8)), record_of(chain(1.5, 9))]
    made = [
        make_optimal_noise(*WHOLE, 2, (1.0, 1e-6)),
        make_optimal_noise(*WHOLE, 1, (1.0, 1e-6)),
        make_optimal_noise(*WHOLE, 1, (1.0, 1e-6), loss="l2"),
        make_optimal_noise(*REAL, 1.0, (1.0, 1e-6)),
        make_optimal_bounded_noise(*WHOLE, 1, 1.0, range=(0, 5)),
        make_grid_gaussian(*WHOLE, 0.5),
        make_grid_laplace(*WHOLE, 0.5),
        make_grid_laplace(*REAL, 0.5),
        postprocess(make_grid_laplace(*REAL, 0.5), same, "f64", record="same"),
    ]
    texts += [record_of(each) for each in made]
    assert len(set(texts)) == len(texts)
    assert record_of(make_optimal_noise(*WHOLE, 2, (1.0, 1e-6))) == texts[3]


def test_what_cannot_be_identified_has_no_record() -> None:
    laplace = dp.m.make_laplace(*WHOLE, scale=1.0)
    user = dp.m.make_user_measurement(*WHOLE, dp.max_divergence(), same, lambda d: 1.0, TO="i32")
    for meas in (postprocess(laplace, same, "i32"), user, dp.c.make_approximate(user)):
        with pytest.raises(ValueError, match="identified"):
            record_of(meas)
    with pytest.raises(ValueError, match="must be a measurement"):
        record_of("laplace")  # type: ignore[arg-type]


def test_frames_are_identified_by_their_steps_and_spaces() -> None:
    from decimal import Decimal

    from opendp_optimal.measure.frames.aggregates import make_frame_histogram, make_frame_sum

    def space(name: str) -> tuple[dp.Domain, dp.Metric]:
        series = dp.series_domain(name, dp.option_domain(dp.atom_domain(T=float)))
        return dp.lazyframe_domain([series]), dp.symmetric_distance()

    def noisy(step: dp.Transformation) -> dp.Measurement:
        made: dp.Measurement = step >> make_grid_laplace(*step.output_space, 1.0)
        return made

    steps = [
        make_frame_sum(*space("age"), "age", (0.0, 9.0)),
        make_frame_sum(*space("age"), "age", (0.0, 8.0)),
        make_frame_sum(*space("size"), "size", (0.0, 9.0)),
    ]
    texts = [record_of(noisy(step)) for step in steps]
    assert len(set(texts)) == 3
    assert record_of(noisy(make_frame_sum(*space("age"), "age", (0.0, 9.0)))) == texts[0]
    table = make_frame_histogram(*space("age"), "age", [Decimal(1)])
    counts = table >> dp.m.make_laplace(*table.output_space, scale=1.0)
    with pytest.raises(ValueError, match="identified"):
        record_of(counts)


def test_a_cast_is_priced_by_what_is_in_it() -> None:
    pure = make_optimal_noise(*WHOLE, 1, 1.0)
    for cast in (dp.c.make_pureDP_to_zCDP(pure), dp.c.make_approximate(pure)):
        assert event_of(cast, 1) == event_of(pure, 1)


def test_a_record_that_is_not_that_of_the_measurement() -> None:
    """What a record says must be what OpenDP's constructors make of it."""
    one, two = (dp.m.make_laplace(*REAL, scale=scale) for scale in (1.0, 2.0))
    one.__opendp_dict__ = two.__opendp_dict__
    with pytest.raises(ValueError, match="not that of its parts"):
        event_of(one, 1.0)
    with pytest.raises(ValueError, match="not that of its parts"):
        event_of(dp.c.make_approximate(one), 1.0)
