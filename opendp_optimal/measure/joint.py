"""Several queries asked together: one release with noise for all of their answers.

Each answer is put on a grid of its own, exactly, in fractions; the noise of all grids together is
chosen by :mod:`~opendp_optimal.measure.joint_noise`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from opendp.core import transformation_invoke, transformation_map
from opendp.mod import UnknownTypeException

from opendp_optimal.budget.events import Approximate, Concentrated, Event, Gaussian, Profile
from opendp_optimal.checks import positive
from opendp_optimal.exact.numbers import exactly, float_up
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import make_measurement, make_transformation, require_features
from opendp_optimal.measure.anatomy import identity_of
from opendp_optimal.measure.concentrated import pure_epsilon
from opendp_optimal.measure.facts import Facts, record_text, remember
from opendp_optimal.measure.joint_noise import (
    GAUSSIAN,
    LAPLACE,
    JointGuarantee,
    Part,
    best_joint,
    laplace_event,
)
from opendp_optimal.measure.noise import target_of
from opendp_optimal.measure.release import LARGEST
from opendp_optimal.measure.space import INTEGER_RANGES, Space, measure_name, space_of
from opendp_optimal.measure.vector_noise import grouped
from opendp_optimal.problem.noise import MIN_EPSILON

_CONCENTRATED = "ZeroConcentratedDivergence"


def make_joint(
    transformations: Sequence[dp.Transformation],
    d_in: Any,
    d_out: float | tuple[float, float],
    *,
    weights: Sequence[float] | None = None,
    output_measure: dp.Measure | None = None,
    cache: bool = True,
) -> dp.Measurement:
    """Make one measurement that answers several queries at once, with noise for all of them.

    The sum of squared errors is minimised, each in units of how far its answer can move. The
    release is the list of answers, in the order of the queries, and costs ``d_out`` once.

    :param transformations: from one input space to numbers (absolute distance) or to vectors (l1,
        l2 or linf distance); where lengths are not fixed, the noise is designed when they are seen
    :param d_in: the largest distance between neighbours
    :param d_out: an epsilon, or ``(epsilon, delta)``; under zCDP a rho, or ``(rho, delta)``
    :param weights: what the squared error of each query counts; all the same by default
    :param output_measure: ``zero_concentrated_divergence()``, or approximate, where ``d_out`` is
        measured so
    :param cache: whether tables are kept on disk
    :raises ValueError: naming what does not fit

    >>> import opendp.prelude as dp
    >>> from opendp_optimal import make_joint
    >>> dp.enable_features("contrib")
    >>> space = dp.vector_domain(dp.atom_domain(bounds=(0, 9))), dp.symmetric_distance()
    >>> queries = [space >> dp.t.then_sum(), space >> dp.t.then_count()]
    >>> meas = make_joint(queries, 1, (1.0, 1e-6))
    >>> meas.map(1), len(meas([3, 4, 5]))
    ((1.0, 1e-06), 2)
    """
    require_features("contrib")
    steps = list(transformations)
    if not steps or not all(isinstance(step, dp.Transformation) for step in steps):
        raise ValueError("transformations must be one transformation or more")
    first = steps[0]
    for step in steps[1:]:
        same = str(step.input_domain) == str(first.input_domain)
        if not same or str(step.input_metric) != str(first.input_metric):
            raise ValueError("transformations must start from the same domain and metric")
    approximate = isinstance(d_out, tuple)
    measure, rho = _measure(output_measure, approximate), None
    epsilon, delta = target_of(d_out)
    if _CONCENTRATED in str(measure.type):
        rho = positive("d_out", epsilon)
        epsilon = pure_epsilon(rho)
    if epsilon < MIN_EPSILON or (rho is not None and rho < MIN_EPSILON**2):
        raise ValueError(f"d_out ({d_out!r}) must be larger: {MIN_EPSILON:g} is the least epsilon")
    parts = tuple(_part(step, d_in, i) for i, step in enumerate(steps))
    weighed = [1.0] * len(parts) if weights is None else [positive("weights", w) for w in weights]
    if len(weighed) != len(parts):
        raise ValueError(f"weights ({weights!r}) must have one number for each query")

    @lru_cache(maxsize=64)
    def designed(sizes: tuple[int, ...]) -> JointGuarantee:
        known = tuple(replace(p, size=n) for p, n in zip(parts, sizes, strict=True))
        return best_joint(known, epsilon, delta, d_in, weighed, rho=rho, cache=cache)

    fixed = all(part.size for part in parts)
    guarantee = designed(tuple(part.size or 1 for part in parts))
    distances = [part.distance for part in parts]

    def times(d: Any) -> int:
        moved = [exactly(transformation_map(step, d)) for step in steps]
        return max(math.ceil(m / most) for m, most in zip(moved, distances, strict=True))

    def pair(d: Any) -> tuple[float, float]:
        many = times(d)
        told, failed = grouped(epsilon, delta, many)
        # So many times the distance costs that number squared, of pure noise no more.
        return (told if rho is None else float_up(Fraction(rho) * many**2)), failed

    def release(data: Any) -> list[Any]:
        answers = [transformation_invoke(step, data) for step in steps]
        sizes = [p.size or max(1, len(a)) for p, a in zip(parts, answers, strict=True)]
        chosen = designed(tuple(sizes))
        noise = chosen.draw()
        out, at = [], 0
        for part, grid, answer, size in zip(parts, chosen.steps, answers, sizes, strict=True):
            here = noise[at : at + size].tolist()
            at += size
            noisy = _noisy(part, grid, answer, here)
            out.append(noisy if part.size else noisy[: len(answer)])
        return out

    made = make_measurement(
        first.input_domain,
        first.input_metric,
        measure,
        release,
        pair if approximate else lambda d: pair(d)[0],
        TO="ExtrinsicObject",
    )
    made.guarantee = guarantee if fixed else None
    made.table = guarantee.table if fixed else None

    def event(d: Any) -> Event:
        far = 1 if d is None else times(d)
        if rho is not None and guarantee.chosen == GAUSSIAN and fixed:
            return Gaussian(float_up(Fraction(rho) * far**2))
        if fixed and far and guarantee.chosen == LAPLACE:
            return laplace_event(guarantee, far)
        if fixed and far == 1 and guarantee.table is not None:  # every move of the design is hidden
            return Profile(epsilon, delta, guarantee, 1, guarantee.table.delta_at, 1 << 14)
        if rho is not None and not fixed:  # what noise it is depends on the lengths
            return Concentrated(float_up(Fraction(rho) * far**2), grouped(epsilon, delta, far)[1])
        return Approximate(*grouped(epsilon, delta, far))

    asked = identity_of(steps)
    record = None if asked is None else record_text("make_joint", asked, d_in, d_out, *weighed)
    return remember(made, Facts(record, None, event, guarantee.laws if fixed else None))


def make_joint_coordinates(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    d_in: Any,
    d_out: float | tuple[float, float],
    *,
    output_measure: dp.Measure | None = None,
) -> dp.Measurement:
    """Make a joint release of the coordinates of a vector, each a query of its own.

    :param input_domain: vectors of a fixed length
    :param input_metric: the linf distance
    :param d_in: how far each coordinate can move
    :param d_out: as for :func:`make_joint`
    :param output_measure: as for :func:`make_joint`
    """
    space = space_of(input_domain, input_metric)
    if space.norm != "linf" or not space.size:
        raise ValueError(
            f"input_metric ({input_metric}) must be linf_distance, and the length fixed"
        )
    element = input_domain.element_domain
    to = element, dp.absolute_distance(T=space.carrier)

    def pick(number: int) -> dp.Transformation:
        return make_transformation(
            *(input_domain, input_metric, *to),
            lambda x: x[number],
            lambda d: d,
            record=f"coordinate({number})",
        )

    queries = [pick(number) for number in range(space.size)]
    return make_joint(queries, d_in, d_out, output_measure=output_measure)


def _measure(given: dp.Measure | None, approximate: bool) -> dp.Measure:
    """How the price of a release is measured."""
    name = None if given is None else measure_name(given)
    concentrated = _CONCENTRATED in (name or "")
    inner = dp.zero_concentrated_divergence() if concentrated else dp.max_divergence()
    measure = dp.approximate(inner) if approximate else inner
    if name not in (None, str(measure.type)):
        raise ValueError(f"output_measure ({given}) must go with d_out: a number or a pair")
    return measure


def _part(step: dp.Transformation, d_in: Any, number: int) -> Part:
    try:
        space = space_of(*step.output_space)
    except ValueError as error:
        raise ValueError(f"transformations[{number}]: {error}") from None
    try:
        distance = exactly(transformation_map(step, d_in))
    except (dp.OpenDPException, UnknownTypeException, TypeError) as error:
        raise ValueError(f"d_in ({d_in!r}) must be a distance of {step.input_metric}") from error
    if distance <= 0:
        raise ValueError(f"d_in ({d_in!r}) does not move the answer of transformations[{number}]")
    return Part(space, (space.size or 0) if space.vector else 1, distance)


def _noisy(part: Part, steps: int, answer: Any, noise: list[int]) -> Any:
    """An answer with noise, in its own type: on the grid, exactly, and rounded once."""
    values = list(answer) if part.space.vector else [answer]
    values = (values + [0] * len(noise))[: len(noise)]
    unit = part.distance / steps
    out = [_one(part.space, unit, v, n) for v, n in zip(values, noise, strict=True)]
    return out if part.space.vector else out[0]


def _one(space: Space, unit: Fraction, value: Any, noise: int) -> Any:
    if space.integer:
        low, high = INTEGER_RANGES[space.carrier]
        return min(max(round((round(int(value) / unit) + noise) * unit), low), high)
    largest = LARGEST[space.carrier]
    plain = 0.0 if value != value else min(max(float(value), -largest), largest)
    total = (round(Fraction(plain) / unit) + noise) * unit
    near = largest if abs(total) >= Fraction(largest) else float(abs(total))
    near = near if total >= 0 else -near
    return float(np.float32(near)) if space.carrier == "f32" else near


def joint(*queries: dp.Query, weights: Sequence[float] | None = None) -> dp.Query:
    """Ask several queries of a context at once, for the budget of one.

    All of them must be begun by ``context.query(...)`` of one context with the same budget, and
    must not have their noise yet. ``release()`` gives the list of answers and pays once.

    :param queries: that end in a number or in a vector
    :param weights: as for :func:`make_joint`

    >>> import opendp.prelude as dp
    >>> import opendp_optimal
    >>> dp.enable_features("contrib")
    >>> context = dp.Context.compositor(
    ...     data=[3, 4, 5], privacy_unit=dp.unit_of(contributions=1),
    ...     privacy_loss=dp.loss_of(epsilon=1.0), split_evenly_over=1)
    >>> query = context.query().clamp((0, 9))
    >>> len(opendp_optimal.joint(query.sum(), query.count()).release())
    2
    """
    if not queries or not all(isinstance(query, dp.Query) for query in queries):
        raise ValueError("queries must be one query of a context or more")
    first = queries[0]
    chains = []
    for query in queries:
        if query._context is not first._context or query._d_out != first._d_out:
            raise ValueError("queries must be of one context, with the same budget")
        if not isinstance(query._chain, dp.Transformation):
            raise ValueError("queries must end in a number or a vector, without noise")
        chains.append(query._chain)
    if first._d_in is None or first._d_out is None:
        raise ValueError("queries must have a budget: begin them by context.query(...)")
    measurement = make_joint(
        chains, first._d_in, first._d_out, weights=weights, output_measure=first._output_measure
    )
    return dp.Query(
        chain=measurement,
        output_measure=first._output_measure,
        d_in=first._d_in,
        d_out=first._d_out,
        context=first._context,
    )
