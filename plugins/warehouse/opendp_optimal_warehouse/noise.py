"""Noise on the integers of all groups: one measurement, one price, one frame."""

from __future__ import annotations

from typing import Any

from opendp.measures import approximate, max_divergence
from opendp.mod import Domain, Measure, Measurement, Metric

from opendp_optimal.extend import Price, defer, make_measurement, record_text, to_then
from opendp_optimal_warehouse.answers import frame_of
from opendp_optimal_warehouse.designs import designs_of
from opendp_optimal_warehouse.layout import Layout
from opendp_optimal_warehouse.steps import Totals, described, totals_distance


def make_noisy_table(
    input_domain: Domain,
    input_metric: Metric,
    d_in: int,
    d_out: Any,
    *,
    output_measure: Measure | None = None,
) -> Measurement:
    """Make a measurement that releases a table of integers as a Polars frame.

    :param input_domain: of integers that :func:`make_tally` makes
    :param input_metric: how many people moved them
    :param d_in: how many people are hidden: 1
    :param d_out: an epsilon, ``(epsilon, delta)``, or a rho
    :param output_measure: "rho" is meant where it is zero-concentrated
    """
    layout: Layout = described(input_domain, Totals).layout
    if str(input_metric) != str(totals_distance()):
        raise ValueError(f"input_metric ({input_metric}) must be {totals_distance()}")
    if isinstance(d_in, bool) or d_in != 1:
        raise ValueError(f"d_in ({d_in!r}) must be 1: one person is hidden")
    measure = output_measure or (
        approximate(max_divergence()) if isinstance(d_out, tuple) else max_divergence()
    )
    designs = designs_of(layout, price_of(d_out, measure))

    def privacy_map(distance: Any) -> Any:
        if distance == 0:
            return (0.0, 0.0) if isinstance(d_out, tuple) else 0.0
        if isinstance(distance, bool) or distance != 1:
            raise ValueError(f"d_in ({distance!r}) must be 1: one person is hidden")
        return d_out

    made = make_measurement(
        input_domain,
        input_metric,
        measure,
        lambda found: frame_of(layout, designs, found),
        privacy_map,
        TO="ExtrinsicObject",
        record=record_text("make_noisy_table", d_out),
    )
    made.designs = designs
    return made


then_noisy_table = to_then(make_noisy_table)
make_noisy = defer(make_noisy_table, "make_noisy")


def price_of(d_out: Any, measure: Measure) -> Price:
    """What a release may cost, as the noise is asked for.

    :param d_out: the price
    :param measure: in which it is meant
    """
    main, delta = d_out if isinstance(d_out, tuple) else (d_out, 0.0)
    return Price(float(main), float(delta), concentrated="Concentrated" in str(measure))
