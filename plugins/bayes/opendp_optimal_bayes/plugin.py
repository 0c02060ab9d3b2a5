"""The hooks of this plugin, named in the entry-point group ``opendp_optimal``."""

from __future__ import annotations

from collections.abc import Callable

from opendp_optimal.hookspecs import hookimpl


@hookimpl
def opendp_optimal_register_mechanisms(register: Callable[..., None]) -> None:
    """Add ``bounded_geometric`` and ``bounded_laplace``.

    :param register: given by the host
    """
    from opendp_optimal_bayes.measure import make_bounded_geometric, make_bounded_laplace

    register(make_bounded_geometric)
    register(make_bounded_laplace)
