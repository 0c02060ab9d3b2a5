"""How often calls go from file to file: as often as was agreed on, at most."""

import warnings

import pytest

from tests.net.switches import releasing, solving, switches


@pytest.mark.parametrize(("make", "most"), [(solving, 80), (releasing, 62)])
def test_calls_do_not_go_back_and_forth(make, most):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = make()
        call()  # imports, and what is computed once
        found = switches(call)
    assert found.total() <= most, found.most_common(9)
