"""Measurements that add optimal noise: ``make_optimal_noise`` and ``then_optimal_noise``."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from typing import Any

from opendp_optimal.errors import GapWarning
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import assert_honest, new_profile, require_features
from opendp_optimal.measure.anatomy import price_of
from opendp_optimal.measure.concentrated import KINDS, concentrated_noise
from opendp_optimal.measure.facts import Facts, digest_of, record_text
from opendp_optimal.measure.guarantee import Design, Guarantee, design_for, proved
from opendp_optimal.measure.release import grid_for, make_numeric
from opendp_optimal.measure.space import Space, is_real, measure_name, space_of
from opendp_optimal.measure.vector import VectorGuarantee, vector_guarantee
from opendp_optimal.measure.waiting import defer, to_then
from opendp_optimal.problem.noise import LARGEST_WHOLE
from opendp_optimal.search import noise as engine
from opendp_optimal.search.closed import whole_spike
from opendp_optimal.search.sizing import integer_sensitivity, whole_numbers_matter
from opendp_optimal.table import NoiseTable

LossLike = str | Loss | Callable[[float], float]
_BETTER = 0.99
"""Integer noise of a large sensitivity is used where it has less than this part of the loss."""


def make_optimal_noise(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    d_in: float,
    d_out: float | tuple[float, float] | None = None,
    *,
    like: Any = None,
    loss: LossLike = "l1",
    gap: float = 1e-3,
    changed: int | None = None,
    profile: bool = False,
    cache: bool = True,
    output_measure: dp.Measure | None = None,
) -> dp.Measurement:
    r"""Make a measurement that adds the noise of least expected loss for a privacy target.

    The noise is drawn from a table with two exact proofs: that it is (epsilon, delta)-private,
    and how far its expected loss can be from that of any other additive mechanism. The privacy
    map answers every distance: below ``d_in`` by the table's own profile, beyond it by group
    privacy. On floats the noise is made for a distance that is larger than ``d_in`` by a part of
    2^-16, and the map answers ``d_out`` up to exactly that.

    Scalars of any float or integer type with the absolute distance; vectors of them with the l1,
    l2 or linf distance. Vectors get the best of radial noise in a norm (staircases, and with a
    delta exp(-c r - k r^2), which has Gaussian noise as one end), Laplace noise, and tables for
    single coordinates where few of them move; ``measurement.guarantee.chosen`` says which. For
    vectors the loss is the sum over coordinates. Where the domain does not fix the length, each
    length is designed when it is first released. Beyond ``d_in`` the map of a vector measurement
    answers by group privacy.

    :param input_domain: domain of the data; floats must exclude NaN.
    :param input_metric: ``absolute_distance`` for scalars; ``l1_distance``, ``l2_distance`` or
        ``linf_distance`` for vectors.
    :param d_in: the largest distance between neighbours; the noise is designed for it.
    :param d_out: ``(epsilon, delta)`` gives a measurement under
        ``approximate(max_divergence())``, a single epsilon gives pure differential privacy under
        ``max_divergence()``.
    :param like: in place of ``d_out``, OpenDP's own noise, as ``dp.m.then_laplace(scale)``: what it
        costs at ``d_in`` is what this one costs.
    :param loss: what to minimise: "l1", "l2", "pinball:0.9", a registered name, a ``Loss`` or a
        callable.
    :param gap: the largest acceptable relative gap between the loss and its proven lower bound.
    :param changed: for vectors, the most coordinates that can differ between neighbours. Where
        the domain and the metric do not prove it, this is your promise about the data, which
        nothing checks: OpenDP's feature "honest-but-curious" must be enabled.
    :param profile: emit ``smoothed_max_divergence()`` with the table's whole privacy profile
        instead (OpenDP asks for the feature "honest-but-curious" there, and cannot compose such
        measurements).
    :param cache: whether solved tables are kept on disk.
    :param output_measure: how ``d_out`` measures privacy, where its shape does not tell:
        ``zero_concentrated_divergence()``, or approximate. There the noise of least loss is chosen
        among the exact Gaussian, Laplace noise and tables, each at its own price.
    :raises ValueError: naming the argument for which there is no proof or no sense.

    >>> import opendp.prelude as dp
    >>> from opendp_optimal import make_optimal_noise
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    >>> meas = make_optimal_noise(*space, d_in=1, d_out=(1.0, 1e-6))
    >>> meas.map(1)
    (1.0, 1e-06)
    >>> isinstance(meas(100), int)
    True
    """
    require_features("contrib")
    space = space_of(input_domain, input_metric)
    if (d_out is None) == (like is None):
        raise ValueError(f"give one of d_out ({d_out!r}) and like ({like!r})")
    if like is not None:
        d_out, output_measure = price_of(like, input_domain, input_metric, d_in, output_measure)
    kind = "" if output_measure is None else measure_name(output_measure)
    if kind.endswith(("ZeroConcentratedDivergence", "ZeroConcentratedDivergence>")):
        if profile:
            raise ValueError(f"profile ({profile!r}) has no sense under {kind}")
        assert output_measure is not None
        table = partial(make_optimal_noise, loss=loss, gap=gap, changed=changed, cache=cache)
        return concentrated_noise(
            input_domain, input_metric, d_in, d_out, output_measure, loss_of(loss), table
        )
    if kind and kind != (
        "Approximate<MaxDivergence>" if isinstance(d_out, tuple) else "MaxDivergence"
    ):
        raise ValueError(f"output_measure ({output_measure}) must go with d_out ({d_out!r})")
    epsilon, delta = target_of(d_out)
    best = best_guarantee(space, d_in, epsilon, delta, loss, gap, changed, cache, d_out)
    if isinstance(best, VectorGuarantee):
        record = record_text("make_optimal_noise", best.power, d_in, d_out)
    else:
        asked = best.table.problem.fingerprint
        record = record_text("make_optimal_noise", asked, d_in, d_out, changed)
    return _measurement(input_domain, input_metric, best, d_out, record, profile=profile)


def best_guarantee(
    space: Space,
    d_in: Any,
    epsilon: float,
    delta: float,
    loss: LossLike,
    gap: float,
    changed: int | None = None,
    cache: bool = True,
    d_out: Any = None,
) -> Guarantee | VectorGuarantee:
    """The noise of least expected loss for a space, and why it is private.

    :param d_out: as it was given, for messages
    """
    if space.vector:
        parsed = loss_of(loss)

        def scalar(design: Design) -> float:
            unit = 1.0 if space.integer else float(design.sensitivity) ** max(1, parsed.power)
            return _table(space, design, loss, gap, cache).upper * unit

        best = vector_guarantee(space, d_in, epsilon, delta, parsed, changed, cache, scalar)
        if best is not None:
            return best
    design = design_for(space, d_in, epsilon, delta, changed)
    try:
        table = _table(space, design, loss, gap, cache)
    except ValueError as error:
        if design.copies == 1:
            raise
        given = (epsilon, delta) if d_out is None else d_out
        raise ValueError(f"d_out ({given!r}) divided by {design.copies}: {error}") from error
    return _guarantee(space, table, d_in, (epsilon, delta), changed)


def make_concentrated_noise(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    d_in: float,
    d_out: float | tuple[float, float],
    kind: str,
    *,
    loss: LossLike = "l1",
    gap: float = 1e-3,
    cache: bool = True,
) -> dp.Measurement:
    """Make a measurement that adds noise of one kind at its own price under zCDP.

    ``make_optimal_noise`` with this measure of privacy takes the best of the kinds.

    :param input_domain: domain of the data; floats must exclude NaN
    :param input_metric: as for :func:`make_optimal_noise`
    :param d_in: the largest distance between neighbours
    :param d_out: a rho, or ``(rho, delta)`` under approximate zCDP
    :param kind: "gaussian"; "laplace" for single numbers; "table": a pure table of the epsilon
        that costs rho, with a delta one that fails so rarely
    :param loss: what a table minimises
    :param gap: the largest acceptable certified gap of a table
    :param cache: whether solved tables are kept on disk
    :raises ValueError: naming the argument that has no sense

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    >>> make_concentrated_noise(*space, 1.0, 2.0, "laplace").map(1.0) <= 2.0
    True
    """
    require_features("contrib")
    if kind not in KINDS:
        raise ValueError(f"kind ({kind!r}) must be {', '.join(KINDS)}")
    inner = dp.zero_concentrated_divergence()
    measure = dp.approximate(inner) if isinstance(d_out, tuple) else inner
    table = partial(make_optimal_noise, loss=loss, gap=gap, cache=cache)
    return concentrated_noise(
        input_domain, input_metric, d_in, d_out, measure, loss_of(loss), table, only=kind
    )


def noise_measurement(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    table: NoiseTable,
    d_in: float,
    d_out: float | tuple[float, float],
    *,
    changed: int | None = None,
) -> dp.Measurement:
    """Make a measurement that adds the noise of a table.

    The table is proved again, and its guarantee must cover what is asked for.

    :param input_domain: domain of the data; floats must exclude NaN.
    :param input_metric: as for :func:`make_optimal_noise`.
    :param table: noise for one number, or for each coordinate of a vector.
    :param d_in: the largest distance between neighbours.
    :param d_out: an epsilon, or ``(epsilon, delta)``.
    :param changed: as for :func:`make_optimal_noise`.
    :raises ValueError: if the table is not private enough, or there is no proof for the space.

    >>> import opendp.prelude as dp
    >>> from opendp_optimal import solve
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    >>> noise_measurement(*space, solve(1.0, 1e-6), 2.0, (1.0, 1e-6)).map(2.0)
    (1.0, 1e-06)
    """
    require_features("contrib")
    if not isinstance(table, NoiseTable):
        raise ValueError(f"table ({type(table).__name__}) must be a NoiseTable")
    _verified(table)
    space = space_of(input_domain, input_metric)
    guarantee = _guarantee(space, table, d_in, target_of(d_out), changed)
    record = record_text("noise_measurement", digest_of(table), d_in, d_out, changed)
    return _measurement(input_domain, input_metric, guarantee, d_out, record)


@lru_cache(maxsize=64)
def _verified(table: NoiseTable) -> None:
    """Prove a table, once for each content: tables never change."""
    table.verify()


def _guarantee(
    space: Space, table: NoiseTable, d_in: Any, target: tuple[float, float], changed: int | None
) -> Guarantee:
    """The guarantee of a table's noise on a space, if it covers the target."""
    design = design_for(space, d_in, *target, changed)
    if changed is not None and not proved(space, d_in, changed):
        assert_honest(f"changed ({changed!r})")
    if table.kind == "integer" and not (space.integer and table.cells >= design.sensitivity):
        raise ValueError(f"table (for integers that move by {table.cells}) must be for such data")
    covers = table.epsilon <= design.epsilon and table.delta <= design.delta
    if not covers and table.delta_at(design.epsilon) > design.delta:
        raise ValueError(
            f"table (epsilon {table.epsilon!r}, delta {table.delta!r}) must be "
            f"({design.epsilon!r}, {design.delta!r})-private for d_out"
        )
    grid = grid_for(space, table, design.sensitivity)
    return Guarantee(space, design, table, grid, d_in, *target, changed)


