"""Names that are loaded when they are first used (PEP 562), and functions that are found late."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_face(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names load late.

    The public names are those that the package's source imports as themselves (``from a import b
    as b``), under ``if TYPE_CHECKING:``: one list for readers, for type checkers and for this. A
    module may be named like a function.

    :param package: its ``__name__``.

    >>> import opendp_optimal.budget
    >>> find, names, public = lazy_face("opendp_optimal.budget")
    >>> find("open_ledger").__module__, "Ledger" in public
    ('opendp_optimal.budget.ledger', True)
    """
    source = ast.parse(inspect.getsource(sys.modules[package]))
    homes = {
        name.name: str(line.module)
        for line in ast.walk(source)
        if isinstance(line, ast.ImportFrom)
        for name in line.names
        if name.name == name.asname
    }
    # Constants, then classes, then functions.
    public = sorted(homes, key=lambda name: (not name.isupper(), name[0].islower(), name))

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(homes[name]), name)
        except AttributeError:
            return import_module(f"{homes[name]}.{name}")

    return find, lambda: public, public


class Late:
    """A function named by its place, imported when it is first looked at or called."""

    def __init__(self, place: str) -> None:
        """Remember where it is: ``module:function``."""
        self.__module__, _, self.__name__ = place.partition(":")
        self.__qualname__ = self.__name__

    @property
    def found(self) -> Callable[..., Any]:
        """The function itself."""
        function: Callable[..., Any] = getattr(import_module(self.__module__), self.__name__)
        return function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.found(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        """The function's own."""
        return inspect.signature(self.found)

    def __eq__(self, other: object) -> bool:
        """The same place, or the function that is there."""
        if isinstance(other, Late):
            return (self.__module__, self.__name__) == (other.__module__, other.__name__)
        return other is self.found

    def __hash__(self) -> int:
        """By place."""
        return hash((self.__module__, self.__name__))

    def __repr__(self) -> str:
        """Show the place."""
        return f"late({self.__module__}:{self.__name__})"


def late(place: str) -> Late:
    """Name a function without importing its module.

    :param place: ``module:function``.

    >>> late("math:sqrt")(4.0)
    2.0
    """
    return Late(place)
