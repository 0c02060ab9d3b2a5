"""Bugs put into the source one at a time: do the tests notice?

    python -m tests.attacks.mutate certify            the survivors and the score of a package
    python -m tests.attacks.mutate certify/noise.py

All mutants of a package take hours; the evidence tries a random sample of :data:`SAMPLE` of them.

The tests of a package are collected by pytest once and run once, which says how long each takes
and which functions it enters. Then each mutant is put into a forked copy of that process, where
the tests that enter the changed function run until one fails.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import functools
import gc
import importlib
import io
import itertools
import os
import random
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.mutants import ROOT, SOURCE, Mutant, around, count, functions, mutants

TESTS = {
    "certify": [
        "tests/certify",
        "tests/testing/test_independent.py",
        "tests/attacks/test_bundled.py",
    ],
    "sample": ["tests/sample"],
}

OPTIONS = ["-q", "-s", "--tb=native", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]

SAMPLE = 300
"""Mutants of a package that the evidence tries: the same ones as long as the code is the same."""

SLOWEST = 0.6
"""Tests that take longer than this, in seconds of the processor, are left out."""


def modules(package: str) -> list[str]:
    """The modules of a package; there is nothing in ``__init__``."""
    found = sorted(p.name for p in (SOURCE / package).glob("*.py") if p.stem != "__init__")
    return [f"{package}/{name}" for name in found]


@dataclass
class Score:
    """What became of the mutants of a package."""

    there: int = 0
    tried: int = 0
    killed: int = 0
    survivors: list[Mutant] = field(default_factory=list)

    def count(self, mutant: Mutant, survived: bool, tests: str) -> None:
        """Count a mutant that was tried under so many tests."""
        self.tried += 1
        if survived:
            self.survivors.append(mutant)
            print(f"survived {tests}: {mutant}", file=sys.stderr, flush=True)
        else:
            self.killed += 1
        if self.tried % 100 == 0:
            print(f"{self.tried} tried", file=sys.stderr, flush=True)


# --- putting a mutant in --------------------------------------------------------------------------


def install(module: types.ModuleType, tree: ast.Module) -> None:
    """Replace the code of a module's functions in place; raises what importing it would raise."""
    old = dict(vars(module))
    # What a module registers is registered already, and changed in place.
    kept = [n for n in tree.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Call))]
    tree = ast.Module(kept, [])
    exec(compile(tree, module.__file__ or "mutant", "exec"), vars(module))
    for name, value in old.items():
        new = vars(module).get(name)
        if getattr(value, "__module__", None) == module.__name__ and new is not value:
            _replace(value, new)
            vars(module)[name] = value
        elif isinstance(new, (dict, list, set)) and not new:
            vars(module)[name] = value  # what was gathered since stays


def _replace(old: Any, new: Any) -> None:
    for unwrap in ("__wrapped__", "__func__", "fget", "func"):
        if hasattr(old, unwrap) and not isinstance(old, types.FunctionType):
            if hasattr(old, "cache_clear"):
                old.cache_clear()
            return _replace(getattr(old, unwrap), getattr(new, unwrap))
    if isinstance(old, types.FunctionType):
        old.__code__ = new.__code__
        old.__defaults__ = new.__defaults__
        old.__kwdefaults__ = new.__kwdefaults__
    elif isinstance(old, type):
        for name, value in vars(new).items():
            mine = vars(old).get(name)
            kinds = (types.FunctionType, staticmethod, classmethod, property)
            if isinstance(mine, kinds) or hasattr(mine, "func"):
                with contextlib.suppress(AttributeError):
                    _replace(mine, value)
    return None


# --- running tests --------------------------------------------------------------------------------


@dataclass
class Known:
    """A test, its seconds of processor time, and the functions of the package that it enters."""

    item: pytest.Item
    seconds: float
    enters: set[tuple[str, str]]


