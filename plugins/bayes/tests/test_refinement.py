"""Refinement: witnesses and separating losses, both checked exactly."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal.errors import SolverError
from opendp_optimal_bayes import (
    Channel,
    geometric_channel,
    pixelated_laplace_channel,
    refines,
    step_geometric_channel,
)
from opendp_optimal_bayes.witness import exact_witness

HAIR = Fraction(1, 10**12)


@st.composite
def channels(draw, inputs, outputs):
    rows = []
    for _ in range(inputs):
        parts = draw(st.lists(st.integers(0, 9), min_size=outputs, max_size=outputs).filter(any))
        rows.append([Fraction(p, sum(parts)) for p in parts])
    return Channel(rows)


THEOREM_12 = [
    (1, 4, Fraction(1, 2)),
    (2, 8, Fraction(1, 2)),
    (3, 3, Fraction(2, 3)),
    (3, 12, Fraction(3, 4)),
    (5, 20, Fraction(4, 5)),
    (8, 16, Fraction(9, 10)),
    (12, 24, Fraction(9, 10)),
]


@pytest.mark.parametrize(("n", "t", "pixel"), THEOREM_12)
@pytest.mark.parametrize("ends", [False, True])
def test_laplace_is_geometric_post_processed_exactly(n, t, pixel, ends):
    decay = pixel**t
    geometric = step_geometric_channel(n, decay=decay)
    laplace = pixelated_laplace_channel(n, t, decay=decay, ends=ends)
    found = refines(geometric, laplace, tolerance=0)
    assert found
    assert found.residual == 0
    assert geometric >> found.witness == laplace


@pytest.mark.parametrize(("n", "t", "pixel"), THEOREM_12[1:4])
def test_the_converse_is_false_with_a_loss_that_shows_it(n, t, pixel):
    decay = pixel**t
    geometric = step_geometric_channel(n, decay=decay)
    laplace = pixelated_laplace_channel(n, t, decay=decay, ends=True)
    found = refines(laplace, geometric)
    assert not found
    assert found.witness is None
    prior = [Fraction(1, n + 1)] * (n + 1)
    assert laplace.exact_loss(prior, found.loss) == found.loss_a
    assert geometric.exact_loss(prior, found.loss) == found.loss_b
    assert found.loss_a > found.loss_b
    assert min(min(row) for row in found.loss) >= 0


@pytest.mark.parametrize(("n", "t", "epsilon"), [(4, 16, 1.0), (10, 20, 2.0), (16, 16, 0.5)])
def test_any_epsilon_to_the_accuracy_of_floats(n, t, epsilon):
    geometric = step_geometric_channel(n, epsilon=epsilon)
    found = refines(geometric, pixelated_laplace_channel(n, t, epsilon=epsilon))
    assert found
    assert found.residual < 1e-12


def test_finer_pixels_are_refined_by_coarser_ones():
    fine = pixelated_laplace_channel(2, 8, decay=Fraction(1, 256))
    coarse = pixelated_laplace_channel(2, 4, decay=Fraction(1, 256))
    assert refines(fine, coarse)
    assert not refines(coarse, fine)


@settings(max_examples=25)
@given(channels(3, 3), channels(3, 2))
def test_post_processing_is_always_found(a, processing):
    found = refines(a, a >> processing)
    assert found
    assert found.residual <= 1e-9


@settings(max_examples=25)
@given(channels(3, 3), channels(3, 3))
def test_every_answer_has_its_proof(a, b):
    found = refines(a, b)
    if found:
        made = a >> found.witness
        worst = max(
            abs(u - v)
            for x, y in zip(made.rows, b.rows, strict=True)
            for u, v in zip(x, y, strict=True)
        )
        assert worst == found.residual
    else:
        prior = [Fraction(1, 3)] * 3
        assert a.exact_loss(prior, found.loss) > b.exact_loss(prior, found.loss)


@given(st.fractions(Fraction(1, 10), Fraction(9, 10)), st.fractions(Fraction(1, 10), 1))
def test_geometric_channels_are_ordered_by_privacy(decay, factor):
    more = geometric_channel(3, decay=decay)
    less = geometric_channel(3, decay=decay * factor)
    assert refines(less, more)


def test_bad_input():
    a = geometric_channel(2, decay=0.5)
    with pytest.raises(ValueError, match=r"b \(with 2 answers\) must have those of a \(3\)"):
        refines(a, geometric_channel(1, decay=0.5))
    with pytest.raises(ValueError, match=r"a .* must be a Channel"):
        refines([[1]], a)
    with pytest.raises(ValueError, match=r"tolerance \(-1\) must not be negative"):
        refines(a, a, tolerance=-1)
    wide = Channel([[Fraction(1, 200)] * 200] * 3)
    with pytest.raises(ValueError, match="at most 40000"):
        refines(wide, wide)


@settings(max_examples=25)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)).flatmap(
        lambda n: st.tuples(channels(n[0], n[1]), channels(n[1], n[2]))
    )
)
def test_where_there_is_an_exact_witness_one_is_found(pair):
    channel, processing = pair
    after = channel >> processing
    found = refines(channel, after, tolerance=0)
    assert found.residual == 0
    assert channel >> found.witness == after


def test_contradictions_have_no_exact_witness():
    # No post-processing takes rows that are equal to rows that are not.
    same = Channel([[Fraction(1, 3)] * 3] * 2)
    other = Channel(
        [[Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 2) + HAIR, Fraction(1, 2) - HAIR]]
    )
    assert exact_witness(same, other) is None
    with pytest.raises(SolverError, match="neither a witness within 0"):
        refines(same, other, tolerance=0)
    assert refines(same, other)  # within the default tolerance


@pytest.mark.parametrize("epsilon", [1e-320, 1e6])
def test_messages_show_the_epsilon_that_was_given(epsilon):
    with pytest.raises(ValueError, match=rf"epsilon \({epsilon!r}\) must be such that exp\(-eps"):
        step_geometric_channel(4, epsilon=epsilon)
