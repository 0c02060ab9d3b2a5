"""Where the lines of code came from: ``python tests/net/history.py [REV]``, since 0.1.0.

Every commit that is no merge counts once, by how many lines it adds to the wheels outside of the
modules of features that 0.1.0 had not (:mod:`count`). The house are the commits that take lines
away, and those that build what others go through, which are listed here. Of all others, those that
bring lines to a feature's modules are features, too; what is left are repairs.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from functools import cache
from pathlib import PurePosixPath

from tests.net.count import FEATURES, ROOT, code_lines

FIRST = "f6399ba"
"""The commit of 0.1.0."""
BUILT = (
    "68483fc",  # one channel solver, in the core
    "3d68a25",  # doors: lazy faces, to_then, defer, builtins, checks
    "373f94f",  # candidates that can be called
    "e7d206f",  # one reader of measurements, noise of a table as a measurement
    "898b8c6",  # losses that know all about themselves
    "ca57b18",  # certified noise for plugins
    "6aa8e38",  # bounded tables in rooms
    "70f54be",  # the budget room
    "d9f9641",  # the search room
    "6629994",  # costs are computed once
)


def git(*words: str) -> str:
    """What git says."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


@cache
def size(blob: str) -> int:
    """Lines of code of a file."""
    return len(code_lines(git("cat-file", "blob", blob)))


def is_new(path: PurePosixPath) -> bool:
    """Whether a shipped module is of a feature that 0.1.0 had not."""
    inside = path.with_suffix("").parts[1 if path.parts[0] == "opendp_optimal" else 3 :]
    place = "/".join(("warehouse", *inside) if path.parts[1] == "warehouse" else inside)
    return any(fnmatch(place, p) for patterns in FEATURES.values() for p in patterns.split())


def lines(revision: str) -> tuple[int, int]:
    """Lines in features that 0.1.0 had not, and all others."""
    found = Counter[bool]()
    for line in git("ls-tree", "-r", revision).splitlines():
        words, _, name = line.partition("\t")
        path = PurePosixPath(name)
        plugin = len(path.parts) > 3 and path.match("plugins/*/opendp_optimal_*/**/*")
        plugin = plugin or path.match("plugins/*/opendp_optimal_*/*")
        if path.suffix == ".py" and (path.parts[0] == "opendp_optimal" or plugin):
            found[is_new(path)] += size(words.split()[2])
    return found[True], found[False]


def main(last: str = "HEAD") -> None:
    """Print what the kinds of commits brought."""
    log = git("log", "--no-merges", "--format=%H %P", f"{FIRST}..{last}")
    brought, commits = Counter[str](), Counter[str]()
    for commit, parent, *_ in map(str.split, log.splitlines()):
        (new, rest), (new_before, rest_before) = lines(commit), lines(parent)
        house = rest < rest_before or commit.startswith(BUILT)
        kind = "house" if house else "features" if new > new_before else "repairs"
        brought[kind] += rest - rest_before
        commits[kind] += 1
    start, end = lines(FIRST), lines(last)
    print(f"0.1.0: {sum(start)} lines, {start[0]} of them in modules of new features")
    for kind in ("house", "repairs", "features"):
        print(f"{kind}: {brought[kind]:+} lines in {commits[kind]} commits")
    left = end[1] - start[1] - sum(brought.values())
    print(f"merges: {left:+} lines")
    print(f"{last}: {sum(end)} lines, {end[0]} of them in modules of new features, else {end[1]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