def passes(item: pytest.Item) -> bool:
    """Run a test with its fixtures, as pytest would."""
    from _pytest.runner import runtestprotocol

    return all(not report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def forget() -> None:
    """Empty every memory of results in the project, so that all code runs again."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0].startswith("opendp_optimal"):
            for value in vars(module).values():
                if hasattr(value, "cache_clear") and hasattr(value, "__wrapped__"):
                    value.cache_clear()


def spent_so_far() -> float:
    """Seconds of processor time, those of processes that were started included."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def get_to_know(items: list[pytest.Item], package: str) -> list[Known]:
    """The tests that pass here and now and are quick enough."""
    paths = {str(SOURCE / path): path for path in modules(package)}
    places = {path: functions(ast.parse(Path(path).read_text())) for path in paths}
    entered: set[tuple[str, int]] = set()

    def trace(frame: types.FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename in paths:
            entered.add((code.co_filename, code.co_firstlineno))

    out = []
    for item in items:
        with contextlib.redirect_stdout(io.StringIO()):
            first = spent_so_far()
            if not passes(item):
                print(f"left out, fails without a mutant: {item.nodeid}", file=sys.stderr)
                continue
            started = spent_so_far()
            if started - first > 10 * SLOWEST:
                continue  # too slow even if all that it solves were known
            passes(item)
            spent = spent_so_far() - started
            if spent > SLOWEST:
                continue
            entered.clear()
            forget()
            sys.settrace(trace)
            passes(item)
            sys.settrace(None)
        found = {(paths[path], around(places[path], line)) for path, line in entered}
        out.append(Known(item, spent, found))
    total = sum(known.seconds for known in out)
    print(f"{package}: {len(out)} tests, {total:.1f} s", file=sys.stderr, flush=True)
    return out


def failing(mutants: list[Mutant], tests: list[Known], most: int = 1) -> list[int]:
    """The first tests that fail with mutants in place, by number; -1 if none had to run."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        at, me = -1, os.getpid()

        def notice(*_: object) -> None:
            if os.getpid() == me:  # and not a process that a test started
                os.write(write, b"%d " % at)
            os._exit(0)

        try:
            signal.signal(signal.SIGPROF, notice)
            limit = 2 + 4 * sum(known.seconds for known in tests)
            signal.setitimer(signal.ITIMER_PROF, limit)  # an endless loop is noticed
            signal.signal(signal.SIGALRM, notice)
            signal.alarm(15 + 5 * int(limit))  # so is a wait without end
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, 1)
            os.dup2(devnull, 2)
            for mutant in mutants:
                dotted = "opendp_optimal." + mutant.module.removesuffix(".py").replace("/", ".")
                install(importlib.import_module(dotted), mutant.build())
            forget()
            for number, known in enumerate(tests):
                at = number
                if not passes(known.item):
                    most -= 1
                    if most == 0:
                        notice()
                    os.write(write, b"%d " % at)
        except BaseException:
            notice()
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        said = stream.read()
    _, status = os.waitpid(child, 0)
    return [-1] if status else [int(number) for number in said.split()]  # or it crashed


class Ordering:
    """The tests for a mutant: those that killed others in its function first, then the quickest."""

    def __init__(self, tests: list[Known]) -> None:
        self.tests = sorted(tests, key=lambda known: known.seconds)
        self.kills: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(
            collections.Counter
        )

    def of(self, mutant: Mutant) -> list[Known]:
        """The tests that enter the changed function (the module, for changes outside of any)."""
        place = (mutant.module, mutant.function)
        found = [
            known
            for known in self.tests
            if place in known.enters
            or (not mutant.function and any(m == mutant.module for m, _ in known.enters))
        ]
        kills = self.kills[place]
        return sorted(found, key=lambda known: -kills[known.item.nodeid])

    def remember(self, mutant: Mutant, known: Known) -> None:
        """Count a kill."""
        self.kills[mutant.module, mutant.function][known.item.nodeid] += 1


def try_all(tests: list[Known], package: str, chosen: Iterable[Mutant], score: Score) -> None:
    """Try mutants one after another; what happens goes to ``score``."""
    # The same source put in again must survive, or a kill means nothing.
    same = [
        Mutant(path, "", 0, "nothing", functools.partial(ast.parse, (SOURCE / path).read_text()))
        for path in modules(package)
    ]
    wrong = failing(same, tests, len(tests))
    if -1 in wrong:
        raise RuntimeError(f"{package} cannot be put in again as it is")
    for number in wrong:
        print(f"left out, fails without a mutant: {tests[number].item.nodeid}", file=sys.stderr)
    tests = [known for number, known in enumerate(tests) if number not in wrong]
    ordering = Ordering(tests)
    gc.collect()
    gc.freeze()  # what a forked copy never touches is never copied
    for mutant in chosen:
        mine = ordering.of(mutant)
        found = failing([mutant], mine)
        score.count(mutant, not found, f"{len(mine)} tests")
        if found and found[0] >= 0:
            ordering.remember(mutant, mine[found[0]])


class Hijacked:
    """A plugin of pytest: collect as usual, then do something else with the tests.

    Hypothesis takes the same examples every time, and makes none smaller.
    """

    def __init__(self, body: Callable[[list[pytest.Item]], None]) -> None:
        self.body = body

    def pytest_configure(self) -> None:
        """Load a profile of Hypothesis, which pytest wants to import first."""
        from hypothesis import Phase, settings

        settings.register_profile(
            "mutants",
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
        )
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Hand over what was collected."""
        self.body(session.items)
        return True


def run(name: str, most: int | None = None) -> Score:
    """Try the mutants of a package or of one module: all, or a random sample of so many."""
    score = Score()
    package = name.partition("/")[0]
    paths = [SOURCE / path for path in (modules(package) if name == package else [name])]
    score.there = sum(map(count, paths))
    wanted = score.there if most is None else min(most, score.there)
    chosen = set(random.Random(1).sample(range(score.there), wanted))
    every = itertools.chain.from_iterable(map(mutants, paths))
    picked = (mutant for number, mutant in enumerate(every) if number in chosen)

    def body(items: list[pytest.Item]) -> None:
        try_all(get_to_know(items, package), package, picked, score)

    tests = [str(ROOT / path) for path in TESTS[package]]
    code = pytest.main([*OPTIONS, *tests], plugins=[Hijacked(body)])
    if score.tried != wanted:
        raise RuntimeError(f"the tests of {package} could not be collected: {code}")
    return score


def main(argv: list[str]) -> int:
    """Print the survivors and the score of packages or modules."""
    for name in argv or TESTS:
        started = time.monotonic()
        found = run(name)
        for mutant in found.survivors:
            print(f"survived: {mutant}")
        print(
            f"{name}: {found.killed} of {found.tried} killed, {len(found.survivors)} survived; "
            f"{time.monotonic() - started:.0f} s",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
