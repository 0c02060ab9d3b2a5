"""The expected loss of bounded mechanisms against sums over everything that can happen."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal.certify.bounded import expected_loss_at
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.problem.bounded import BoundedProblem
from tests.certify.small_laws import law

LOSSES = {"l1": abs, "l2": lambda error: error * error}


def asked(loss, **changes):
    from opendp_optimal.losses.base import loss_of

    numbers = {"epsilon": 1.0, "delta": 0.1, "sensitivity": 1.5, "low": -1.0, "high": 5.0}
    return BoundedProblem(**{**numbers, "loss": loss_of(loss), **changes})


def rows(count, outputs, seed):
    rng = random.Random(seed)
    return np.array([law(rng, outputs) for _ in range(count)])


@pytest.mark.parametrize("loss", LOSSES)
def test_integers(loss):
    weights = rows(7, 7, 1)
    for x in range(7):
        found = expected_loss_at(
            asked(loss, integer=True, sensitivity=1.0), weights, 1, Fraction(x - 1), False
        )
        exact = sum(
            Fraction(w, TOTAL) * LOSSES[loss](y - x) for y, w in enumerate(weights[x].tolist())
        )
        assert found == exact


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("revealing", [False, True])
def test_unequal_bins(loss, revealing):
    edges = (-1.0, 0.0, 2.5, 5.0)
    weights = rows(4, 6 if revealing else 4, 2)
    problem = asked(loss, edges=edges)
    for answer in (
        Fraction(-1),
        Fraction(-1, 3),
        Fraction(0),
        Fraction(2),
        Fraction(5, 2),
        Fraction(5),
    ):
        j = max(i for i in range(3) if Fraction(edges[i]) <= answer)
        near, far = Fraction(edges[j]), Fraction(edges[j + 1])
        share = (answer - near) / (far - near)
        exact = Fraction(0)
        for x, chance in ((j, 1 - share), (j + 1, share)):
            released = [answer, *edges, answer] if revealing else edges
            for w, place in zip(weights[x].tolist(), released, strict=True):
                exact += chance * Fraction(w, TOTAL) * LOSSES[loss](Fraction(place) - answer)
        assert expected_loss_at(problem, weights, 1, answer, revealing) == exact


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("revealing", [False, True])
@pytest.mark.parametrize(("cells", "bins"), [(1, 4), (2, 5), (1, 3), (1, 5)])
def test_equal_bins(loss, revealing, cells, bins):
    """All shifts of the cells: where the cell of the answer changes, another sum begins."""
    weights = rows(bins + 1, bins + 3 if revealing else bins + 1, 3)
    problem = asked(loss)
    step = max(1.5 / cells, 6 / bins)
    start = -1.0 - (bins * step - 6) / 2
    law_of = weights / TOTAL
    for answer in (-1.0, 0.3, 2.0, 4.9, 5.0):
        last = (answer - start) % step
        average = 0.0
        for first, end in ((0.0, last), (last, step)):
            shift = first + (np.arange(2000) + 0.5) / 2000 * (end - first)
            cell = np.clip(np.floor((answer - start - shift) / step).astype(int) + 1, 0, bins)
            middle = start + shift[:, None] + np.arange(bins + 1) * step - step / 2
            chances = law_of[cell][:, 1:-1] if revealing else law_of[cell]
            losses = (chances * LOSSES[loss](middle - answer)).sum(axis=1)
            average += float(losses.mean()) * (end - first) / step
        found = float(expected_loss_at(problem, weights, cells, Fraction(answer), revealing))
        above = step**2 / 96 if loss == "l2" else 0.0  # four chords of the square in a cell
        assert average * (1 - 1e-6) <= found <= (average + above) * (1 + 1e-6)
