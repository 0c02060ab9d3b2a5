"""Tables and certificates stay as they were proved, and so do their copies and pickles."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

from opendp_optimal import (
    solve,
    solve_bounded,
    solve_channel,
    solve_keys,
    solve_pair,
    solve_radial,
)
from opendp_optimal.arrays import frozen_array


def parts(value):
    """Everything in a table that is an array or a list, at any depth."""
    if isinstance(value, np.ndarray | list):
        yield value
    elif isinstance(value, tuple):
        for entry in value:
            yield from parts(entry)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from parts(getattr(value, field.name))


def tables():
    yield solve(1.0, 0.0)
    yield solve(1.0, 0.1, gap=0.05, cache=False)
    yield solve(1.0, 0.1, gap=0.05, monotone=True, loss="pinball:0.7", cache=False)
    yield solve(1.0, 0.1, integer_sensitivity=2, cache=False)
    yield solve_bounded(1.0, 0.1, sensitivity=1, range=(0, 2), bins=4, gap=9.0, cache=False)
    away = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
    yield solve_channel([0.5, 0.25, 0.25], away, 1.0, away)
    yield solve_pair(1.0, 0.01, gap=1.0, cache=False)
    yield solve_radial(1.0, 1e-3, size=2, norm="l2", loss="l2", cache=False)
    yield solve_radial(1.0, 0.0, 2, norm="linf", loss="l2", weights=(5.0, 1.0), cache=False)
    yield solve_radial(1.0, 0.0, size=2, norm="l1", loss="l1", cache=False)
    yield solve_keys(1.0, 1e-3)


def copies(table):
    yield table
    yield copy.copy(table)
    yield copy.deepcopy(table)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.loads(pickle.dumps(table, protocol))


def refuses_to_be_written(array):
    assert isinstance(array, np.ndarray), "a list can be written to"
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.setflags(write=True)
    for entry in np.ndindex(array.shape):
        with pytest.raises(ValueError, match="read-only"):
            array[entry] = 0
        break


def test_nothing_in_a_table_can_be_written_to():
    for table in tables():
        for same in copies(table):
            assert repr(same) == repr(table)
            assert getattr(same, "dual", 0) == getattr(table, "dual", 0)
            assert (same, hash(same)) == (table, hash(table))
            for one, other in zip(parts(same), parts(table), strict=True):
                assert np.array_equal(one, other)
            same.verify()
            found = list(parts(same))
            assert found
            for array in found:
                refuses_to_be_written(array)


def test_a_user_loss_has_frozen_costs():
    table = solve(1.0, 0.1, loss=lambda x: 2 * abs(x), gap=0.05, cache=False)
    for cost in table.costs:
        with pytest.raises(TypeError):
            cost.upper[0] = 0


def test_the_array_that_was_given_is_not_the_one_that_is_kept():
    table = solve(1.0, 0.1, gap=0.05, cache=False)
    weights = table.weights.copy()
    other = dataclasses.replace(table, weights=weights)
    weights[0] += 1
    assert np.array_equal(other.weights, table.weights)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, ">i8", np.float64, bool])
@pytest.mark.parametrize("shape", [(0,), (0, 0), (0, 5), (3,), (2, 3)])
def test_frozen_arrays_have_the_same_content(dtype, shape):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    frozen = frozen_array(array)
    assert frozen.dtype == array.dtype
    assert frozen.shape == array.shape
    assert np.array_equal(frozen, array)
    assert np.array_equal(frozen_array(array[::-1]), array[::-1])
    assert np.array_equal(frozen_array(array.T), array.T)
