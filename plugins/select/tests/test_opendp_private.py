"""The one private name of OpenDP that is used."""

import opendp.prelude as dp

from opendp_optimal_select._opendp import partial


def test_partial_constructor_still_behaves():
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    built = space >> partial(lambda domain, metric: dp.m.make_laplace(domain, metric, scale=1.0))
    assert built.map(1.0) == 1.0
