"""Radial tables: files, proofs on load, what is refused."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

from opendp_optimal import RadialTable, solve_radial
from opendp_optimal.errors import CertificateError, TableFormatError
from opendp_optimal.table.files.radial import KIND

ASKED = [
    {"epsilon": 1.0, "delta": 1e-6, "size": 6},
    {"epsilon": 1.0, "delta": 0.0, "size": 3, "norm": "linf", "integer_sensitivity": 2},
    {"epsilon": 2.0, "delta": 0.0, "size": 2, "norm": "l1", "loss": "l1"},
    {"epsilon": 4.0, "delta": 1e-3, "size": 5},
    {"epsilon": 1.0, "delta": 1e-6, "size": 3000},
    {"epsilon": 1.0, "delta": 0.0, "size": 4, "norm": "linf", "weights": [5.0, 1.0, 1.0, 1.0]},
]


@pytest.fixture(scope="module", params=range(len(ASKED)))
def table(request: pytest.FixtureRequest) -> RadialTable:
    return solve_radial(**ASKED[request.param], cache=False)


def test_files_copies_and_pickles_are_equal(table):
    for other in (KIND.decode(KIND.encode(table)), pickle.loads(pickle.dumps(table))):
        assert other == table
        other.verify()
    assert copy.deepcopy(table) == table
    assert table.summary()["shape"] == table.shape


def test_a_table_that_claims_more_is_refused(table):
    for wrong in (
        replace(table, upper=float(np.nextafter(table.upper, 0))),
        replace(table, lower=1e-3),
        replace(table, problem=replace(table.problem, epsilon=0.9)),
        replace(table, problem=replace(table.problem, size=table.size + 1, weights=None)),
    ):
        with pytest.raises(CertificateError):
            wrong.verify()


def test_damaged_files_are_refused(table):
    data = bytearray(KIND.encode(table))
    data[40] ^= 1
    with pytest.raises(TableFormatError):
        KIND.decode(bytes(data))
    header, arrays = KIND.parts(table)
    for change in (
        {"problem": {**header["problem"], "radial": "l7"}},
        {"problem": {**header["problem"], "size": -1}},
        {"decay": {"c": "nan", "k": "0x0p+0", "fine": 1 << 20}, "staircase": None},
        {"version": 9},
    ):
        sealed = KIND.seal({**header, **change}, arrays)
        with pytest.raises((TableFormatError, CertificateError)):
            KIND.decode(sealed)


def test_profiles_fall_and_hold_at_the_target(table):
    curve = [table.delta_at(e) for e in (0.0, 0.3, 0.8, table.epsilon, 9.0)]
    assert curve == sorted(curve, reverse=True)
    assert curve[3] <= table.delta
    assert table.delta_at(0.5, 0.25) <= table.delta_at(0.5)


def test_bad_arguments_are_named(table):
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="epsilon"):
            table.delta_at(wrong)
    with pytest.raises(ValueError, match="shift"):
        table.delta_at(1.0, 2.0)
    with pytest.raises(ValueError, match="reach"):
        table.draw(1, 3)
    with pytest.raises(ValueError, match="count"):
        table.draw(-1)
    assert table.draw(0).shape == (0, table.size)
    for name, value in (("size", 0), ("norm", "l3"), ("loss", "pinball:0.9"), ("epsilon", 99.0)):
        asked = {"epsilon": 1.0, "delta": 0.0, "size": 2, name: value}
        with pytest.raises(ValueError, match=name):
            solve_radial(**asked)
    with pytest.raises(LookupError):
        solve_radial(1.0, 0.0, 777, compute=False)


def test_the_command_line_solves_them():
    from click.testing import CliRunner

    from opendp_optimal.cli.solve import solve

    asked = ["1", "--size", "3", "--norm", "linf", "--loss", "l2", "--no-cache", "--json"]
    shown = CliRunner().invoke(solve, asked, standalone_mode=False)
    assert shown.return_value == 0
    assert '"norm": "linf"' in shown.stdout
