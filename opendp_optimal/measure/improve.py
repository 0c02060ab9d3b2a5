"""The same pipeline with the best noise at the same guarantee."""

from __future__ import annotations

import logging
from typing import Any

from opendp_optimal.losses.base import loss_of
from opendp_optimal.measure import dp
from opendp_optimal.measure.anatomy import INNER, constructor_of, inner_distance, law_of, spaces
from opendp_optimal.measure.facts import facts_of
from opendp_optimal.measure.natives import NATIVE, remade
from opendp_optimal.measure.noise import LossLike, make_optimal_noise

log = logging.getLogger(__name__)

_AROUND = {**INNER, "make_population_amplification": "measurement"}
"""What goes around a measurement and asks its map at the same distance."""
_CURVE = "make_fix_delta"
"""States a curve at one delta: noise made for that pair of numbers may be better than any curve."""


def improve(measurement: dp.Measurement, d_in: Any, *, loss: LossLike = "l1") -> dp.Measurement:
    """Return the same pipeline with noise of least expected loss at the same guarantee.

    OpenDP's own record of how a measurement was built is read, through chains, post-processing,
    compositions, amplification and statements in another measure of privacy. OpenDP's Laplace,
    geometric and Gaussian noise in it is replaced by noise that costs the same at ``d_in``; what is
    not recognised stays as it is, and the log says why. What is returned costs at ``d_in`` at most
    what ``measurement`` costs there, or is ``measurement`` itself. Below ``d_in`` the map of the
    new noise is worse: OpenDP's falls in proportion to the distance.

    :param measurement: any measurement
    :param d_in: distance between neighbours, in terms of its input metric
    :param loss: what to minimise
    :raises ValueError: if it is no measurement

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.vector_domain(dp.atom_domain(bounds=(0.0, 9.0))), dp.symmetric_distance()
    >>> native = space >> dp.t.then_sum() >> dp.m.then_laplace(9.0)
    >>> better = improve(native, 1)
    >>> better.map(1) <= native.map(1)
    True
    """
    if not isinstance(measurement, dp.Measurement):
        raise ValueError(f"measurement ({type(measurement).__name__}) must be a measurement")
    before = measurement.map(d_in)
    made = _improved(measurement, d_in, loss)
    if made is measurement:
        return measurement
    after = made.map(d_in)
    pairs = isinstance(before, tuple)
    worse = any(a > b for a, b in zip(after, before, strict=True)) if pairs else after > before
    if worse or spaces(made)[2] != spaces(measurement)[2]:
        log.info("unchanged: the improved pipeline would cost %s instead of %s", after, before)
        return measurement
    return made


def _improved(part: dp.Measurement, d_in: Any, loss: LossLike) -> dp.Measurement:
    name, given = constructor_of(part)
    if facts_of(part).record is not None:
        return part
    if name == _CURVE:
        target = part.map(d_in)
        swapped = _swapped(given["measurement"], d_in, loss, target, spaces(part)[2])
        if swapped is not None:
            return swapped
    if name in _AROUND:
        before = given[_AROUND[name]]
        inner = _improved(before, inner_distance(name, given, d_in), loss)
        return part if inner is before else remade(name, {**given, _AROUND[name]: inner})
    if name == "make_composition":
        parts = [_improved(each, d_in, loss) for each in given["measurements"]]
        same = all(a is b for a, b in zip(parts, given["measurements"], strict=True))
        return part if same else dp.c.make_composition(parts)
    if name in NATIVE:
        return _better(part, d_in, loss, part.map(d_in), spaces(part)[2]) or part
    log.info("unchanged: a part made by %s is not recognised", name or "unknown means")
    return part


def _swapped(
    part: dp.Measurement, d_in: Any, loss: LossLike, d_out: Any, measure: dp.Measure
) -> dp.Measurement | None:
    """A chain whose only noise is made for another price; None where that is not better."""
    name, given = constructor_of(part)
    if name in INNER:
        distance = inner_distance(name, given, d_in)
        inner = _swapped(given[INNER[name]], distance, loss, d_out, measure)
        if inner is None or INNER[name] == "measurement":  # the new noise states the price itself
            return inner
        return remade(name, {**given, INNER[name]: inner})
    return _better(part, d_in, loss, d_out, measure) if name in NATIVE else None


def _better(
    part: dp.Measurement, d_in: Any, loss: LossLike, d_out: Any, measure: dp.Measure
) -> dp.Measurement | None:
    """Noise that costs so much, if it has less expected loss than OpenDP's own."""
    domain, metric, _ = spaces(part)
    try:
        new = make_optimal_noise(domain, metric, d_in, d_out, loss=loss, output_measure=measure)
        if getattr(getattr(new, "guarantee", None), "chosen", None) == "by length":
            return new  # OpenDP's own noise is a candidate for each length
        old_loss = law_of(part, vectors=True).expected_loss(loss_of(loss))
        new_loss = law_of(new, vectors=True).expected_loss(loss_of(loss))
    except ValueError as error:
        log.info("unchanged: %s", error)
        return None
    if new_loss >= old_loss:
        log.info("unchanged: OpenDP's own noise has an expected loss of %.6g here", old_loss)
        return None
    return new