def _measurement(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    guarantee: Guarantee | VectorGuarantee,
    d_out: Any,
    record: str,
    *,
    profile: bool = False,
) -> dp.Measurement:
    """A measurement that draws and costs what a guarantee says."""
    measure, privacy_map = stated(d_out, guarantee.pair)
    if profile:
        require_features("contrib", "honest-but-curious")
        measure = dp.smoothed_max_divergence()

        def privacy_map(d: Any) -> Any:
            return new_profile(guarantee.curve(d)).curve

    facts = Facts(record, guarantee.law, guarantee.event)
    space, release = guarantee.space, guarantee.release()
    made = make_numeric(input_domain, input_metric, measure, space, release, privacy_map, facts)
    # For the curious; the package itself believes its own facts only.
    made.table, made.guarantee = guarantee.table, guarantee
    return made


then_optimal_noise = to_then(make_optimal_noise)
make_optimal = defer(make_optimal_noise, "make_optimal", without=["like", "profile"])


def target_of(d_out: Any) -> tuple[float, float]:
    """Check the shape and range of ``d_out`` and return (epsilon, delta)."""
    epsilon, delta = d_out if isinstance(d_out, tuple) and len(d_out) == 2 else (d_out, 0.0)
    if not (is_real(epsilon) and is_real(delta)):
        raise ValueError(f"d_out ({d_out!r}) must be an epsilon or a pair (epsilon, delta)")
    if not 0 <= epsilon <= sys.float_info.max:
        raise ValueError(f"d_out: epsilon ({epsilon!r}) must be finite and not negative")
    if not 0 <= delta < 1:
        raise ValueError(f"d_out: delta ({delta!r}) must be in [0, 1)")
    if epsilon == 0 and delta == 0:
        raise ValueError(f"d_out ({d_out!r}) leaves no budget: epsilon or delta must be positive")
    return float(epsilon), float(delta)


