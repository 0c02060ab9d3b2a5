"""What one record holds decides neither whether there is an error nor how another is read."""

import datetime
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal_learn import PrivateLogisticRegression, PrivateNaiveBayes, inputs
from opendp_optimal_learn.logistic import _exact_sum
from opendp_optimal_learn.naive_bayes import _exact_sums


class Trap:
    """A value that raises at whatever is done with it."""

    def _spring(self, *_):
        raise RuntimeError("a secret")

    __float__ = __hash__ = __eq__ = __lt__ = __gt__ = __str__ = __repr__ = _spring


HOSTILE = [
    None, np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 5e-324, 10**400, -(10**400), 2**53 + 1,
    np.uint64(2**64 - 1), np.float32(0.1), np.float16(3e4), np.longdouble("1e4000"), True, 0.5,
    "red", "x", "1.5", "nan", b"2", 1j, Decimal("0.1"), Decimal("sNaN"), Decimal("1e999999"),
    Fraction(10**400, 3), [1.0], [], {"a": 1}, {1}, np.array([1.0]), np.array([1.0, 2.0]),
    np.datetime64("NaT"), np.timedelta64(1, "s"), datetime.date(2000, 1, 1), object(), Trap(),
]  # fmt: skip
SAME = [[1.5, "red", 2**53 + 1], [-2.0, "green", 0.1], [0.25, "blue", 7]]
LABELS = [1, 2**53 + 1, 0]
PUBLIC = {
    "bounds": ([-3, 0], [5, 2**54]),
    "categorical_features": [1],
    "categories": [["red", "green", "blue"]],
    "classes": [0, 1, 2**53 + 1],
}


class ReachedError(Exception):
    """Fitting came to the private data."""


def what_is_read(model, x, y):
    """What ``fit`` is about to release of each record; every warning is an error."""

    def stop(*read):
        raise ReachedError(*read)

    model._release = model._descend = stop
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ReachedError) as reached:
            model.fit(x, y)
    return reached.value.args


def objects(rows):
    out = np.empty((len(rows), len(rows[0])), dtype=object)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            out[i, j] = cell
    return out


@pytest.mark.parametrize("shape", [list, objects])
@pytest.mark.parametrize("cell", HOSTILE, ids=lambda c: type(c).__name__)
def test_one_record_of_naive_bayes(cell, shape):
    plain = what_is_read(PrivateNaiveBayes(**PUBLIC), shape(SAME), LABELS)
    for place in range(3):
        row = [0.5, "red", 3.0]
        row[place] = cell
        for label in (1, cell):
            rows, labels = [*SAME, row], [*LABELS, label]
            shares, codes, places = what_is_read(PrivateNaiveBayes(**PUBLIC), shape(rows), labels)
            for read, before in zip((shares, codes, places), plain, strict=True):
                assert (read[:3] == before).all()
            assert ((shares >= 0) & (shares <= 1)).all()


@pytest.mark.parametrize("cell", HOSTILE, ids=lambda c: type(c).__name__)
def test_one_record_of_logistic_regression(cell):
    def read(rows, labels):
        model = PrivateLogisticRegression(bounds=(-1e300, 1e300), classes=["no", "yes"])
        return what_is_read(model, rows, labels)

    rows, labels = [[1.5, 1e300], [-2.0, 0.1]], ["yes", "no"]
    plain = read(rows, labels)
    for label, sign in (("yes", 1), (cell, 0)):
        features, signs = read([*rows, [cell, 0.0]], [*labels, label])
        assert (features[:2] == plain[0]).all()
        assert signs.tolist() == [1, -1, sign]
        assert (np.abs(features) <= 1).all()


@pytest.mark.parametrize("numbers", [np.float64, np.float32, np.longdouble, np.int64, np.uint64])
def test_arrays_of_numbers(numbers):
    top = np.finfo(numbers).max if np.dtype(numbers).kind == "f" else np.iinfo(numbers).max
    x = np.array([[0, 1], [top, 2]], dtype=numbers)
    model = PrivateLogisticRegression(bounds=(0, 2), classes=[0, 1])
    features, _ = what_is_read(model, x, np.array([0.5, 1.0]))
    assert features.tolist() == [[1, -1, 0], [1, 1, 1]]


def test_whether_there_is_a_record_is_private():
    model = PrivateNaiveBayes(
        noise="laplace", bounds=(0, 1), classes=[0, 1], neighbours="add-remove"
    )
    assert model.fit(np.zeros((0, 2)), []).releases_ == 2 + 2 * 2 * 2
    with pytest.raises(ValueError, match="0 sample"):
        PrivateNaiveBayes(bounds=(0, 1), classes=[0, 1]).fit(np.zeros((0, 2)), [])


def test_lists_that_are_read_from_data_leave_out_what_tells_nothing():
    column = objects([[cell] for cell in HOSTILE])
    (found,), read = inputs.category_lists(None, column)
    assert read
    assert "red" in found.tolist()
    assert not any(v is None or v != v for v in found.tolist())


@settings(max_examples=50)
@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.floats(), min_size=1, max_size=5),
)
def test_shares_are_shares_whatever_the_bounds(low, high, values):
    try:
        lower, upper = inputs.feature_bounds((low, high), 1)
    except ValueError:
        return
    shares = inputs.shares(np.array(values)[:, None], lower, upper)
    assert ((shares >= 0) & (shares <= 1)).all()
    ends = inputs.shares(np.array([[low], [high]]), lower, upper)
    assert ends.ravel().tolist() == [0.0, 1.0]


@pytest.mark.parametrize("rows", [1, 2, 1000, 40_000])
def test_sums_are_exact(rows):
    rng = np.random.default_rng(rows)
    values = rng.integers(0, (1 << 24) + 1, rows) / (1 << 24)
    total, squares = _exact_sums(values)
    assert total == sum(Fraction(v) for v in values)
    assert squares == sum(Fraction(v) ** 2 for v in values)
    terms = rng.uniform(-1, 1, rows)
    before = _exact_sum(terms)
    # Any order is the same, and a record that changes from one end to the other counts as 2.
    assert before == _exact_sum(terms[::-1])
    terms[0] = -1.0
    low = _exact_sum(terms)
    terms[0] = 1.0
    assert _exact_sum(terms) - low == 2.0
