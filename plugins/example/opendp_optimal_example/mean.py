"""A mechanism: the mean of clamped values, with the noise that suits it best."""

from __future__ import annotations

from typing import Any

import opendp.prelude as dp

from opendp_optimal import make_optimal_noise
from opendp_optimal.extend import Deferred, whole

_LARGEST = 1e200
"""Sums of so many rows within these bounds are floats."""
_MOST_ROWS = 2**31 - 1


def make_sized_mean(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    bounds: tuple[float, float],
    size: int,
    *,
    loss: str = "l1",
) -> Deferred:
    """Estimate the mean of a column whose size is public, with the budget of the query.

    Values are clamped to the bounds; missing rows are filled with the middle of the bounds.

    :param input_domain: a vector domain of floats.
    :param input_metric: ``symmetric_distance()``.
    :param bounds: the lowest and highest value.
    :param size: the number of rows; other numbers of rows are cut or filled up to it.
    :param loss: what the noise minimises.

    >>> import opendp.prelude as dp
    >>> from opendp_optimal import load_plugins
    >>> dp.enable_features("contrib")
    >>> _ = load_plugins()
    >>> context = dp.Context.compositor(
    ...     data=[20.0, 35.0, 50.0],
    ...     privacy_unit=dp.unit_of(contributions=1),
    ...     privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
    ...     split_evenly_over=1,
    ...     domain=dp.vector_domain(dp.atom_domain(T=float, nan=False)),
    ... )
    >>> answer = context.query().sized_mean((0.0, 100.0), 3).release()
    """
    low, high = bounds
    if not (-_LARGEST <= low < high <= _LARGEST and high - low >= 1 / _LARGEST):
        raise ValueError(
            f"bounds ({bounds!r}) must be two numbers, the first below the second, both from "
            f"{-_LARGEST:g} to {_LARGEST:g} and at least {1 / _LARGEST:g} apart"
        )
    size = whole("size", size, most=_MOST_ROWS)
    middle = (low + high) / 2
    chain = (
        (input_domain, input_metric)
        >> dp.t.then_clamp(bounds)
        >> dp.t.then_resize(size, constant=middle)
        >> dp.t.then_mean()
    )

    # The noise is designed later, when the query is released and its budget is known.
    def build(domain: dp.Domain, metric: dp.Metric, d_in: Any, d_out: Any) -> dp.Measurement:
        return make_optimal_noise(domain, metric, d_in, d_out, loss=loss)

    return Deferred(chain, build)
