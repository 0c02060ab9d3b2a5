"""Remapping: turn a noisy answer into the decision that is best for a consumer's prior and loss.

Post-processing, so the privacy map stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from opendp.mod import Measurement

from opendp_optimal.extend import (
    INTEGER_RANGES,
    Floats,
    Loss,
    Postprocess,
    chances,
    float_down,
    float_up,
    fraction,
    interval,
    loss_of,
    postprocess,
    record_text,
)
from opendp_optimal_bayes.grid import Law, carrier_of, law_of
from opendp_optimal_bayes.losses import LossLike, loss_matrix

Prior = Sequence[Any] | Callable[[float], float]


@dataclass(frozen=True)
class Rule:
    """What to do after each observation, and what it is worth.

    :param law: of the mechanism before
    :param decisions: the action after each observation of the law
    :param before: expected loss of taking what is seen, within the bounds
    :param after: expected loss of deciding by this rule
    """

    law: Law
    decisions: tuple[Any, ...]
    before: float
    after: float

    def __call__(self, y: Any) -> Any:
        """The best action after an observation.

        :param y: a release of the mechanism
        """
        return self.decisions[self.law.place(y)]


def decision_rule(
    law: Law, prior: Prior | None, loss: LossLike, actions: Sequence[Any] | None = None
) -> Rule:
    """The best rule for a consumer.

    :param law: of the mechanism
    :param prior: see :func:`remap`
    :param loss: see :func:`remap`
    :param actions: see :func:`remap`
    """
    weights = prior_weights(law, prior)
    # Places are counted from the origin, so that errors of large integers are exact.
    chosen = law.steps if actions is None else _places(actions, law)
    if len(chosen) == 0:
        raise ValueError("actions must not be empty")
    named: Sequence[Any] = chosen.tolist() if actions is None else list(actions)
    if actions is None and law.integer:
        named = range(int(law.lo), int(law.hi) + 1)
    joint = weights[:, None] * law.matrix
    costs = _costs(loss, chosen, law)
    after = costs @ joint
    best = after.argmin(axis=0)
    # Taking what is seen: the observation itself, within the bounds.
    seen = np.clip(law.seen, float(law.lo - law.origin), float(law.hi - law.origin))
    if actions is None and law.integer:
        raw = costs[np.round(seen).astype(int)]
    elif actions is None and (isinstance(loss, str | Loss) or callable(loss)):
        raw = _costs(loss, seen, law)
    else:
        raw = costs[np.abs(seen[:, None] - chosen).argmin(axis=1)]
    before = float((raw.T * joint).sum())
    total = float(after.min(axis=0).sum())
    return Rule(law, tuple(named[i] for i in best.tolist()), before, total)


def prior_weights(law: Law, prior: Prior | None) -> Floats:
    """The chance of each answer of a law.

    :param law: of the mechanism
    :param prior: see :func:`remap`
    """
    answers = law.answers
    if prior is None:
        return np.full(len(answers), 1 / len(answers))
    if callable(prior):
        density = np.array([float(prior(x)) for x in answers.tolist()])
        if not np.all(np.isfinite(density)) or density.min() < 0 or not density.sum() > 0:
            raise ValueError("prior must be a density: finite, not negative, not 0 everywhere")
        return np.asarray(density / density.sum())
    if law.integer:
        return np.array(chances("prior", prior, len(answers)), dtype=np.float64)
    parts = np.array(chances("prior", prior), dtype=np.float64)
    # A histogram over equal parts of the interval, spread evenly within each.
    edges = np.linspace(0.0, 1.0, len(answers) + 1)
    steps = np.linspace(0.0, 1.0, len(parts) + 1)
    gathered = np.interp(edges, steps, np.concatenate([[0.0], np.cumsum(parts)]))
    return np.asarray(np.diff(gathered) / np.diff(gathered).sum())


class Remap(Postprocess):
    """A decision rule that waits for its mechanism: ``measurement >> remap(prior, loss)``."""

    _type_ = Measurement._type_

    def __init__(self, build: Callable[[Any], Rule]) -> None:
        """Remember how to build the rule."""
        self._build = build

    def rule(self, measurement: Measurement) -> Rule:
        """The rule for a measurement, with the expected losses before and after.

        :param measurement: the mechanism to decide after
        """
        return self._build(measurement)

    def after(self, measurement: Measurement) -> Measurement:
        """Decide after a measurement.

        :param measurement: the mechanism to decide after
        """
        rule = self._build(measurement)
        chained = postprocess(measurement, rule, _type_of(rule.decisions))
        chained.rule = rule
        return chained


def remap(
    prior: Prior | None = None,
    loss: LossLike = "l1",
    *,
    actions: Sequence[Any] | None = None,
    bounds: tuple[Any, Any] | None = None,
) -> Remap:
    """Decide as well as possible after a release: ``measurement >> remap(prior, loss)``.

    The result has the privacy map of the measurement, and a ``rule`` with the expected losses
    ``before`` and ``after``. Works after :func:`make_bounded_geometric`,
    :func:`make_bounded_laplace` and OpenDP's own Laplace and geometric noise, also behind
    transformations.

    :param prior: chances of the answers. For integers, one for each of lo..hi; for real answers,
        a density on [lo, hi] or the weights of a histogram of equal parts; uniform by default
    :param loss: "l1", "l2", "pinball:LEVEL", a ``Loss`` of the error, a function of (action,
        answer), or a matrix loss[w][x] with a row for each action
    :param actions: what can be decided; the answers by default
    :param bounds: (lo, hi) of the answers, for noise that is not bounded itself

    >>> import opendp.prelude as dp
    >>> from opendp_optimal_bayes import make_bounded_geometric, remap
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    >>> noisy = make_bounded_geometric(*space, lo=0, hi=50, epsilon=0.1)
    >>> best = noisy >> remap(loss="l1")
    >>> best.map(1) == noisy.map(1)
    True
    >>> round(best.rule.before, 3), round(best.rule.after, 3)
    (7.939, 7.186)
    """
    if bounds is not None and (not hasattr(bounds, "__len__") or len(bounds) != 2):
        raise ValueError(f"bounds ({bounds!r}) must be a pair (lo, hi)")
    return Remap(
        lambda measurement: decision_rule(law_of(measurement, bounds), prior, loss, actions)
    )


def _type_of(actions: Sequence[Any]) -> str:
    """OpenDP's name of a type that holds every action."""
    if all(isinstance(a, int) and not isinstance(a, bool) for a in actions):
        if min(actions) >= -(2**63) and max(actions) < 2**63:
            return "i64"
        return "u64"
    return "f64" if all(isinstance(a, float) for a in actions) else "ExtrinsicObject"


