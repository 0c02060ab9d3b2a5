"""The law of one number of a vector of noise, against draws of the mechanism itself."""

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import make_optimal_noise
from opendp_optimal.extend import known, law_of, loss_of
from opendp_optimal.table.radial import RadialTable

dp.enable_features("contrib")

FLOAT, INT = dp.atom_domain(T=float, nan=False), dp.atom_domain(T=int)
L1, L2, LINF = (make(T=float) for make in (dp.l1_distance, dp.l2_distance, dp.linf_distance))
CASES = [
    ("staircase, l1", FLOAT, L1, 2, 1.0, (1.0, 0.0)),
    ("decay, l2", FLOAT, L2, 60, 1.0, (1.0, 1e-6)),
    ("gaussian, l2", FLOAT, LINF, 5000, 1.0, (1.0, 1e-6)),
    ("staircase, linf", FLOAT, LINF, 5, 7.0, (1.0, 0.0)),
    ("moves longer in the norm of the noise", FLOAT, LINF, 600, 1.0, (1.0, 1e-6)),
    ("integers, rounded", INT, L2, 3, 5.0, (1.0, 1e-6)),
    ("integers, linf", INT, dp.linf_distance(T=int), 5, 1, (1.0, 0.0)),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_draws_follow_the_law_of_one_number(case: tuple) -> None:
    _, atom, metric, size, d_in, target = case
    whole = atom is INT
    meas = make_optimal_noise(dp.vector_domain(atom, size=size), metric, d_in, target)
    law = law_of(meas, vectors=True)
    assert law.integer == whole
    # One number of each vector: these are independent.
    zeros = [0 if whole else 0.0] * size
    count = 200 if size < 100 else 50
    drawn = np.sort([meas(zeros)[k % size] for k in range(count)])
    seen = np.arange(1, count + 1) / count
    # Massart: further away than this once in 10^7 times.
    far = np.sqrt(np.log(2e7) / 2 / count)
    below = law.cdf(drawn - (1 if whole else 0))
    assert (law.cdf(drawn) - seen).min() > -far - 1 / count
    assert (below - seen).max() < far


def test_a_wrong_law_is_noticed() -> None:
    meas = make_optimal_noise(dp.vector_domain(FLOAT, size=5), LINF, 7.0, (1.0, 0.0))
    law = law_of(meas, vectors=True)
    other = known.Laplace(np.sqrt(2 / law.expected_loss(loss_of("l2"))))  # of the same variance
    at = np.linspace(-60, 60, 241)
    assert np.abs(law.cdf(at) - other.cdf(at)).max() > 0.03


@pytest.mark.parametrize(("norm", "delta"), [("l1", 0.0), ("l2", 0.0), ("linf", 0.0), ("l2", 1e-6)])
@pytest.mark.parametrize("size", [2, 7])
def test_the_variance_is_the_certified_one(norm: str, delta: float, size: int) -> None:
    from opendp_optimal import solve_radial

    table: RadialTable = solve_radial(1.0, delta, size, norm=norm, loss="l2", bound=False)
    law = table.coordinate(3.0)
    assert size * law.expected_loss(loss_of("l2")) == pytest.approx(9 * table.upper, rel=2e-3)
    assert getattr(law, "dependent", False) == (table.shape != "gaussian")
    assert law.cdf(0.0) == pytest.approx(0.5)


ROUNDED = [
    (dp.linf_distance(T=int), 5, 1, (8.0, 0.05)),
    (dp.linf_distance(T=int), 17, 1, (14.0, 0.05)),
    (dp.linf_distance(T=int), 2, 3, (4.0, 0.0)),
    (dp.linf_distance(T=int), 17, 1, (5.0, 1e-3)),
    (L2, 9, 2.5, (6.0, 1e-2)),
]


@pytest.mark.parametrize("loss", ["l1", "l2"])
@pytest.mark.parametrize("case", ROUNDED)
def test_integers_lose_what_is_stated(case: tuple, loss: str) -> None:
    """Rounding to integers counts exactly where the noise is about as wide as a step."""
    metric, size, d_in, target = case
    meas = make_optimal_noise(dp.vector_domain(INT, size=size), metric, d_in, target, loss=loss)
    stated = meas.guarantee.expected_loss
    law = law_of(meas, vectors=True)
    assert size * law.expected_loss(loss_of(loss)) == pytest.approx(stated, rel=1e-3)
    power = int(loss[1])
    lost = [sum(abs(x) ** power for x in meas([0] * size)) for _ in range(600)]
    assert abs(np.mean(lost) - stated) < 7 * np.std(lost) / np.sqrt(600)


def test_fewer_errors_where_integers_hardly_move() -> None:
    """What is lost by |x| is at most what is lost by its square, for integers."""
    space = dp.vector_domain(INT, size=5), dp.linf_distance(T=int)
    stated = [
        make_optimal_noise(*space, 1, (11.0, 0.05), loss=loss).guarantee.expected_loss
        for loss in ("l1", "l2")
    ]
    assert stated[0] <= stated[1] < 0.05


@pytest.mark.parametrize("moved", [1, 300, 5000])
@pytest.mark.parametrize("epsilon", [0.3, 5.0, 12.0])
def test_the_law_of_integers_that_move_far(moved: int, epsilon: float) -> None:
    from opendp_optimal import solve_radial

    asked = {"norm": "linf", "loss": "l1", "integer_sensitivity": moved, "bound": False}
    table: RadialTable = solve_radial(epsilon, 0.0, 3, **asked)
    lost = 3 * table.coordinate().expected_loss(loss_of("l1"))
    assert lost == pytest.approx(table.upper, rel=1e-3)


def test_vectors_of_any_length_have_no_law() -> None:
    meas = make_optimal_noise(dp.vector_domain(FLOAT), L2, 1.0, (1.0, 1e-6))
    with pytest.raises(ValueError, match="fixes the length"):
        law_of(meas, vectors=True)
