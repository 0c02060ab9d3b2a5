"""The hooks of this plugin, named in the entry-point group ``opendp_optimal``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opendp_optimal import hookimpl
from opendp_optimal.extend import late


@hookimpl
def opendp_optimal_register_mechanisms(register: Callable[..., None]) -> None:
    """Add ``bounded_geometric`` and ``bounded_laplace``.

    :param register: given by the host
    """
    for name in ("bounded_geometric", "bounded_laplace"):
        register(late(f"opendp_optimal_bayes.measure:make_{name}"), name=name)


@hookimpl
def opendp_optimal_register_candidates(register: Callable[..., None]) -> None:
    """Propose noise within bounds, as it is and remapped.

    :param register: given by the host
    """
    from opendp_optimal_bayes.candidates import within_bounds

    register(within_bounds)


@hookimpl
def opendp_optimal_register_commands(register: Callable[[Any], None]) -> None:
    """Add ``opendp-optimal bayes``.

    :param register: given by the host
    """
    from opendp_optimal_bayes.commands import bayes

    register(bayes)
