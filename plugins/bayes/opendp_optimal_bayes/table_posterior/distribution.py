"""Posteriors of distinct observations: means, quantiles, modes, masses, for many at once.

A posterior is a mass for each bin; inside a bin it has the shape of the likelihood. Work is done
in blocks of rows, so that memory is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from opendp_optimal_bayes.table_posterior.likelihood import Likelihood

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BLOCK = 1 << 20
"""Entries of a block."""
_KEPT = 1 << 24
_TINY = 1e-12


def bin_chances(likelihood: Likelihood, edges: Integers, rows: Integers) -> Floats:
    """Chances of observations (rows) for a true value anywhere in each bin (columns)."""
    return np.asarray(likelihood.bins(rows, edges) / np.diff(edges))


@dataclass(frozen=True)
class Distributions:
    """Posteriors.

    :param likelihood: of the distinct observations
    :param edges: of the bins
    :param seen: the observation of each posterior
    :param node: which of the priors each has
    :param priors: chances of the bins, a row for each prior
    :param trust: the share of the prior; the rest is the likelihood alone, with everything beyond
        the bounds at the bounds
    """

    likelihood: Likelihood
    edges: Integers
    seen: Integers
    node: Integers
    priors: Floats
    trust: float

    def __len__(self) -> int:
        """How many posteriors there are."""
        return len(self.seen)

    @cached_property
    def _kept(self) -> Floats | None:
        """Chances of the bins of every observation, where they are few enough to be kept."""
        if len(self.likelihood) * (len(self.edges) - 1) > _KEPT:
            return None
        return bin_chances(self.likelihood, self.edges, np.arange(len(self.likelihood)))

    def chances(self, rows: Integers) -> Floats:
        """Chances of observations for a true value anywhere in each bin.

        :param rows: the observations
        """
        kept = self._kept
        return bin_chances(self.likelihood, self.edges, rows) if kept is None else kept[rows]

    def parts(self) -> Iterator[tuple[Integers, Distributions, Floats]]:
        """Yield positions of some posteriors, these alone, and their masses of the bins.

        They keep only the bins that their observations can come from.
        """
        size = max(256, BLOCK // (len(self.edges) - 1))
        radius = self.likelihood.windows.radius
        for start in range(0, len(self), size):
            at = np.arange(start, min(start + size, len(self)))
            rows = self.seen[at]
            centre = self.likelihood.centre[rows]
            last = len(self.edges) - 1
            low = np.searchsorted(self.edges, centre.min() - radius, side="right") - 1
            high = np.searchsorted(self.edges, centre.max() + radius, side="right")
            cut = slice(max(int(low), 0), min(max(int(high), 1), last))
            cut = slice(min(cut.start, cut.stop - 1), cut.stop)
            part = Distributions(
                self.likelihood,
                self.edges[cut.start : cut.stop + 1],
                rows,
                self.node[at],
                self.priors[:, cut],
                self.trust,
            )
            kept = self._kept
            found = (
                bin_chances(self.likelihood, part.edges, rows) if kept is None else kept[rows, cut]
            )
            yield at, part, part._masses(found)

    def _masses(self, found: Floats) -> Floats:
        """Masses of the bins, for chances of the observations in each."""
        out = found * self.priors[self.node]
        out /= out.sum(axis=1, keepdims=True)
        if self.trust < 1.0:
            alone = found * np.diff(self.edges)
            far = np.int64(np.iinfo(np.int64).max // 4)
            alone[:, 0] += self.likelihood.run(self.seen, -far, self.edges[0])
            alone[:, -1] += self.likelihood.run(self.seen, self.edges[-1], far)
            alone /= alone.sum(axis=1, keepdims=True)
            out = self.trust * out + (1.0 - self.trust) * alone
        return np.asarray(out)

    def _inside(self) -> tuple[Floats, Floats]:
        """Means of t and t^2 in each bin, with t counted from the observation."""
        mass = self.likelihood.bins(self.seen, self.edges)
        middle = (self.edges[:-1] + self.edges[1:] - 1) / 2.0
        away = middle - self.likelihood.centre[self.seen][:, None]
        known = (mass > 0) & (np.diff(self.edges) > 1)
        safe = np.where(known, mass, 1.0)
        first, second = (
            np.where(known, self.likelihood.bins(self.seen, self.edges, p) / safe, away**p)
            for p in (1, 2)
        )
        return first, second

    @cached_property
    def moments(self) -> tuple[Floats, Floats]:
        """Means and standard deviations."""
        mean, deviation = np.empty(len(self)), np.empty(len(self))
        for at, part, masses in self.parts():
            first, second = ((masses * each).sum(axis=1) for each in part._inside())
            mean[at] = first + self.likelihood.centre[part.seen]
            deviation[at] = np.sqrt(np.maximum(second - first**2, 0.0))
        return mean, deviation

    def quantiles(self, shares: Floats) -> Integers:
        """The least points with at least these shares of the mass at or below them.

        :param shares: one for each column of the answer
        """
        out = np.empty((len(self), len(shares)), dtype=np.int64)
        for at, part, masses in self.parts():
            summed = np.cumsum(masses, axis=1)
            line = np.arange(len(at))
            for column, share in enumerate(shares.tolist()):
                reached = summed >= np.minimum(share, summed[:, -1:]) - _TINY
                place = np.argmax(reached, axis=1)
                wanted = np.full(len(at), share - _TINY)
                out[at, column] = part._within(line, place, masses, summed, wanted)
        return out

    def _within(
        self, line: Integers, place: Integers, masses: Floats, summed: Floats, share: Floats
    ) -> Integers:
        """The least points of bins up to which shares of the mass lie.

        :param line: which posteriors
        :param place: the bins
        :param masses: of the bins
        :param summed: the same, cumulated
        :param share: of the mass
        """
        before = np.where(place > 0, summed[line, np.maximum(place - 1, 0)], 0.0)
        part = (share - before) / np.maximum(masses[line, place], 1e-300)
        rows, low, high = self.seen[line], self.edges[place], self.edges[place + 1]
        need = part * self.likelihood.run(rows, low, high)
        first, last = low.copy(), high - 1
        while (first < last).any():
            middle = (first + last) // 2
            enough = self.likelihood.run(rows, low, middle + 1) >= need
            first, last = np.where(enough, first, middle + 1), np.where(enough, middle, last)
            first = np.minimum(first, last)
        return np.asarray(first)

    def below(self, points: Integers) -> Floats:
        """The mass at or below points.

        :param points: columns of points, a row for each posterior
        """
        out = np.empty(points.shape)
        for at, part, masses in self.parts():
            out[at] = part._below(masses, np.cumsum(masses, axis=1), points[at])
        return out

    def _below(self, masses: Floats, summed: Floats, points: Integers) -> Floats:
        last = len(self.edges) - 2
        place = np.clip(np.searchsorted(self.edges, points, side="right") - 1, 0, last)
        line = np.arange(len(self))[:, None]
        rows = self.seen[:, None]
        low, high = self.edges[place], self.edges[place + 1]
        whole = self.likelihood.run(rows, low, high)
        part = self.likelihood.run(rows, low, points + 1) / np.where(whole > 0, whole, 1.0)
        flat = (points + 1 - low) / (high - low)
        share = np.clip(np.where(whole > 0, part, flat), 0.0, 1.0)
        before = np.where(place > 0, summed[line, np.maximum(place - 1, 0)], 0.0)
        out = before + masses[line, place] * share
        return np.where(points < self.edges[0], 0.0, np.where(points >= self.edges[-1], 1.0, out))

    @cached_property
    def modes(self) -> Integers:
        """The likeliest points."""
        out = np.empty(len(self), dtype=np.int64)
        peak = self.likelihood.windows.chances.argmax(axis=1) - self.likelihood.windows.radius
        for at, part, masses in self.parts():
            low, high = part.edges[:-1], part.edges[1:]
            top = self.likelihood.centre[part.seen] + peak[self.likelihood.shape[part.seen]]
            nearest = np.clip(top[:, None], low, high - 1)
            whole = self.likelihood.bins(part.seen, part.edges)
            there = self.likelihood.at(part.seen[:, None], nearest)
            score = masses * np.where(whole > 0, there / np.where(whole > 0, whole, 1.0), 0.0)
            # The smallest of equally likely ones, whatever the rounding.
            best = np.argmax(score >= score.max(axis=1, keepdims=True) * (1 - 1e-9), axis=1)
            out[at] = nearest[np.arange(len(at)), best]
        return out

    def distances(self, points: Integers) -> Floats:
        """Expected distances from points, one for each posterior.

        :param points: the points
        """
        out = np.empty(len(self))
        for at, part, masses in self.parts():
            low, high = part.edges[:-1], part.edges[1:]
            rows, point = part.seen[:, None], points[at][:, None]
            cut = np.clip(point + 1, low, high)
            whole = self.likelihood.bins(part.seen, part.edges)
            safe = np.where(whole > 0, whole, 1.0)
            centre = self.likelihood.centre[rows]
            left = self.likelihood.run(rows, low, cut) / safe
            near = self.likelihood.run(rows, low, cut, 1) / safe + (centre - point) * left
            right = self.likelihood.run(rows, cut, high) / safe
            far = self.likelihood.run(rows, cut, high, 1) / safe + (centre - point) * right
            share = (cut - low) / (high - low)
            flat_low, flat_high = (low + cut - 1) / 2.0, (cut + high - 1) / 2.0
            flat = (point - flat_low) * share + (flat_high - point) * (1.0 - share)
            out[at] = (masses * np.where(whole > 0, far - near, flat)).sum(axis=1)
        return out

    def draw(self, of: Integers, uniforms: Floats) -> Integers:
        """Draw points by their shares.

        :param of: which posterior each draw is from
        :param uniforms: shares in (0, 1), one for each draw
        """
        out = np.empty(len(of), dtype=np.int64)
        order = np.argsort(of, kind="stable")
        bounds = np.searchsorted(of[order], np.arange(len(self) + 1))
        for at, part, masses in self.parts():
            chosen = order[bounds[at[0]] : bounds[at[-1] + 1]]
            if len(chosen) == 0:
                continue
            summed = np.cumsum(masses, axis=1)
            line = of[chosen] - at[0]
            # One search in all rows: each is moved beyond the one before.
            moved = (np.minimum(summed, 1.0) + 2.0 * np.arange(len(at))[:, None]).ravel()
            share = np.minimum(uniforms[chosen], summed[line, -1] * (1 - 1e-12))
            place = np.searchsorted(moved, share + 2.0 * line) - line * masses.shape[1]
            place = np.clip(place, 0, masses.shape[1] - 1)
            out[chosen] = part._within(line, place, masses, summed, share)
        return out
