"""Bugs put into the source one at a time: do the tests notice?

    python -m tests.trust.mutate certify            the survivors and the score of a package
    python -m tests.trust.mutate certify/privacy.py

Each mutant is put into a forked copy of this process, where the tests of its package are called
directly until one fails. A test that takes parameters is called with each; one that needs a
fixture is left to pytest.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import inspect
import io
import itertools
import math
import os
import random
import signal
import sys
import tempfile
import time
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 12

MODULES = {
    "certify": ["privacy", "pure", "bound"],
    "sample": ["words", "sampler", "bounded"],
    "measure": ["grid", "design", "maps", "spaces", "direct"],
}
TESTS = {
    "certify": [
        "tests.trust.test_certify_small",
        "tests.certify.test_privacy",
        "tests.certify.test_bound",
        "tests.certify.test_rounding",
        "tests.certify.test_channel_proofs",
        "tests.trust.test_independent",
    ],
    "sample": ["tests.sample.test_sampler", "tests.trust.test_sample_small"],
    "measure": [
        "tests.trust.test_measure_small",
        "tests.measure.test_grid",
        "tests.measure.test_design",
        "tests.measure.test_spaces",
        "tests.measure.test_direct",
        "tests.measure.test_privacy",
    ],
}
SLOWEST = 0.6
"""Tests that take longer than this, in seconds of this process, are left out."""

COMPARE: dict[type, list[type]] = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
BINARY: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}
NAMES = {
    "min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "minimum": "maximum",
    "maximum": "minimum", "any": "all", "all": "any", "float_up": "float_down",
    "float_down": "float_up",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A change of one place of one module."""

    module: str
    line: int
    change: str
    tree: ast.Module

    def __str__(self) -> str:
        """Where, and what."""
        return f"{self.module}:{self.line}: {self.change}"


@dataclass
class Score:
    """What became of the mutants."""

    there: int = 0
    tried: int = 0
    killed: int = 0
    survivors: list[str] = field(default_factory=list)


def mutants(path: Path) -> Iterator[Mutant]:
    """Every single change of a file."""
    source = path.read_text()
    name = path.relative_to(ROOT / "opendp_optimal").as_posix()
    count = sum(1 for _ in _changes(ast.parse(source)))
    for number in range(count):
        tree = ast.parse(source)
        node, words, apply = next(itertools.islice(_changes(tree), number, None))
        before = ast.unparse(node) if not isinstance(node, ast.Raise) else "raise"
        apply()
        ast.fix_missing_locations(tree)
        yield Mutant(name, node.lineno, f"{words} in `{before[:80]}`", tree)


def _changes(tree: ast.Module) -> Iterator[tuple[Any, str, Callable[[], None]]]:
    for parent, key, node in _code(tree):
        if isinstance(node, ast.Compare):
            for i, op in enumerate(node.ops):
                for other in COMPARE.get(type(op), []):
                    words = f"{type(op).__name__} to {other.__name__}"
                    yield node, words, functools.partial(node.ops.__setitem__, i, other())
        elif (isinstance(node, ast.BinOp) and type(node.op) in BINARY) or (
            isinstance(node, ast.AugAssign) and type(node.op) in BINARY
        ):
            new = BINARY[type(node.op)]
            words = f"{type(node.op).__name__} to {new.__name__}"
            yield node, words, functools.partial(setattr, node, "op", new())
        elif isinstance(node, ast.BoolOp):
            new = ast.Or if isinstance(node.op, ast.And) else ast.And
            yield node, f"to {new.__name__}", functools.partial(setattr, node, "op", new())
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            words = f"without {type(node.op).__name__}"
            yield node, words, functools.partial(_put, parent, key, node.operand)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            value = (not node.value) if isinstance(node.value, bool) else node.value + 1
            words = f"{node.value} to {value}"
            yield node, words, functools.partial(setattr, node, "value", value)
        elif isinstance(node, ast.Raise):
            yield node, "dropped", functools.partial(_put, parent, key, ast.Pass())
        elif isinstance(node, ast.Name) and node.id in NAMES:
            words = f"{node.id} to {NAMES[node.id]}"
            yield node, words, functools.partial(setattr, node, "id", NAMES[node.id])
        elif isinstance(node, ast.Attribute) and node.attr in NAMES:
            words = f"{node.attr} to {NAMES[node.attr]}"
            yield node, words, functools.partial(setattr, node, "attr", NAMES[node.attr])


def _put(parent: Any, key: Any, new: Any) -> None:
    name, index = key
    if index is None:
        setattr(parent, name, new)
    else:
        getattr(parent, name)[index] = new


SKIPPED = ("__repr__", "__hash__", "__str__")


def _code(tree: ast.AST) -> Iterator[tuple[Any, Any, Any]]:
    """Nodes that do something: no annotations, docstrings, decorators or words of messages."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        if isinstance(tree, ast.Raise) and name in ("exc", "cause"):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr):
                continue
            if isinstance(node, ast.FunctionDef) and node.name in SKIPPED:
                continue
            yield tree, (name, index), node
            yield from _code(node)


# --- putting a mutant in --------------------------------------------------------------------------


def install(module: types.ModuleType, tree: ast.Module) -> bool:
    """Replace the code of a module's functions in place; False where that cannot be done."""
    old = dict(vars(module))
    try:
        exec(compile(tree, module.__file__ or "mutant", "exec"), vars(module))
    except Exception:
        return True  # cannot even be imported: noticed at once; the tests will fail too
    try:
        for name, value in old.items():
            new = vars(module).get(name)
            if getattr(value, "__module__", None) == module.__name__ and new is not value:
                _replace(value, new)
                vars(module)[name] = value
    except ValueError:
        return False
    return True


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


