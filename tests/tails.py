"""Exact binomial tails: tests of frequencies with a false-alarm rate fixed beforehand."""

import math

import numpy as np
from scipy.stats import binom

FALSE_ALARM = 1e-7


def too_many(hits, draws, chance, false_alarm=FALSE_ALARM):
    """Say whether so many hits would be a surprise if each had at most this chance."""
    return binom.sf(hits - 1, draws, chance) < false_alarm


def surprising(hits, draws, chance, false_alarm=FALSE_ALARM):
    """Say whether this number of hits would be a surprise if each had this chance."""
    low, high = binom.cdf(hits, draws, chance), binom.sf(hits - 1, draws, chance)
    return min(low, high) < false_alarm / 2


def squares_off(squares, stated, errors=6):
    """Say whether squares of noise have another mean than is stated, by so many standard errors.

    Where large squares happened to be few, their own deviation is too small: it counts as at least
    that of Laplace noise, 2.24 times the mean. So a false alarm is rarer than one in 10^7.
    """
    deviation = np.maximum(np.std(squares, axis=0), math.sqrt(5) * np.asarray(stated))
    off = np.abs(np.mean(squares, axis=0) - stated)
    return bool(np.any(off > errors * deviation / math.sqrt(len(squares))))
