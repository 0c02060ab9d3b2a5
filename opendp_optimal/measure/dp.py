"""OpenDP's public names, as in its prelude but without the libraries that the prelude loads."""

from opendp import combinators as c
from opendp import measurements as m
from opendp import transformations as t
from opendp.context import *  # noqa: F403 (OpenDP's own list)
from opendp.domains import *  # noqa: F403 (OpenDP's own list)
from opendp.measures import *  # noqa: F403 (OpenDP's own list)
from opendp.metrics import *  # noqa: F403 (OpenDP's own list)
from opendp.mod import *  # noqa: F403 (OpenDP's own list)
from opendp.typing import L2Distance

__all__ = ["L2Distance", "c", "m", "t"]
