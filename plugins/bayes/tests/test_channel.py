"""Channels: the printed matrices, and laws that hold for all of them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal.exact.logarithms import log_up
from opendp_optimal.exact.numbers import exp_down
from opendp_optimal_bayes import (
    Channel,
    bayes_risk,
    geometric_channel,
    is_legal,
    loss_matrix,
    pixelated_laplace_channel,
    pixelated_prior,
    step_geometric_channel,
)
from opendp_optimal_bayes.constructions import _root as root

LN4 = math.log(4)


@st.composite
def distributions(draw, size):
    parts = draw(st.lists(st.integers(0, 20), min_size=size, max_size=size).filter(any))
    return tuple(Fraction(p, sum(parts)) for p in parts)


@st.composite
def channels(draw, inputs, outputs):
    return Channel([draw(distributions(outputs)) for _ in range(inputs)])


@st.composite
def losses(draw, actions, inputs):
    return [[draw(st.integers(0, 9)) for _ in range(inputs)] for _ in range(actions)]


@pytest.mark.parametrize(("name", "n"), [("G_2", 2), ("G_4", 4)])
def test_printed_matrices_exactly(golden, exact, name, n):
    channel = step_geometric_channel(n, decay=Fraction(1, 16))  # epsilon = 2 ln 4
    assert channel.rows == exact(golden[name]["rows"])
    near = step_geometric_channel(n, epsilon=2 * LN4)
    assert np.allclose(near.matrix, channel.matrix, atol=1e-15)


def test_printed_truncation(golden, exact):
    assert geometric_channel(2, decay=0.5).rows[0] == exact([golden["truncated"]["row"]])[0]


def test_printed_bayes_risk(golden, exact):
    channel = Channel(exact(golden["M"]["rows"]))
    prior = [Fraction(1, 3)] * 3
    risk = Fraction(golden["M"]["bayes_risk"])
    assert channel.exact_loss(prior, bayes_risk(3)) == risk
    assert channel.hyper(prior).expected_loss(bayes_risk(3)) == risk
    assert channel.expected_loss(prior, bayes_risk(3)) == pytest.approx(1 / 3, abs=1e-15)


def test_printed_distance(golden, exact):
    two = Channel(exact(golden["M"]["rows"])[:2])
    assert LN4 <= two.epsilon() <= math.nextafter(LN4, 2)


def test_the_rest_is_divided_by_one_plus_alpha():
    # The paper prints 2a/(1-a) in section II-D.
    a = Fraction(1, 3)
    middle = geometric_channel(40, decay=a).rows[20]
    assert middle[20] == (1 - a) / (1 + a)
    assert 1 - middle[20] == 2 * a / (1 + a)


def test_end_masses_of_truncated_laplace_fall_with_the_distance():
    # The paper prints e^{eps x}/2 in Definition 4; then rows could not add up to 1.
    rows = pixelated_laplace_channel(4, 8, decay=Fraction(1, 256), ends=True).rows
    assert [row[0] for row in rows] == [Fraction(1, 256) ** Fraction(x, 4) / 2 for x in range(5)]
    assert [row[-1] for row in rows] == [row[0] for row in rows[::-1]]


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_geometric_is_private_exactly(n):
    assert geometric_channel(n, decay=Fraction(1, 4)).epsilon() == pytest.approx(LN4, abs=1e-15)
    steps = step_geometric_channel(n, epsilon=1.5)
    assert steps.epsilon(lambda x, z: Fraction(abs(x - z), n)) == pytest.approx(1.5, abs=1e-14)


def test_long_channels_are_kept_in_floats():
    channel = step_geometric_channel(90, epsilon=3.0)
    assert all(sum(row) == 1 for row in channel.rows)
    assert channel.epsilon(lambda x, z: Fraction(abs(x - z), 90)) == pytest.approx(3.0, rel=1e-9)


def test_epsilon_is_infinite_where_an_answer_is_ruled_out():
    assert Channel([[1, 0], [Fraction(1, 2), Fraction(1, 2)]]).epsilon() == math.inf
    assert Channel([[1, 0], [0, 1]]).epsilon([[0, 0], [0, 0]]) == math.inf
    assert Channel([[1, 0], [1, 0]]).epsilon() == 0.0


@given(channels(3, 4), distributions(3))
def test_posteriors_average_to_the_prior(channel, prior):
    marginal, posteriors = channel.marginal(prior), channel.posteriors(prior)
    assert sum(marginal) == 1
    for x in range(3):
        assert prior[x] == sum(
            (m * p[x] for m, p in zip(marginal, posteriors, strict=True) if p is not None),
            Fraction(0),
        )


@given(channels(3, 4), distributions(3), losses(3, 3))
def test_losses_agree(channel, prior, loss):
    exact = channel.exact_loss(prior, loss)
    assert channel.hyper(prior).expected_loss(loss) == exact
    assert channel.expected_loss(prior, loss) == pytest.approx(float(exact), abs=1e-12)
    assert channel.remapped(prior, loss).raw_loss(prior, loss) == pytest.approx(float(exact))


@given(channels(3, 4), channels(4, 3), distributions(3), losses(3, 3))
def test_post_processing_never_helps_and_never_leaks(channel, processing, prior, loss):
    after = channel >> processing
    assert after.exact_loss(prior, loss) >= channel.exact_loss(prior, loss)
    assert after.epsilon() <= channel.epsilon()


@given(channels(3, 3), channels(3, 2), channels(2, 3))
def test_composition_is_associative(a, b, c):
    assert (a >> b) >> c == a >> (b >> c)


@given(st.integers(1, 12), st.fractions(Fraction(1, 50), Fraction(49, 50)))
def test_geometric_channels_are_mirrored(n, decay):
    rows = geometric_channel(n, decay=decay).rows
    assert rows == tuple(row[::-1] for row in rows[::-1])


@given(st.fractions(Fraction(101, 100), 10**6), st.fractions(Fraction(1, 8), 8))
def test_logarithms_are_rounded_up(ratio, distance):
    epsilon = log_up(ratio, distance)
    assert exp_down(Fraction(epsilon) * distance) >= ratio
    assert epsilon == pytest.approx(math.log(ratio) / float(distance), rel=1e-14)


def test_exponentials_are_rounded_down_beyond_the_table():
    # e^100 to 30 digits.
    known = 26881171418161354484126255515800135873611118
    value = exp_down(Fraction(100))
    assert known * (1 - Fraction(1, 10**18)) < value < known + 1


def test_roots():
    assert root(Fraction(8, 27), 3) == Fraction(2, 3)
    assert float(root(Fraction(1, 2), 2)) == pytest.approx(math.sqrt(0.5))


def test_channels_do_not_change():
    channel = geometric_channel(2, decay=0.5)
    with pytest.raises(AttributeError):
        channel.rows = ()
    with pytest.raises(ValueError, match="read-only"):
        channel.matrix[0, 0] = 1
    assert hash(channel) == hash(geometric_channel(2, decay=0.5))


def test_channels_and_arrays():
    channel = geometric_channel(3, epsilon=1.0)
    array = np.asarray(channel)
    assert array.sum(axis=1) == pytest.approx(np.ones(4))
    assert np.asarray(Channel(array)) == pytest.approx(array, abs=1e-15)


def test_pixelated_priors():
    assert pixelated_prior(lambda x: x, 2) == (Fraction(1, 2), Fraction(1, 2), 0)
    assert sum(pixelated_prior(lambda x: x * x, 7)) == 1


def test_legal_losses():
    assert is_legal(loss_matrix("l1", range(5)))
    assert is_legal(bayes_risk(4))
    assert not is_legal([[0, 1, 1], [2, 0, 2], [1, 1, 0]])  # falls with the distance at x = 0
    assert not is_legal([[0, 1]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Channel([[0.5, 0.6]]), "row 0 must add up to 1, not to 1.1"),
        (lambda: Channel([[Fraction(1, 2), Fraction(1, 3)]]), "must add up to 1"),
        (lambda: Channel([[1.5, -0.5]]), r"row 0 has a negative chance \(-0.5\)"),
        (lambda: Channel([[1], [0.5, 0.5]]), r"row 1 \(of length 2\) must have 1"),
        (lambda: Channel([]), "must not be empty"),
        (lambda: Channel("ab"), "must be a matrix"),
        (lambda: Channel([[math.nan, 1.0]]), "must be finite"),
        (lambda: Channel([["a", "b"]]), "must be a number"),
        (lambda: geometric_channel(0, decay=0.5), r"n \(0\) must be in"),
        (lambda: geometric_channel(2), "give one of epsilon"),
        (lambda: geometric_channel(2, decay=1), r"decay \(1\) must be in \(0, 1\)"),
        (lambda: geometric_channel(2, epsilon=-1.0), r"epsilon \(-1.0\) must be positive"),
        (lambda: pixelated_laplace_channel(3, 8, epsilon=1.0), r"t \(8\) must be a multiple of n"),
        (lambda: geometric_channel(2, decay=0.5) >> geometric_channel(1, decay=0.5), "3 rows"),
    ],
)
def test_bad_channels(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("prior", "loss", "message"),
    [
        ([0.5, 0.4, 0.0], bayes_risk(3), "prior must add up to 1, not to 0.9"),
        ([0.5, 0.5], bayes_risk(3), r"prior \(of length 2\) must have 3"),
        ([1, 0, 0], bayes_risk(2), r"loss \(of shape 2 x 2\) must be of shape any x 3"),
        ([1, 0, 0], [[1, 2, 3], [1]], "must be a matrix"),
        ([1, 0, 0], 5, "loss must be a matrix"),
    ],
)
def test_bad_consumers(prior, loss, message):
    with pytest.raises(ValueError, match=message):
        geometric_channel(2, decay=0.5).expected_loss(prior, loss)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ([[0, 1], [1, 0]], r"metric \(of shape 2 x 2\) must be of shape 3 x 3"),
        ([[0, 1, 2], [3, 0, 1], [2, 1, 0]], "must be symmetric"),
        ([[1, 1, 2], [1, 0, 1], [2, 1, 0]], "must be 0 from an answer to itself"),
    ],
)
def test_bad_metrics(metric, message):
    with pytest.raises(ValueError, match=message):
        geometric_channel(2, decay=0.5).epsilon(metric)
