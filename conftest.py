"""For all tests: a cache of their own, kept between runs, and one thread for linear algebra."""

import os
from pathlib import Path

from hypothesis import settings

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ["OPENDP_OPTIMAL_CACHE"] = str(Path(__file__).parent / "build" / "test-cache")

# How long an example takes says more about the machine than about the code. The same examples
# every time by default; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
