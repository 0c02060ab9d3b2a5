"""The OpenDP surface: a native Laplace measurement chained with the responder."""

from __future__ import annotations

import sys
from functools import cache

import opendp.prelude as dp

from opendp_optimal.extend import (
    Space,
    laplace_scale_up,
    postprocess,
    record_text,
    space_of,
    to_then,
    whole,
)
from opendp_optimal_select.catalogue import Catalogue
from opendp_optimal_select.disutility import Disutility, check_disutility
from opendp_optimal_select.placing import offsets
from opendp_optimal_select.privacy import GeographicPrivacy, rate

MAX_ANSWERS = 10_000
_LARGEST = sys.float_info.max


def make_multi_selection(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    epsilon: float,
    k: int,
    *,
    disutility: Disutility | None = None,
    catalogue: Catalogue | None = None,
    privacy: GeographicPrivacy | None = None,
) -> dp.Measurement:
    """Return a measurement that releases ``k`` answers around a noisy value.

    The value is released once, by OpenDP's own Laplace measurement; the answers are computed from
    the release, so the privacy map is OpenDP's: ``epsilon * d_in``. The user keeps the best answer
    and tells nobody which (Goel, Jiang, Korolova, Munagala, Sarmasarkar).

    Needs OpenDP's feature ``contrib``.

    :param input_domain: ``dp.atom_domain(T=float, nan=False)``
    :param input_metric: ``dp.absolute_distance(T=float)``
    :param epsilon: privacy loss per unit of distance
    :param k: number of answers
    :param disutility: the user's cost as a function of distance; ``None`` for the distance itself
    :param catalogue: answer with its items; with ``None``, answer with numbers
    :param privacy: allowed loss as a function of distance, scaled by ``epsilon``; the noise then
        has rate ``epsilon * privacy.slope``
    :returns: a measurement whose release is a list of ``k`` numbers, or ``k`` distinct items

    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    >>> meas = space >> then_multi_selection(epsilon=0.5, k=3)
    >>> meas.map(2.0)
    1.0
    >>> len(meas(21.5))
    3
    """
    if space_of(input_domain, input_metric) != Space("f64", "absolute"):
        raise ValueError(
            f"input_domain ({input_domain}) must be dp.atom_domain(T=float, nan=False)"
        )
    k = whole("k", k, most=MAX_ANSWERS)
    per_unit = rate(epsilon, privacy)
    if catalogue is not None and not isinstance(catalogue, Catalogue):
        raise ValueError(f"catalogue (a {type(catalogue).__name__}) must be a Catalogue, or None")
    if catalogue is not None and k > len(catalogue):
        raise ValueError(f"k ({k}) must be at most the size of the catalogue ({len(catalogue)})")
    noise = dp.m.make_laplace(input_domain, input_metric, scale=laplace_scale_up(per_unit))
    if disutility is not None:
        check_disutility(disutility, epsilon=per_unit)
    # The Context API builds a thousand measurements to find its epsilon and releases from one:
    # the offsets wait for the first release.
    steps = cache(lambda: offsets(k, epsilon=per_unit, disutility=disutility))
    if catalogue is not None:
        answer = catalogue.answer
        return postprocess(
            noise, lambda x: answer(min(max(x, -_LARGEST), _LARGEST), steps()), "ExtrinsicObject"
        )
    record = record_text("make_multi_selection", per_unit, k) if disutility is None else None
    return postprocess(noise, lambda x: [x + a for a in steps()], "Vec<f64>", record=record)


then_multi_selection = to_then(make_multi_selection)
