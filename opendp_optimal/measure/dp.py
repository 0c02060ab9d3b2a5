"""OpenDP's public names, as in its prelude but without the libraries that the prelude loads."""

from opendp import combinators as c
from opendp import measurements as m
from opendp import transformations as t
from opendp.context import Context, PartialChain, Query, loss_of, register, space_of, unit_of
from opendp.core import new_function, new_queryable
from opendp.domains import *  # noqa: F403 (OpenDP's own list)
from opendp.measures import *  # noqa: F403 (OpenDP's own list)
from opendp.metrics import *  # noqa: F403 (OpenDP's own list)
from opendp.mod import *  # noqa: F403 (OpenDP's own list)
from opendp.mod import (
    AtomDomain,
    Domain,
    LazyFrameDomain,
    Measure,
    Measurement,
    Metric,
    OdometerQueryable,
    Transformation,
    VectorDomain,
)
from opendp.typing import L2Distance

__all__ = [
    "AtomDomain",
    "Context",
    "Domain",
    "L2Distance",
    "LazyFrameDomain",
    "Measure",
    "Measurement",
    "Metric",
    "OdometerQueryable",
    "PartialChain",
    "Query",
    "Transformation",
    "VectorDomain",
    "c",
    "loss_of",
    "m",
    "new_function",
    "new_queryable",
    "register",
    "space_of",
    "t",
    "unit_of",
]
