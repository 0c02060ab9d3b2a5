"""Where noise comes from: the system's source alone, never the same words, never a fallback."""

import ast
import contextlib
import functools
import importlib.util
import os
import random
import re
import ssl
import sys
import threading
import types
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_optimal
from opendp_optimal import make_optimal_noise, solve
from opendp_optimal.sample.words import secure_bytes
from tests.attacks.mechanisms import REAL, cases
from tests.attacks.mechanisms_more import BUILT, NOT_RELEASES, programs

PROGRAMS = list(programs())
ROOT = Path(__file__).resolve().parents[2]

# In the core only this module simulates anything.
SIMULATIONS = {"opendp_optimal/cli/demo.py": "made-up data of the demonstration"}


class PoisonedError(AssertionError):
    """Somebody drew from a generator that can be seeded."""


def poison(monkeypatch):
    def refuse(*args, **kwargs):
        raise PoisonedError("a release must not use this generator")

    for name in dir(random):
        if callable(getattr(random, name)) and name[0].islower() and name != "random_state":
            monkeypatch.setattr(random, name, refuse)
    for name in ("random", "getrandbits", "seed"):
        monkeypatch.setattr(random.Random, name, refuse, raising=False)
    for name in dir(np.random):
        value = getattr(np.random, name)
        if callable(value) and not name.startswith("_"):
            monkeypatch.setattr(np.random, name, refuse)


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.name)
def test_no_release_uses_a_seedable_generator(case, monkeypatch):
    case.release(case.x)  # whatever is loaded on first use
    poison(monkeypatch)
    with pytest.raises(PoisonedError):
        random.random()
    with pytest.raises(PoisonedError):
        np.random.default_rng()
    for _ in range(5):
        case.release(case.x)


