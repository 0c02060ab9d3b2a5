"""Every change of one place of a source file: what a mutation test puts in."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "opendp_optimal"

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
    """A change of one place of one module.

    ``function`` is the outermost function or method around it, "" outside of all; ``change`` is
    unique in there, whatever the line. ``build`` makes the changed module.
    """

    module: str
    function: str
    line: int
    change: str
    build: Callable[[], ast.Module]

    @property
    def key(self) -> str:
        """Where, and what, without the line."""
        return f"{self.module} {self.function or 'module'}: {self.change}"

    def __str__(self) -> str:
        """Where, and what."""
        return f"{self.module}:{self.line} {self.function or 'module'}: {self.change}"


def count(path: Path) -> int:
    """How many changes there are."""
    return sum(1 for _ in _changes(ast.parse(path.read_text())))


def mutants(path: Path) -> Iterator[Mutant]:
    """Every single change of a file."""
    source = path.read_text()
    name = path.relative_to(SOURCE).as_posix()
    tree = ast.parse(source)
    places = functions(tree)
    seen: dict[tuple[str, str], int] = {}
    for number, (node, words, _) in enumerate(_changes(tree)):
        before = ast.unparse(node) if not isinstance(node, ast.Raise) else "raise"
        function = around(places, node.lineno)
        change = f"{words} in `{before[:80]}`"
        # The same change in several places of a function: each has its number.
        again = seen[function, change] = seen.get((function, change), 0) + 1
        if again > 1:
            change += f" ({again})"
        build = functools.partial(_changed, source, number)
        yield Mutant(name, function, node.lineno, change, build)


def _changed(source: str, number: int) -> ast.Module:
    tree = ast.parse(source)
    _, _, apply = next(itertools.islice(_changes(tree), number, None))
    apply()
    return ast.fix_missing_locations(tree)


def functions(tree: ast.Module) -> list[tuple[int, int, str]]:
    """First line, last line and name of every function and method, the outermost only."""
    out = []
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        for part in inner:
            if isinstance(part, ast.FunctionDef):
                first = min([part.lineno, *(d.lineno for d in part.decorator_list)])
                owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                out.append((first, part.end_lineno or part.lineno, owner + part.name))
    return out


def around(places: list[tuple[int, int, str]], line: int) -> str:
    """The function that a line belongs to, or ""."""
    return next((name for first, last, name in places if first <= line <= last), "")


def _changes(tree: ast.Module) -> Iterator[tuple[Any, str, Callable[[], None]]]:
    for parent, key, node in _code(tree):
        if isinstance(node, ast.Compare):
            for i, op in enumerate(node.ops):
                for other in COMPARE.get(type(op), []):
                    words = f"{type(op).__name__} to {other.__name__}"
                    yield node, words, functools.partial(node.ops.__setitem__, i, other())
        elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in BINARY:
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
