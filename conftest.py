"""For all tests: a cache of their own, kept between runs, and one thread for linear algebra."""

import os
from pathlib import Path

from hypothesis import settings

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ["OPENDP_OPTIMAL_CACHE"] = str(Path(__file__).parent / "build" / "test-cache")

# How long an example takes says more about the machine than about the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