@pytest.mark.parametrize(("name", "program"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
def test_no_program_uses_a_seedable_generator(name, program, monkeypatch):
    program()
    poison(monkeypatch)
    program()


def test_solving_uses_no_seedable_generator_either(monkeypatch):
    poison(monkeypatch)
    table = solve(0.9, 0.01, gap=0.05, cache=False)
    table.draw(100)
    table.sample(100)


def names_in(path):
    """Everything that a source file imports, or reaches through a module by a dot."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}".replace("np.", "numpy.")


def generators(path):
    return [n for n in names_in(path) if n == "random" or n.startswith("numpy.random")]


def file_of(name):
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return Path(found.origin) if found and found.origin and found.origin.endswith(".py") else None


def reached_from(name, seen):
    """The source files of our distributions that a module can import, in any number of steps."""
    path = file_of(name)
    if path is None or path in seen:
        return seen
    seen[path] = name
    for other in set(names_in(path)):
        # Commands are named by the faces, and draw nothing for a mechanism.
        if other.startswith("opendp_optimal") and not other.startswith("opendp_optimal.cli"):
            reached_from(other, seen)
    return seen


def test_the_core_names_no_seedable_generator():
    sources = list(ROOT.glob("opendp_optimal/**/*.py"))
    found = {path.relative_to(ROOT).as_posix() for path in sources if generators(path)}
    assert found <= set(SIMULATIONS)
    assert len(sources) > 50


def test_nothing_that_a_mechanism_can_import_names_one():
    seen: dict[Path, str] = {}
    for mechanism in opendp_optimal.load_plugins().mechanisms.values():
        reached_from(mechanism.value.__module__, seen)
    assert len(seen) > 30
    assert [name for path, name in seen.items() if generators(path)] == []


@contextlib.contextmanager
def broken_source(monkeypatch, error):
    """The system's source fails from now on, for every module that already holds it."""

    def fail(count):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, "urandom", fail)
        patch.setattr(random, "_urandom", fail)  # what ``secrets`` draws from
        for name, module in list(sys.modules.items()):
            if not name.startswith("opendp_optimal"):
                continue
            for key, value in list(vars(module).items()):
                if is_source(value):
                    patch.setattr(module, key, fail)
                for function in _functions(value):
                    _break(patch, function, fail)
        yield


SOURCES = (os.urandom, ssl.RAND_bytes, secure_bytes)


def is_source(value):
    return any(value is source for source in SOURCES)


def _break(patch, function, fail):
    positional = tuple(fail if is_source(d) else d for d in function.__defaults__ or ())
    named = {k: fail if is_source(d) else d for k, d in (function.__kwdefaults__ or {}).items()}
    if positional != (function.__defaults__ or ()):
        patch.setattr(function, "__defaults__", positional)
    if named != (function.__kwdefaults__ or {}):
        patch.setattr(function, "__kwdefaults__", named)


def _functions(value):
    inside = vars(value).values() if isinstance(value, type) else [value]
    for inner in inside:
        function = getattr(inner, "__func__", getattr(inner, "__wrapped__", inner))
        if isinstance(function, types.FunctionType):
            yield function


NATIVE = (
    "bounded_geometric",
    "bounded_laplace",
    "multi_selection",
    "make_feature_selection",
    "Client",
    "FeatureClient",
    "PrivateNaiveBayes[laplace]",
    "PrivateNaiveBayes[gaussian]",
)
"""Noise that OpenDP draws, in Rust: where its source fails, OpenDP raises and we pass it on."""


def native(name):
    return name in NATIVE or name.partition("[")[0] in NATIVE


RELEASES = [(case.name, functools.partial(case.release, case.x)) for case in cases()] + PROGRAMS


@pytest.mark.parametrize(
    "error", [OSError("no entropy"), NotImplementedError("no source")], ids=repr
)
def test_a_failing_source_is_an_error_and_no_release(monkeypatch, error):
    for _, release in RELEASES:
        release()
    released = set()
    with broken_source(monkeypatch, error):
        for name, release in RELEASES:
            try:
                release()
            except Exception as raised:
                told = str(error) in str(raised)
                assert told or name == "Table.release", name  # which says nothing of a database
            else:
                released.add(name)
    assert released == {name for name, _ in RELEASES if native(name)}
    for _, release in RELEASES:
        release()


@pytest.mark.parametrize("name", [name for name, _ in RELEASES if native(name)])
def test_a_failure_of_opendps_source_is_passed_on(monkeypatch, name):
    # Its source is in Rust and cannot be broken from here; its error can be raised where it is
    # called, and no answer may be made up in its place.
    def fail(self, arg):
        raise dp.OpenDPException("FailedFunction", "no entropy")

    release = dict(RELEASES)[name]
    monkeypatch.setattr(dp.Measurement, "invoke", fail)
    monkeypatch.setattr(dp.Measurement, "__call__", fail)
    with pytest.raises(dp.OpenDPException, match="no entropy"):
        release()


def test_a_source_that_gives_too_little_is_an_error():
    table = solve(1.0, 1e-3, integer_sensitivity=1)
    with pytest.raises(OSError, match="gave 7 bytes"):
        table._sampler.points.draw_one(lambda n: b"\0" * 7)
    with pytest.raises(OSError, match="gave 15 bytes"):
        table._sampler.points.draw(2, lambda n: b"\0" * 15)


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.name)
def test_forked_workers_release_different_values(case):
    # 40 releases agree by chance with probability below 0.6^40 = 1e-9 for all that is here.
    seen = set()
    for _ in range(2):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                values = [case.release(case.x) for _ in range(40)]
                os.write(write, repr([np.asarray(v).tolist() for v in values]).encode()[:60000])
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as stream:
            seen.add(stream.read())
        os.waitpid(child, 0)
    assert len(seen) == 2
    assert b"" not in seen


def test_threads_share_a_measurement():
    measurement = make_optimal_noise(*REAL, 1.0, (1.0, 1e-3))
    found: list[list[float]] = []

    def work():
        found.append([measurement(0.0) for _ in range(2000)])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({tuple(values) for values in found}) == 8
    pooled = np.concatenate(found)
    # The mean of 16000 draws lies within 8 standard errors of 0.
    assert abs(pooled.mean()) < 8 * pooled.std() / np.sqrt(len(pooled))


def test_every_registered_mechanism_is_covered():
    names = {case.name.split("[")[0] for case in cases()}
    registered = {f"make_{name}" for name in opendp_optimal.load_plugins().mechanisms}
    assert registered - set(NOT_RELEASES) <= {f"make_{name}" for name in names}


def test_every_measurement_is_covered():
    # Whatever is called make_ in any of our packages, found by its source.
    made = set()
    for path in ROOT.glob("plugins/*/opendp_optimal_*/*.py"):
        made |= set(re.findall(r"^def (make_\w+)", path.read_text(), re.MULTILINE))
    registered = {f"make_{name}" for name in opendp_optimal.load_plugins().mechanisms}
    private = {name for name in made if name == "make_measurement"}
    assert made - private <= registered | set(BUILT) | set(NOT_RELEASES)
    assert len(made) > 8
