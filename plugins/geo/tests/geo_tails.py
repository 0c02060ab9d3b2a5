"""Exact binomial tails: tests of frequencies with a false-alarm rate fixed beforehand."""

from scipy.stats import binom

FALSE_ALARM = 1e-7


def too_many(hits, draws, chance, false_alarm=FALSE_ALARM):
    """Say whether so many hits would be a surprise if each had at most this chance."""
    return binom.sf(hits - 1, draws, chance) < false_alarm