# --- calling tests --------------------------------------------------------------------------------


def calls(names: list[str]) -> list[tuple[str, Callable[[], Any]]]:
    """Tests of modules as plain calls; modules that are not there are left out."""
    out: list[tuple[str, Callable[[], Any]]] = []
    for name in names:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        for test, function in sorted(vars(module).items()):
            if test.startswith("test_") and callable(function):
                out += [(f"{name}.{test}", call) for call in _expanded(function)]
    return out


def _expanded(function: Any) -> Iterator[Callable[[], Any]]:
    marks = [m for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
    choices = []
    for mark in marks:
        keys = mark.args[0]
        keys = [k.strip() for k in keys.split(",")] if isinstance(keys, str) else list(keys)
        rows = [getattr(v, "values", v) if hasattr(v, "marks") else v for v in mark.args[1]]
        choices.append(
            [dict(zip(keys, row if len(keys) > 1 else [row], strict=True)) for row in rows]
        )
    needed = set(inspect.signature(function).parameters)
    for combination in itertools.product(*choices):
        given = {k: v for part in combination for k, v in part.items()}
        if needed == set(given):
            yield functools.partial(function, **given)


def prepare(package: str) -> list[tuple[str, Callable[[], Any]]]:
    """The tests of a package that pass here and now, the quickest first."""
    timed = []
    for name, call in calls(TESTS[package]):
        started = spent_so_far()
        try:
            with quiet():
                call()
        except Exception as error:
            print(f"left out, fails without a mutant: {name}: {error!r:.100}", file=sys.stderr)
            continue
        spent = spent_so_far() - started
        if spent <= SLOWEST:
            timed.append((spent, name, call))
    timed.sort(key=lambda entry: entry[0])
    total = sum(entry[0] for entry in timed)
    print(f"{package}: {len(timed)} tests, {total:.1f} s", file=sys.stderr, flush=True)
    return [(name, call) for _, name, call in timed]


def spent_so_far() -> float:
    """Seconds of processor time, those of processes that were started included."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Nothing said, warnings as errors, a cache of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("error")
        before = os.environ.get("OPENDP_OPTIMAL_CACHE")
        os.environ["OPENDP_OPTIMAL_CACHE"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["OPENDP_OPTIMAL_CACHE"]
            else:
                os.environ["OPENDP_OPTIMAL_CACHE"] = before


def killed(mutant: Mutant, tests: list[tuple[str, Callable[[], Any]]]) -> bool | None:
    """Whether a test fails with the mutant in place; None where it cannot be put in."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
        signal.signal(signal.SIGPROF, lambda *_: os._exit(1))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # an endless loop is noticed
        signal.alarm(50 * SECONDS)
        code = 1
        try:
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, 1)
            os.dup2(devnull, 2)
            dotted = "opendp_optimal." + mutant.module.removesuffix(".py").replace("/", ".")
            if not install(importlib.import_module(dotted), mutant.tree):
                os._exit(2)
            with quiet():
                for _, call in tests:
                    call()
            code = 0
        except BaseException:
            code = 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return None if code == 2 else code != 0


def run_package(
    package: str, share: float = 1.0, only: str | None = None, seconds: float = float("inf")
) -> Score:
    """Try the mutants of a package in random order: a share of them, or as many as time allows."""
    from hypothesis import Phase, settings

    settings.register_profile("mutants", deadline=None, database=None, phases=[Phase.generate])
    settings.load_profile("mutants")
    tests = prepare(package)
    score = Score()
    rng = random.Random(1)
    started = time.monotonic()
    folder = ROOT / "opendp_optimal" / package
    names = [only.removesuffix(".py")] if only else MODULES[package]
    found = [mutant for name in names for mutant in mutants(folder / f"{name}.py")]
    rng.shuffle(found)
    score.there = len(found)
    # The same source put in again must survive, or a kill means nothing.
    same = ast.parse((folder / f"{names[0]}.py").read_text())
    if killed(Mutant(f"{package}/{names[0]}.py", 0, "nothing", same), tests):
        raise RuntimeError(f"the tests of {package} fail without a mutant in a forked process")
    for mutant in found[: math.ceil(share * len(found))]:
        if time.monotonic() - started > seconds:
            break
        dead = killed(mutant, tests)
        if dead is None:
            continue
        score.tried += 1
        score.killed += dead
        if not dead:
            score.survivors.append(str(mutant))
            print(f"survived: {mutant}", flush=True)
    return score


def main(argv: list[str]) -> int:
    """Print the survivors and the score of packages or modules."""
    for name in argv or list(MODULES):
        package, _, module = name.partition("/")
        found = run_package(package, only=module or None)
        print(f"{name}: {found.killed} of {found.tried} killed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