def stated(
    d_out: Any, pair: Callable[[Any], tuple[float, float]]
) -> tuple[dp.Measure, Callable[[Any], Any]]:
    """The measure of privacy that ``d_out`` is in, and what it says of (epsilon, delta)."""
    if isinstance(d_out, tuple):
        return dp.approximate(dp.max_divergence()), pair
    return dp.max_divergence(), lambda d: pair(d)[0]


def _table(space: Space, design: Design, loss: LossLike, gap: float, cache: bool) -> NoiseTable:
    epsilon, delta, moved = design.epsilon, design.delta, int(design.sensitivity)
    whole = integer_sensitivity(epsilon, moved) if space.integer else None
    ask = solved_once if isinstance(loss, Hashable) else solved_once.__wrapped__
    table = ask(epsilon, delta, loss, whole, gap, cache)
    power = table.loss.power
    if not space.integer or whole or not power:
        return table
    if not whole_numbers_matter(table.problem, table.lower, moved):
        return table
    if moved > LARGEST_WHOLE:
        other = whole_spike(table, moved) or table
        return min(other, table, key=lambda t: t.law(float(moved)).rounded().expected_loss(t.loss))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)  # what real noise has beneath it says more
        other = ask(epsilon, delta, loss, moved, gap, cache)
    return other if other.upper < _BETTER * table.upper * moved**power else table


@lru_cache(maxsize=256)
def solved_once(
    epsilon: float, delta: float, loss: LossLike, whole: int | None, gap: float, cache: bool
) -> NoiseTable:
    """Solve or load each distinct problem once in a process; tables never change."""
    return engine.solve(
        epsilon=epsilon, delta=delta, loss=loss, integer_sensitivity=whole, gap=gap, cache=cache
    )
