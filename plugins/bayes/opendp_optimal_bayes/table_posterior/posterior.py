"""The posterior of a released table: what each cell's true value is likely to be."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.extend import Source, frozen_array, random_words, secure_bytes, share, whole
from opendp_optimal_bayes.table_posterior.distribution import Distributions
from opendp_optimal_bayes.table_posterior.levels import Levels, add_levels
from opendp_optimal_bayes.table_posterior.observed import Observed
from opendp_optimal_bayes.table_posterior.prior import Prior
from opendp_optimal_bayes.table_posterior.sums import (
    Bias,
    Sum,
    add_up,
    chosen_cells,
    measured_bias,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SPLITS = 33


class PosteriorWarning(UserWarning):
    """A number that is worth less than it looks."""


class Gain(NamedTuple):
    """Mean absolute error of a cell, as expected.

    :param before: of what was released
    :param after: of the medians
    """

    before: float
    after: float


class Medians(NDArray[Any]):
    """An array of medians. Their sum is no estimate of a sum, and warns."""

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """What is computed from medians are plain numbers."""
        return array[()] if return_scalar else np.asarray(array)

    def sum(self, *args: Any, **kwargs: Any) -> Any:
        """Add up, with a warning."""
        _warn_of_medians()
        return np.asarray(self).sum(*args, **kwargs)

    def mean(self, *args: Any, **kwargs: Any) -> Any:
        """Average, with the same warning."""
        _warn_of_medians()
        return np.asarray(self).mean(*args, **kwargs)


def _warn_of_medians() -> None:
    warnings.warn(
        "a sum of medians is no estimate of a sum: most are 0 where most cells are nearly empty; "
        "use Posterior.sum",
        PosteriorWarning,
        stacklevel=3,
    )


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the true values of a released table are likely to be.

    Arrays have the shape of the table, and nobody can write to them. It is post-processing: it
    costs no privacy.

    :param observed: what was released
    :param distributions: the distinct posteriors
    :param place: which of them each cell has
    :param offset: lattice points to add to each cell's
    :param prior: how true values are distributed, whichever cell it is
    :param gap: the fit is within this of the likeliest one, in nats for each cell; the largest
        of several fits
    :param predictor: what each cell was expected to be from those that are alike, where that was
        asked for
    :param table: the frame that was given and the name of its column, if it was one
    """

    observed: Observed
    distributions: Distributions
    place: Integers
    offset: Integers | None
    prior: Prior
    gap: float
    predictor: Floats | None = None
    table: tuple[Any, str] | None = None

    def __repr__(self) -> str:
        """One line: the table, how well it was fitted, and the error to expect."""
        before, after = self.gain
        return (
            f"Posterior(shape={self.shape}, gap={self.gap:.1e}, "
            f"error={after:.4g} instead of {before:.4g})"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the table."""
        return self.observed.shape

    @property
    def released(self) -> Floats:
        """What was released; of several releases, their best average."""
        return frozen_array(self.observed.raw.reshape(self.shape))

    def _moved(self, points: NDArray[Any]) -> Floats:
        """The values of lattice points of each cell."""
        offset = 0 if self.offset is None else self.offset
        return self.observed.lattice.values(points + offset).reshape(self.shape)

    def _values(self, rows: Integers) -> NDArray[Any]:
        """Lattice points of the distinct posteriors as a table of values; counts are integers."""
        values = self._moved(rows[self.place])
        return values.astype(np.int64) if self.observed.lattice.whole else values

    @cached_property
    def mean(self) -> Floats:
        """The mean of each cell: the best guess for squared error, and the one to add up."""
        return frozen_array(self._moved(self.distributions.moments[0][self.place]))

    @cached_property
    def deviation(self) -> Floats:
        """The standard deviation of each cell."""
        own = self.distributions.moments[1][self.place]
        return frozen_array((self.observed.lattice.unit * own).reshape(self.shape))

    @cached_property
    def _medians(self) -> Integers:
        return self.distributions.quantiles(np.array([0.5]))[:, 0]

    @cached_property
    def median(self) -> NDArray[Any]:
        """The median of each cell: the best guess for absolute error."""
        return frozen_array(self._values(self._medians)).view(Medians)

    @cached_property
    def mode(self) -> NDArray[Any]:
        """The likeliest value of each cell."""
        return frozen_array(self._values(self.distributions.modes))

    @cached_property
    def _found_ends(self) -> dict[tuple[float, bool], tuple[Integers, Integers]]:
        return {}

    def _ends(self, level: float, shortest: bool) -> tuple[Integers, Integers]:
        """Ends of the intervals of the distinct posteriors; found once for each level."""
        asked = share("level", level), bool(shortest)
        if asked not in self._found_ends:
            self._found_ends[asked] = self._find_ends(*asked)
        return self._found_ends[asked]

    def _find_ends(self, level: float, shortest: bool) -> tuple[Integers, Integers]:
        rest = 1.0 - level
        if not shortest:
            ends = self.distributions.quantiles(np.array([rest / 2, 1 - rest / 2]))
            return ends[:, 0], ends[:, 1]
        split = np.linspace(0.0, rest, _SPLITS)
        low = self.distributions.quantiles(split)
        high = self.distributions.quantiles(split + (1.0 - rest))
        best = np.argmin(high - low, axis=1)
        line = np.arange(len(best))
        return low[line, best], high[line, best]

    def interval(
        self, level: float = 0.9, shortest: bool = False
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Where each cell lies with a chance of at least ``level``: the ends, both included.

        Discrete values cannot always be cut at ``level``: :meth:`claimed` says what the intervals
        hold on average. Where the noise of all cells comes from one vector, that is an average
        over releases, and there is a warning: in one release many may miss together.

        :param level: in (0, 1)
        :param shortest: the narrowest interval instead of the one with equal tails
        """
        if self.observed.together:
            warnings.warn(
                "the noise of these cells comes from one vector and depends on each other: "
                "intervals hold what they claim on average over releases, but in one release "
                "those that miss, miss together",
                PosteriorWarning,
                stacklevel=2,
            )
        low, high = self._ends(level, shortest)
        ends = self._values(low), self._values(high)
        least, most = self.observed.lattice.around(*ends)
        return frozen_array(least.astype(ends[0].dtype)), frozen_array(most.astype(ends[1].dtype))

    def claimed(self, level: float = 0.9, shortest: bool = False) -> float:
        """The mean posterior mass of the intervals: what share of the cells they should hold.

        :param level: of the intervals
        :param shortest: which intervals
        """
        low, high = self._ends(level, shortest)
        below = self.distributions.below(np.stack([low - 1, high], axis=1))
        return float((below[:, 1] - below[:, 0])[self.place].mean())

    def draws(self, count: int, source: Source = secure_bytes) -> NDArray[Any]:
        """Draw tables from the posterior, each cell by itself.

        :param count: how many tables
        :param source: of random bytes

        Cells are drawn as if they were independent of each other given the release. They are
        not quite: for sums use :meth:`sum`.
        """
        count = whole("count", count)
        lattice, cells = self.observed.lattice, self.observed.size
        out = np.empty((count, cells), dtype=np.int64 if lattice.whole else np.float64)
        for number in range(count):
            # 53 bits, and a half: never 0 and never 1.
            words = random_words(cells, source) >> np.uint64(11)
            uniform = (words.astype(np.float64) + 0.5) * 2.0**-53
            out[number] = self._moved(self.distributions.draw(self.place, uniform)).ravel()
        return out.reshape(count, *self.shape)

    @cached_property
    def gain(self) -> Gain:
        """The mean absolute error to expect, of the release and of the medians."""
        after = self.distributions.distances(self._medians) * self.observed.lattice.unit
        return Gain(float(self.observed.error.mean()), float(after[self.place].mean()))

    @cached_property
    def _bias(self) -> Bias:
        return measured_bias(self.observed, self.mean.ravel(), self.deviation.ravel())

    def sum(self, cells: Any = None, *, selected: bool = False) -> Sum:
        """Estimate the sum of some cells.

        Always look at ``raw``, too: the sum of what was released, with its exact deviation.

        :param cells: a mask of the table's shape, or positions in the table read row by row; all
            cells by default
        :param selected: whether they were chosen by looking at the release, such as the largest
        """
        positions = chosen_cells(cells, self.shape)
        if not self.observed.unbiased:
            warnings.warn(
                "noise that keeps releases within bounds has a bias: the raw sum has it many times "
                "over, and the estimate is the sum of the posterior means",
                PosteriorWarning,
                stacklevel=2,
            )
        # Whoever chooses every cell chooses nothing.
        return add_up(
            self.observed,
            self.mean.ravel(),
            self.deviation.ravel(),
            self._bias,
            positions,
            selected and len(positions) < self.observed.size,
        )

    def levels(self, labels: Any, released: Any = None, noise: Any = None) -> Levels:
        """Estimate cells and groups of them, such as counties and states, so that they add up.

        What was released of a group is averaged with the sum over its cells, and lies between that
        and the sum of the posterior means as far as all groups tell. Cells are then moved by their
        variances, within the bounds.

        :param labels: the group of each cell, in the table's shape; for a frame also the name of a
            column. A tuple for several levels, from the finest on: groups lie in groups.
        :param released: what was released of the groups, in the order of their sorted labels, if
            that was done; a tuple for several levels, with None where nothing was
        :param noise: the measurement or law behind that; a tuple for several levels
        """
        if self.table is not None:
            frame = self.table[0]
            named = labels if isinstance(labels, tuple) else (labels,)
            missing = [k for k in named if isinstance(k, str) and k not in frame.columns]
            if missing:
                raise ValueError(f"labels ({missing[0]!r}) must be a column of the frame")
            read = tuple(frame[k].to_numpy() if isinstance(k, str) else k for k in named)
            labels = read if isinstance(labels, tuple) else read[0]
        means, own = self.mean.ravel(), self.deviation.ravel()
        return add_levels(self.observed, means, own, labels, released, noise)

    def frame(self, level: float = 0.9, shortest: bool = False) -> Any:
        """The frame that was given, with more columns: the estimate (the median) and an interval.

        The mean, which is the one to add up, has a column of its own.

        :param level: of the interval
        :param shortest: which interval
        :raises ValueError: if what was given was no frame
        """
        from opendp_optimal_bayes.table_posterior.frames import with_estimates

        if self.table is None:
            raise ValueError("frame: what was released was no data frame")
        low, high = self.interval(level, shortest)
        new = {"estimate": np.asarray(self.median), "low": low, "high": high, "mean": self.mean}
        return with_estimates(*self.table, new)

    def plot(self, path: Any = None) -> Any:
        """Draw what was released beside the posterior: a grid as heat maps.

        :param path: of a picture to write; the ending chooses the format
        """
        from opendp_optimal_bayes.table_posterior.pictures import draw

        return draw(self, path)
