"""An enclosure carries its proof: nothing in it can be changed unnoticed."""

import copy
import dataclasses
import pickle
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import CertificateError
from opendp_optimal_select import laplace_ring, optimal_ring
from opendp_optimal_select.ring.boxes import BoundedBox, Box, least_bound
from opendp_optimal_select.ring.shape import rate_bounds


@pytest.fixture(scope="module", params=[1, 2])
def optimum(request):
    return optimal_ring(request.param, epsilon=0.7, tolerance=0.05, cells=4, max_programmes=24)


def changed(optimum):
    """Yield the name of a field and the optimum with that field changed."""
    other = {
        "epsilon": (0.69, 0.71, np.nan, -1.0, None),
        "k": (optimum.k + 1, 0, "2"),
        "lower": (np.nextafter(optimum.lower, 9), optimum.upper + 1, 0.0, np.nan),
        "upper": (np.nextafter(optimum.upper, 0), np.nextafter(optimum.upper, 9), np.nan),
        "offsets": ((*optimum.offsets[:-1], optimum.offsets[-1] + 1e-9), (), None),
        "cells": (optimum.cells + 1, 0),
        "discretisation": (optimum.discretisation / 2, np.nan),
        "programmes": (2, -1),
        "boxes": (optimum.boxes[1:], (*optimum.boxes, optimum.boxes[0]), None),
    }
    for name, values in other.items():
        for value in values:
            yield name, dataclasses.replace(optimum, **{name: value})
    density, (first, *rest) = optimum.density, optimum.boxes
    for logs in ((5.0, *density.logs[1:]), density.logs[1:], (np.nan, *density.logs[1:])):
        yield "logs", dataclasses.replace(optimum, density=dataclasses.replace(density, logs=logs))
    for field, value in (("rate", density.model.rate * 2), ("cells", density.model.cells + 1)):
        model = dataclasses.replace(density.model, **{field: value})
        yield field, dataclasses.replace(optimum, density=dataclasses.replace(density, model=model))
    for field, value in (
        ("forward", first.forward[1:]),
        ("forward", (np.nan, *first.forward[1:])),
        ("backward", (1e6, *first.backward[1:])),
        ("box", Box((Fraction(1, 3),) * (optimum.k - 1), (Fraction(1, 8),) * (optimum.k - 1))),
    ):
        if field != "box" or optimum.k > 1:
            box = dataclasses.replace(first, **{field: value})
            yield field, dataclasses.replace(optimum, boxes=(box, *rest))


@pytest.mark.slow
def test_a_change_of_any_field_is_noticed(optimum):
    optimum.verify()
    names = set()
    for name, other in changed(optimum):
        names.add(name)
        with pytest.raises(CertificateError):
            other.verify()
    assert names >= {f.name for f in dataclasses.fields(optimum)} - {"density"}


def test_what_is_proved_is_true(optimum):
    assert optimum.lower <= optimum.upper
    assert optimum.lower <= laplace_ring(optimum.k, epsilon=0.7)[0]


def test_nothing_can_be_written_to_also_in_copies(optimum):
    for one in (optimum, copy.deepcopy(optimum), pickle.loads(pickle.dumps(optimum))):
        one.verify()
        model = one.density.model
        for array in (model.costs_below, *model.ratios_above):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0.0
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.setflags(write=True)
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.lower = 0.0


def test_boxes_that_leave_a_shape_out_prove_nothing():
    rate = rate_bounds(0.7)[1]
    whole = Box.of_all(2)

    def entry(box):
        return BoundedBox(box, 2, (0.0,) * 8, (0.0,) * 8)

    halves = whole.halves()
    assert len(halves) == 2
    assert least_bound(2, tuple(map(entry, halves)), rate)[1] == 3
    for boxes in (halves[:1], [*halves, halves[0].halves()[0]], [whole, halves[0]]):
        with pytest.raises(CertificateError):
            least_bound(2, tuple(map(entry, boxes)), rate)
