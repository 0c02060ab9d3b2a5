"""Where noise comes from: the system's source alone, never the same words, never a fallback."""

import ast
import contextlib
import os
import random
import threading
from pathlib import Path

import numpy as np
import pytest

import opendp_optimal
from opendp_optimal import make_optimal_noise, solve
from tests.trust.mechanisms import REAL, cases

ROOT = Path(__file__).resolve().parents[2]

# Modules that simulate data or examples and have no part in a release.
SIMULATIONS = {
    "opendp_optimal/cli/demo.py": "made-up data of the demonstration",
    "plugins/geo/opendp_optimal_geo/experiments.py": "repeats the papers' experiments",
    "plugins/select/opendp_optimal_select/ratings.py": "made-up ratings",
}


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


def test_solving_uses_no_seedable_generator_either(monkeypatch):
    poison(monkeypatch)
    table = solve(0.9, 0.01, gap=0.05, cache=False)
    table.draw(100)
    table.sample(100)


def imports_of_generators(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""] + [f"{node.module}.{a.name}" for a in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}".replace("np.", "numpy.")]
        else:
            continue
        yield from (n for n in names if n == "random" or n.startswith("numpy.random"))


def test_no_source_file_names_a_seedable_generator_but_simulations():
    sources = [*ROOT.glob("opendp_optimal/**/*.py"), *ROOT.glob("plugins/*/opendp_optimal_*/**/*.py")]
    found = {
        path.relative_to(ROOT).as_posix() for path in sources if list(imports_of_generators(path))
    }
    assert found <= set(SIMULATIONS)
    assert len(sources) > 50


@contextlib.contextmanager
def broken_source(monkeypatch, error):
    """The system's source fails from now on, for every module that already holds it."""

    def fail(count):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, "urandom", fail)
        from opendp_optimal.sample import bounded, sampler, words

        for module in (words, sampler, bounded):
            for value in vars(module).values():
                for function in _functions(value):
                    changed = tuple(
                        fail if d is REAL_SOURCE else d for d in function.__defaults__ or ()
                    )
                    if changed != (function.__defaults__ or ()):
                        patch.setattr(function, "__defaults__", changed)
        yield


REAL_SOURCE = os.urandom


def _functions(value):
    if isinstance(value, type):
        for inner in vars(value).values():
            yield from _functions(getattr(inner, "__func__", inner))
    elif hasattr(value, "__defaults__"):
        yield value


@pytest.mark.parametrize("error", [OSError("no entropy"), NotImplementedError("no source")], ids=repr)
def test_a_failing_source_is_an_error_and_no_release(monkeypatch, error):
    scalar = make_optimal_noise(*REAL, 1.0, (1.0, 1e-3))
    mine = [case for case in cases() if "optimal" in case.name]
    assert len(mine) > 5
    with broken_source(monkeypatch, error):
        for case in mine:
            with pytest.raises(Exception, match=r"no entropy|no source"):
                case.release(case.x)
        with pytest.raises(type(error)):
            scalar(3.0)
    scalar(3.0)


def test_a_source_that_gives_too_little_is_an_error():
    table = solve(1.0, 1e-3, integer_sensitivity=1)
    with pytest.raises(OSError, match="gave 7 bytes"):
        table._sampler.draw_one(lambda n: b"\0" * 7)
    with pytest.raises(OSError, match="gave 15 bytes"):
        table._sampler.draw(2, lambda n: b"\0" * 15)


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
    assert set(opendp_optimal.load_plugins().mechanisms) <= names
