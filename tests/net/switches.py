"""How often a call goes from one file of the packages to another, and how often it asks a loss.

A switch is a call of a Python function that is defined in another file of the core or its plugins
than the function of theirs that called it, directly or through other code (numpy, OpenDP, click).
Returns do not count, nor does what is imported: a first call has imported it.
``python tests/net/switches.py`` counts with :func:`sys.setprofile`. It uses public names
alone, so that it counts any version that is on the path:

    git archive f6399ba | tar -x -C OTHER
    PYTHONPATH=OTHER:OTHER/plugins/geo python tests/net/switches.py
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

SHOWN = 5


def _file(frame: FrameType) -> str:
    """The file of a frame, from its package on; nothing for what is not ours."""
    name = frame.f_code.co_filename
    place = name.rfind("/opendp_optimal")
    return "" if place < 0 or name.startswith("<") else name[place + 1 :]


def switches(call: Callable[[], object]) -> Counter[tuple[str, str]]:
    """The calls from one file into another: from which file to which, and how often."""
    found: Counter[tuple[str, str]] = Counter()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not (here := _file(frame)):
            return
        caller = frame.f_back
        while caller is not None and not _file(caller):
            caller = caller.f_back
        if caller is not None and _file(caller) != here:
            found[_file(caller), here] += 1

    gc.collect()
    gc.disable()  # what others left behind is cleared away now, not during the call
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return found


def solving() -> Callable[[], object]:
    """A solve from scratch."""
    import opendp_optimal

    return lambda: opendp_optimal.solve(1.0, 1e-6, cache=False)


def releasing() -> Callable[[], object]:
    """The release of a query whose table is stored, each time with a context of its own."""
    import opendp.prelude as dp

    import opendp_optimal

    assert opendp_optimal.solve(1.0, 1e-6)
    dp.enable_features("contrib", "honest-but-curious")

    def release() -> object:
        context = dp.Context.compositor(
            data=[1.0, 2.0, 3.0],
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
            split_evenly_over=1,
            domain=dp.vector_domain(dp.atom_domain(T=float, nan=False)),
        )
        query: Any = context.query().clamp((0.0, 10.0)).sum()
        return query.optimal().release()

    return release


def counting() -> Callable[[], object]:
    """How many of 20,000 people are within a rectangle."""
    import numpy as np

    import opendp_optimal_geo as geo

    places = np.random.default_rng(0).normal(0.0, 3000.0, (20_000, 2))

    def count() -> object:
        people = geo.Population(places, budget=1e-3)
        return people.range_count(geo.rectangle((0, 0), 4000, 2000, angle=30), budget=2e-4)

    return count


def evaluations() -> int:
    """How often one solve from scratch asks a user's loss for its value."""
    import opendp_optimal

    asked = 0

    def loss(x: float) -> float:
        nonlocal asked
        asked += 1
        return abs(x) ** 1.5

    opendp_optimal.solve(1.0, 1e-6, loss=loss, cache=False)
    return asked


def main() -> None:
    """Print all counts."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OPENDP_OPTIMAL_CACHE"] = folder
        for make in (solving, releasing, counting):
            call = make()
            call()  # imports, and what is computed once
            found = switches(call)
            print(f"{make.__doc__} {found.total()} switches")
            for (one, other), times in found.most_common(SHOWN):
                print(f"  {times:4} {one} -> {other}")
        print(f"{evaluations.__doc__} {evaluations()}")


if __name__ == "__main__":
    main()
