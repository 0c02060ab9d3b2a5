"""For all tests: a cache of their own, kept between runs, one thread for linear algebra, and how
long each file takes.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from opendp.mod import GLOBAL_FEATURES

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ["OPENDP_OPTIMAL_CACHE"] = str(Path(__file__).parent / "build" / "test-cache")

# How long an example takes says more about the machine than about the code. The same examples
# every time by default; HYPOTHESIS_PROFILE=explore looks for new ones, quick for few.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=5)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--file-times 30``: which files of tests take longest."""
    parser.addoption("--file-times", type=int, default=0, help="print so many files, longest first")


def pytest_configure(config: pytest.Config) -> None:
    """Count the time of files; and see to it that quick tests start no process."""
    config.pluginmanager.register(FileTimes(config.getoption("--file-times")))
    if _is_quick(config):
        with suppress(ImportError):  # which looks for fonts with a process, once on a machine
            import matplotlib.font_manager  # noqa: F401
        sys.addaudithook(_start_no_process)


SLOW = ("tests/attacks/", "tests/reproduce/", "docs/reproduce/")
"""Folders that take long as a whole: attacks in depth, and the papers' experiments."""
FORKING = ("opendp_optimal/testing/repeats.py",)
"""Modules whose examples start processes."""


def _is_quick(config: pytest.Config) -> bool:
    return "not process" in (config.getoption("-m") or "")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of those folders, and examples in docstrings, which cannot be marked there.

    The quick run takes the first case of every test with cases.
    """
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
        if item.nodeid.startswith(FORKING):
            item.add_marker(pytest.mark.process)
    if _is_quick(config):
        first: dict[str, pytest.Item] = {}
        for item in items:
            first.setdefault(item.nodeid.partition("[")[0], item)
        items[:] = first.values()


def _start_no_process(event: str, arguments: object) -> None:
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn") and _now_testing:
        raise RuntimeError("a test that starts a process must be marked: pytest.mark.process")


_now_testing: list[str] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Know that a test is running."""
    _now_testing.append(item.nodeid)
    try:
        return (yield)
    finally:
        _now_testing.pop()


class FileTimes:
    """Seconds of processor time for each file of tests, processes that it started included."""

    def __init__(self, shown: int) -> None:
        """Count from now on; ``shown`` files are printed."""
        self.shown, self.last = shown, _processor_seconds()
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logstart(self) -> None:
        """Begin to count."""
        self.last = _processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        """Write into the report what its phase took; it travels with it to the main process."""
        report: Any = yield
        now = _processor_seconds()
        report.processor, self.last = now - self.last, now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up."""
        self.seconds[report.nodeid.partition("::")[0]] += getattr(report, "processor", 0.0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the longest, and the sum."""
        if self.shown:
            terminalreporter.section("seconds of processor time")
            for name, seconds in self.seconds.most_common(self.shown):
                terminalreporter.write_line(f"{seconds:8.1f}  {name}")
            total = sum(self.seconds.values())
            terminalreporter.write_line(f"{total:8.1f}  all {len(self.seconds)} files")


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.fixture(autouse=True)
def _features_stay() -> Iterator[None]:
    """A test that changes OpenDP's features changes them for itself alone."""
    before = set(GLOBAL_FEATURES)
    yield
    GLOBAL_FEATURES.clear()
    GLOBAL_FEATURES.update(before)
