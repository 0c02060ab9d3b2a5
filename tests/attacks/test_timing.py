"""Time does not depend on the value or on the noise beyond the bound stated in the docs.

Medians of the processor time of interleaved batches are compared, so that a loaded machine slows
all of them alike, and the best of several attempts counts: a real dependence fails them all.
"""

import statistics
import time

import numpy as np
import pytest

from opendp_optimal import make_optimal_noise, solve
from opendp_optimal.sample.bounded import Listed, Rounding, Shifting
from opendp_optimal.sample.weights import WeightedSampler
from tests.attacks.mechanisms import REAL, cases

BOUND = 2.0
"""Of the medians of any two values, and of little and of much noise."""
ALIKE = 3.0
"""Of long vectors whose draws are all alike: a search for the same again is short."""
ATTEMPTS = 6


def ratio(tasks, rounds=40, repeat=25):
    """The largest ratio of the medians of the tasks' times."""
    times = [[] for _ in tasks]
    for _ in range(rounds):
        for task, mine in zip(tasks, times, strict=True):
            started = time.thread_time_ns()
            for _ in range(repeat):
                task()
            mine.append(time.thread_time_ns() - started)
    medians = [statistics.median(mine) for mine in times]
    return max(medians) / min(medians)


def least(measure, bound=BOUND):
    """The best of several attempts, the first that is good enough."""
    found = []
    for _ in range(ATTEMPTS):
        found.append(measure())
        if found[-1] <= bound:
            break
    return min(found)


def best_ratio(tasks, bound=BOUND, **options):
    return least(lambda: ratio(tasks, **options), bound)


def values(case):
    """Small and large, long and short: what a release could take its time for."""
    if isinstance(case.x, float):
        return [case.x, case.x_prime, 0.0, 1.0, -1234.5, 1e-300, 5e-324, 1e15, 1e300, -1.7e308]
    if isinstance(case.x, int):
        return [case.x, case.x_prime, 0, 1, -77, 2**31 - 1, -(2**31)]
    return [case.x, *case.extremes]


def by_value(case, rounds=20):
    """How much longer the slowest value takes than the fastest."""
    case.release(case.x)
    quick = "Direct" in type(case.release).__name__
    tasks = [lambda v=v: case.release(v) for v in values(case)]
    return best_ratio(tasks, rounds=rounds, repeat=25 if quick else 3)


def noise_of(case, released):
    apart = np.asarray(released, float).sum() - np.asarray(case.x, float).sum()
    return abs(float(apart))


def by_noise(case, releases=600):
    """How much longer much noise takes than little: the quarters at both ends, either way."""

    def measure():
        spent, sizes = np.empty(releases), np.empty(releases)
        for i in range(releases):
            started = time.thread_time_ns()
            released = case.release(case.x)
            spent[i] = time.thread_time_ns() - started
            sizes[i] = noise_of(case, released)
        low, high = np.quantile(sizes, [0.25, 0.75])
        little, much = np.median(spent[sizes <= low]), np.median(spent[sizes >= high])
        return float(max(little / much, much / little))

    return least(measure)


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.name)
def test_releases_of_any_value_take_the_same_time(case):
    assert by_value(case) <= BOUND


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.name)
def test_releases_with_little_and_with_much_noise_take_the_same_time(case):
    assert by_noise(case) <= BOUND


def test_the_test_notices_a_dependence():
    def slow():
        sum(range(4000))

    assert ratio([lambda: None, slow]) > 3 * BOUND


def test_the_test_notices_a_dependence_on_the_noise():
    import secrets
    from types import SimpleNamespace

    def release(x):
        noise = secrets.randbelow(2000)
        sum(range(10 * noise))
        return x + noise

    slow = SimpleNamespace(release=release, x=0)
    assert by_noise(slow) > BOUND


FLOATS = [0.0, 1.0, -1234.5, 1e-300, 5e-324, 1e15, 1e300, -1.7e308]


@pytest.mark.parametrize("d_out", [(0.1, 1e-9), (5.0, 1e-3)], ids=str)
def test_release_of_a_float(d_out):
    measurement = make_optimal_noise(*REAL, 1.0, d_out)
    assert best_ratio([lambda x=x: measurement(x) for x in FLOATS]) <= BOUND


def scripted(place):
    word = (place << 2).to_bytes(8, "little")
    return lambda count: word * (count // 8)


@pytest.mark.parametrize("asked", [(1.0, 1e-6), (0.01, 1e-8), (10.0, 1e-3)], ids=str)
def test_draws_of_any_size(asked):
    # From the middle of the law, from its ends, and from between.
    sampler = solve(*asked, gap=0.05)._sampler.points
    places = [0, (1 << 62) - 1, 1 << 61, 1 << 60, 3 << 60, 12345]
    sources = [scripted(place) for place in places]
    assert len({sampler.draw_one(source) for source in sources}) >= 4
    assert best_ratio([lambda s=s: sampler.draw_one(s) for s in sources]) <= BOUND
    many = [lambda s=s: sampler.draw(2000, s) for s in sources]
    assert best_ratio(many, ALIKE, rounds=20, repeat=2) <= ALIKE


def test_draws_that_depend_on_the_answer():
    rows = [WeightedSampler.of(np.array([1 << 60] * 4)) for _ in range(4)]
    sources = [scripted(place) for place in (0, (1 << 62) - 1, 1 << 61, 12345)]
    shifting = Shifting(rows, start=0, step=3, revealing=0)
    rounding = Rounding(rows, ends=(0, 3, 6, 9, 12), revealing=0)
    for kind in (shifting, rounding, Listed(rows, start=0)):
        for answer in (0, 2):
            tasks = [lambda s=s, k=kind, a=answer: k.draw(a, s) for s in sources]
            assert best_ratio(tasks) <= BOUND


def test_vectors_of_any_content():
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    measurement = make_optimal_noise(*space, 1.0, (1.0, 1e-6), changed=1)
    contents = [np.zeros(500), np.full(500, 1e300), np.arange(500.0), np.full(500, 1e-310)]
    tasks = [lambda v=v: measurement(v) for v in contents]
    assert best_ratio(tasks, rounds=20, repeat=3) <= BOUND


def test_pure_noise_takes_one_more_word_for_each_block():
    # What is stated: a draw from an endless tail takes a number of words that grows with the
    # noise (blocks passed), and with nothing else.
    table = solve(1.0, 0.0)
    counts = []
    real = WeightedSampler.draw_one

    def counting(self, *args):
        counts.append(1)
        return real(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WeightedSampler, "draw_one", counting)
        for _ in range(2000):
            counts.clear()
            noise = abs(table.draw())
            blocks = max(0, noise - table.radius - 1) // len(table.tail.weights)
            assert len(counts) == (1 if noise <= table.radius else 2 + blocks)