def _places(actions: Sequence[Any], law: Law) -> Floats:
    """Where actions lie, from the origin of a law."""
    return np.array([float(fraction("actions", a) - law.origin) for a in actions])


def _costs(loss: LossLike, actions: Floats, law: Law) -> Floats:
    """The table loss[w, x] in floats, for actions and answers counted from the origin."""
    answers = law.steps
    if isinstance(loss, str | Loss):
        return loss_of(loss).values(actions[:, None] - answers)
    if callable(loss):
        xs, ws = ([_number(law.origin + Fraction(v)) for v in at] for at in (answers, actions))
        loss = [[loss(w, x) for x in xs] for w in ws]
    return np.array(loss_matrix(loss, range(len(answers)), range(len(actions))), dtype=np.float64)


def _number(value: Fraction) -> float | int:
    """A float, or an integer where no float is the same."""
    return int(value) if value.denominator == 1 and float(value) != value else float(value)


class Clamp(Postprocess):
    """A clamp that waits for its mechanism: ``measurement >> clamp(lo, hi)``."""

    _type_ = Measurement._type_

    def __init__(self, lo: Any, hi: Any) -> None:
        """Remember the ends."""
        self._ends = interval(lo, hi)

    def after(self, measurement: Measurement) -> Measurement:
        """Clamp the releases of a measurement.

        :param measurement: noise on a single number
        """
        law_of(measurement, self._ends)  # refuses what is no noise on a number
        return keep_within(measurement, *self._ends, carrier_of(measurement))


def keep_within(measurement: Measurement, lo: Fraction, hi: Fraction, carrier: str) -> Measurement:
    """Clamp what a measurement releases, to the outermost numbers of its type within bounds.

    :param measurement: noise on a single number
    :param lo: smallest answer
    :param hi: largest answer
    :param carrier: OpenDP's name of the type
    """
    if carrier not in INTEGER_RANGES:
        start, end = float_up(lo), float_down(hi)
        if carrier == "f32":
            start, end = _inwards(start, math.inf), _inwards(end, -math.inf)
    else:
        least, most = INTEGER_RANGES[carrier]
        start, end = max(int(lo), least), min(int(hi), most)
    if start > end:
        raise ValueError(f"lo ({_number(lo)}) and hi ({_number(hi)}) must leave {carrier} between")
    record = record_text("keep_within", start, end)
    return postprocess(
        measurement, lambda y: start if y < start else min(y, end), carrier, record=record
    )


def _inwards(value: float, towards: float) -> float:
    """The nearest 32-bit float that is not on the other side of a number."""
    with np.errstate(over="ignore"):
        near = np.float32(value)
        if float(near) < value if towards > 0 else float(near) > value:
            near = np.nextafter(near, np.float32(towards))
    return float(near)


def clamp(lo: Any, hi: Any) -> Clamp:
    """Keep the releases of noise within bounds: ``measurement >> clamp(lo, hi)``.

    :param lo: smallest answer
    :param hi: largest answer

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    >>> meas = dp.m.make_gaussian(*space, scale=100.0) >> clamp(0, 10)
    >>> 0 <= meas(5) <= 10
    True
    """
    return Clamp(lo, hi)
