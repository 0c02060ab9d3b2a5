"""Mutants of modules whose tests cannot be forked: each in an interpreter of its own.

Polars keeps threads, which a forked copy of a process does not have. So a fresh interpreter reads
the changed source in place of the module's, and runs the module's tests until one fails.

    python -m tests.trust.mutate_apart measure/frames.py          its tests, as it is
    python -m tests.trust.mutate_apart measure/frames.py KEY      with a mutant in place

The exit code is that of pytest.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import resource
import subprocess
import sys
import traceback
import types
from collections.abc import Iterable, Iterator, Sequence

import pytest

from tests.trust.mutants import ROOT, SOURCE, Mutant, mutants

APART = {"measure/frames.py": ["tests/measure/test_frames.py"]}
"""The modules, and the tests of each."""
TESTS_APART = [test for tests in APART.values() for test in tests]

NOTICED = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
"""A test fails, or a file of tests cannot even be imported."""

SECONDS, WAIT = 60, 600
"""Limits of the time of the processor and of the clock; the tests take some 3 seconds."""

OPTIONS = ["-q", "-s", "--tb=native", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]


class SameExamples:
    """A plugin of pytest for Hypothesis: the same examples every time, and none made smaller."""

    def pytest_configure(self) -> None:
        """Load a profile that says so."""
        from hypothesis import Phase, settings

        settings.register_profile(
            "mutants",
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
        )
        settings.load_profile("mutants")


class Changed(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Lets the import of a module run another tree than the one in its file."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self.name = "opendp_optimal." + module.removesuffix(".py").replace("/", ".")
        self.path, self.tree, self.used = SOURCE / module, tree, False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for this module only."""
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_source(self, fullname: str) -> str:
        """The file as it is, for tracebacks."""
        return self.path.read_text()

    def get_code(self, fullname: str) -> types.CodeType:
        """The other tree."""
        self.used = True
        return compile(self.tree, str(self.path), "exec")


def run_tests(module: str, key: str = "") -> int:
    """In the fresh interpreter: run the tests of a module, with a mutant of it in place."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))  # an endless loop is a crash
    tree = ast.parse((SOURCE / module).read_text())
    if key:
        tree = next(mutant.build() for mutant in mutants(SOURCE / module) if mutant.key == key)
    changed = Changed(module, tree)
    sys.meta_path.insert(0, changed)
    tests = [str(ROOT / path) for path in APART[module]]
    code = pytest.main(["-x", *OPTIONS, *tests], plugins=[SameExamples()])
    if not changed.used:
        raise RuntimeError(f"no test imports {module}")
    return int(code)


def survives(module: str, key: str = "") -> bool:
    """Whether the tests of a module pass with a mutant of it, or without any."""
    command = [sys.executable, "-m", "tests.trust.mutate_apart", module, key]
    try:
        done = subprocess.run(command, cwd=ROOT, timeout=WAIT, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return False
    # A signal is a crash. Any other code says nothing about the mutant.
    if done.returncode > 0 and done.returncode not in NOTICED:
        raise RuntimeError(f"{module}: no tests run:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.returncode == 0


def try_apart(chosen: Iterable[Mutant]) -> Iterator[tuple[Mutant, bool]]:
    """Try mutants one after another: each, and whether it survives."""
    passed = set()
    for mutant in chosen:
        # The source as it is must survive, or a kill means nothing.
        if mutant.module not in passed and not survives(mutant.module):
            raise RuntimeError(f"the tests of {mutant.module} fail without a mutant")
        passed.add(mutant.module)
        yield mutant, survives(mutant.module, mutant.key)


if __name__ == "__main__":
    try:
        sys.exit(run_tests(*sys.argv[1:]))
    except Exception:
        traceback.print_exc()
        sys.exit(pytest.ExitCode.INTERNAL_ERROR)  # and not 1, which says that a test failed
