"""The examples of the advisories in ``docs/explanation/security.md``, by their numbers.

Each is an attack that a stranger can repeat; each must fail.
"""

import math
import pickle
import random
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_optimal as oo
from opendp_optimal.testing import audit

dp.enable_features("contrib")
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "security.md"


@pytest.mark.parametrize(
    ("ends", "options", "pair"),
    [
        ((2**60, 2**60 + 1024), {"bins": 64, "d_in": 16}, (2**60 + 127, 2**60 + 129)),
        ((2**60, 2**60 + 1024), {"bins": 64, "d_in": 16}, (2**60 + 383, 2**60 + 385)),
    ],
)
def test_neighbours_are_not_rounded_apart(ends, options, pair):
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    measurement = oo.make_optimal_bounded_noise(
        *space, d_out=1.0, range=ends, gap=10.0, cache=False, **options
    )
    claimed = measurement.map(pair[1] - pair[0])
    assert claimed <= 1.0
    assert not audit(measurement, *pair, claimed, 0.0, draws=2000).violated


def test_a_polygon_with_a_tiny_edge_tells_nobody_apart():
    shapely = pytest.importorskip("shapely")
    from opendp_optimal_geo.scores import signed_distance

    corners = [(0, 0), (1e-200, 0), (1000, 0), (1200, 800), (0, 1000)]
    points = np.array([[0.0, 1e6], [1 / 16, 1e6]])
    try:
        found = np.asarray(signed_distance(shapely.Polygon(corners), points), float)
    except ValueError:
        return  # refused before anybody is asked
    assert np.all(np.isfinite(found))
    assert abs(found[0] - found[1]) <= 1 / 16 + 1e-3


def test_channels_of_fine_metrics_are_not_perfect():
    bayes = pytest.importorskip("opendp_optimal_bayes")
    rng = random.Random(1)
    for _ in range(60):
        p, q = (Fraction(rng.randint(1, 999), 1000) for _ in range(2))
        distance = 10.0 ** rng.uniform(-12, -6)
        channel = bayes.Channel([[p, 1 - p], [q, 1 - q]])
        claimed = Fraction(channel.epsilon([[0, distance], [distance, 0]])) * Fraction(distance)
        for a, b in ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p)):
            assert math.log(a / b) <= float(claimed) * (1 + 1e-12)
        assert (claimed == 0) == (p == q)


@pytest.mark.parametrize("name", ["l1", "l2"])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_a_function_with_the_name_of_a_loss_is_proved_with_its_own_values(name, delta):
    def function(x):
        return 100 * abs(x)

    function.__name__ = name
    plain = oo.solve(1.0, delta, gap=0.1, cache=False)
    for loss in (lambda: function, lambda: oo.Loss(function, name)):
        try:
            table = oo.solve(1.0, delta, loss=loss(), gap=0.1, cache=False)
        except ValueError as error:
            assert re.match(r"(loss|name) ", str(error))
            continue
        assert table.lower <= table.upper
        assert 100 * plain.lower <= table.upper * (1 + 1e-9)
        assert table.lower <= 100 * plain.upper * (1 + 1e-9)


def test_no_function_makes_the_advisor_rank_it_as_another():
    def l1(x):
        return 100 * abs(x)

    cheap = oo.advise("count", epsilon=1.0, delta=1e-6, loss="l1")
    dear = oo.advise("count", epsilon=1.0, delta=1e-6, loss=l1)
    least = min(c.loss for c in cheap.candidates)
    assert min(c.loss for c in dear.candidates) >= 99 * least


def test_tables_cannot_be_written_to():
    table = oo.solve(1.0, 0.0)
    for copy in (table, pickle.loads(pickle.dumps(table))):
        for array in (copy.weights, copy.tail.weights):
            with pytest.raises(ValueError, match="read-only|assignment"):
                array[0] = 1
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.setflags(write=True)
