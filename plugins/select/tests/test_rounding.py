from fractions import Fraction

from opendp_optimal_select.ring.shape import PI_LOWER, PI_UPPER


def test_pi_is_enclosed():
    """Machin's formula, with alternating series stopped on either side."""

    def arctan(x, terms):
        return sum((-1) ** n * Fraction(1, (2 * n + 1) * x ** (2 * n + 1)) for n in range(terms))

    low = 16 * arctan(5, 60) - 4 * arctan(239, 61)
    high = 16 * arctan(5, 61) - 4 * arctan(239, 60)
    assert PI_LOWER < low < high < PI_UPPER
