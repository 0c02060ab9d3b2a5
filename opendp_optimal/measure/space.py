"""Which OpenDP spaces the noise can be added to, and how far a value can move in each."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from opendp_optimal.measure import dp

FLOATS = ("f32", "f64")
INTEGER_RANGES = {
    "i8": (-(2**7), 2**7 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u8": (0, 2**8 - 1),
    "u32": (0, 2**32 - 1),
    "u64": (0, 2**64 - 1),
    "usize": (0, 2**64 - 1),
}
_KINDS = {"f": "float", "i": "int", "u": "uint"}
DTYPES = {
    name: np.dtype(_KINDS[name[0]] + name[1:].replace("size", "64"))
    for name in (*FLOATS, *INTEGER_RANGES)
}
"""Types of numbers in arrays, by OpenDP's names."""
NORMS = {"L1Distance": "l1", "L2Distance": "l2", "LInfDistance": "linf"}


@dataclass(frozen=True)
class Space:
    """A checked pair of domain and metric.

    ``carrier`` is OpenDP's name of the number type, ``norm`` is "absolute" for scalars and
    "l1", "l2" or "linf" for vectors, ``size`` is the length of vectors where the domain fixes it.
    """

    carrier: str
    norm: str
    size: int | None = None

    @property
    def integer(self) -> bool:
        """Whether the data are integers."""
        return self.carrier in INTEGER_RANGES

    @property
    def vector(self) -> bool:
        """Whether the data are vectors."""
        return self.norm != "absolute"

    @property
    def output_type(self) -> str:
        """OpenDP's name of the type that is released: the type of the data."""
        return f"Vec<{self.carrier}>" if self.vector else self.carrier

    def distance(self, d_in: Any) -> Fraction:
        """Return a distance as an exact number, rounded down to what the data can do.

        Integers move by whole steps: at most ``floor(d_in)`` in any one coordinate.

        :param d_in: a distance in terms of the metric.
        :raises ValueError: if it is not a finite number that is at least 0.
        """
        exact = distance_of(d_in)
        return Fraction(math.floor(exact)) if self.integer else exact

    def unit_steps(self, d_in: Any) -> int:
        """Return how many steps of 1 in single coordinates join integer vectors ``d_in`` apart.

        With the l2 distance there are at most ``floor(d_in ** 2)``, since the l1 norm of an integer
        vector is at most the sum of its squares.
        """
        exact = Fraction(d_in)
        return math.floor(exact * exact if self.norm == "l2" else exact)


def distance_of(d_in: Any) -> Fraction:
    """Return a distance as an exact number.

    :param d_in: a number that a float can be near.
    :raises ValueError: if it is not, or negative.
    """
    if isinstance(d_in, bool) or not isinstance(d_in, (int, float, Fraction)):
        raise ValueError(f"d_in ({d_in!r}) must be a number")
    if not 0 <= d_in <= sys.float_info.max:
        raise ValueError(f"d_in ({d_in!r}) must be finite and not negative")
    return Fraction(d_in)


def is_real(value: Any) -> bool:
    """Whether a value is an integer or a float, as no bool is."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def records_of(d_in: Any, most: int) -> int:
    """Return how many records a person has, checked."""
    if isinstance(d_in, bool) or not isinstance(d_in, int) or not 1 <= d_in <= most:
        raise ValueError(f"d_in ({d_in!r}) must be a number of records in [1, {most}]")
    return d_in


def measure_name(output_measure: Any) -> str:
    """Return OpenDP's name of a measure of privacy.

    :raises ValueError: if it is none.
    """
    if not isinstance(output_measure, dp.Measure):
        raise ValueError(f"output_measure ({output_measure!r}) must be an OpenDP measure")
    return str(output_measure.type)


def space_of(input_domain: Any, input_metric: Any) -> Space:
    """Check a domain and a metric.

    :param input_domain: an atom domain, or a vector domain of atoms, of floats or integers.
    :param input_metric: the absolute distance for atoms; l1, l2 or linf for vectors.
    :raises ValueError: naming the argument for which no proof exists.

    >>> import opendp.prelude as dp
    >>> space_of(dp.atom_domain(T=int), dp.absolute_distance(T=int))
    Space(carrier='i32', norm='absolute', size=None)
    """
    if not isinstance(input_domain, dp.Domain):
        raise ValueError(f"input_domain ({input_domain!r}) must be an OpenDP domain")
    if not isinstance(input_metric, dp.Metric):
        raise ValueError(f"input_metric ({input_metric!r}) must be an OpenDP metric")

    # By its printed name: the type of a metric is spelt differently for different numbers.
    metric = str(input_metric).split("(")[0]
    if isinstance(input_domain, dp.VectorDomain):
        carrier = _carrier(input_domain.element_domain, input_domain)
        if metric not in NORMS:
            raise ValueError(
                f"input_metric ({input_metric}) must be l1_distance, l2_distance or "
                f"linf_distance for vectors"
            )
        return Space(carrier, NORMS[metric], input_domain.size)

    carrier = _carrier(input_domain, input_domain)
    if metric != "AbsoluteDistance":
        raise ValueError(f"input_metric ({input_metric}) must be absolute_distance for scalars")
    return Space(carrier, "absolute")


def _carrier(atom: dp.Domain, domain: dp.Domain) -> str:
    if not isinstance(atom, dp.AtomDomain):
        raise ValueError(
            f"input_domain ({domain}) must be an atom_domain of numbers or a vector_domain of them"
        )
    carrier = str(atom.carrier_type)
    if carrier in FLOATS:
        if atom.nan:
            raise ValueError(
                f"input_domain ({domain}) may hold NaN: use atom_domain(T=..., nan=False)"
            )
    elif carrier not in INTEGER_RANGES:
        known = ", ".join([*FLOATS, *INTEGER_RANGES])
        raise ValueError(f"input_domain ({domain}) must hold one of {known}")
    return carrier
