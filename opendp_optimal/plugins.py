"""How plugins are found, checked and kept apart.

A plugin is whatever an installed distribution names in the entry-point group
``opendp_optimal``; the package's own noise and commands come in by the same door.
Nothing is loaded when ``opendp_optimal`` is imported: :func:`load` does it, and a plugin
that misbehaves is reported with its distribution and skipped.

>>> from opendp_optimal import plugins
>>> plugins.load().mechanisms["optimal"].distribution
'opendp-optimal'
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any

import pluggy

from opendp_optimal import hookspecs
from opendp_optimal.lazy import Late
from opendp_optimal.losses import add_loss, refuse_taken

OWN = "opendp-optimal"
PREFIX = hookspecs.PROJECT + "_"

Check = Callable[..., tuple[str, Any]]
"""Takes what a plugin registers; its name and value, or ``ValueError``."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Registered:
    """One thing a plugin added, and whose it is."""

    name: str
    value: Any
    distribution: str
    entry_point: str


@dataclass(frozen=True)
class Failure:
    """What went wrong with one plugin, and whose it is."""

    distribution: str
    entry_point: str
    reason: str

    def __str__(self) -> str:
        """Return one line for a log or a terminal."""
        return f"plugin {self.entry_point!r} of {self.distribution}: {self.reason}"


@dataclass(frozen=True)
class Plugin:
    """A plugin that was loaded: its distribution, version, entry point and hooks."""

    distribution: str
    version: str
    entry_point: str
    hooks: tuple[str, ...]


@dataclass
class Plugins:
    """Every plugin found, what each adds, and what failed.

    Made by :func:`load` (or :func:`discover`, which takes the entry points to look at).
    Each kind of addition is collected when it is first asked for.
    """

    manager: pluggy.PluginManager
    found: tuple[Plugin, ...]
    failures: list[Failure] = field(default_factory=list)

    @cached_property
    def mechanisms(self) -> Mapping[str, Registered]:
        """Measurement constructors by name."""
        return self._collect("mechanisms", _mechanism)

    @cached_property
    def losses(self) -> Mapping[str, Registered]:
        """Named losses by name."""
        return self._collect("losses", _loss)

    @cached_property
    def tables(self) -> Mapping[str, Registered]:
        """Folders of tables, by their path."""
        return self._collect("tables", _directory)

    @cached_property
    def commands(self) -> Mapping[str, Registered]:
        """Commands of ``opendp-optimal`` by name."""
        return self._collect("commands", _command)

    @cached_property
    def candidates(self) -> Mapping[str, Registered]:
        """Functions that propose mechanisms to the advisor, by name."""
        return self._collect("candidates", _candidates)

    def _collect(self, kind: str, check: Check) -> Mapping[str, Registered]:
        accepted: dict[str, Registered] = {}
        hook = f"{PREFIX}register_{kind}"
        for plugin in self.found:
            if hook in plugin.hooks and not self.failed(plugin):
                accepted.update(self._ask(plugin, kind, check, accepted))
        return MappingProxyType(accepted)

    def failed(self, plugin: Plugin) -> bool:
        """Whether something went wrong with it: then its hooks are not asked any more."""
        owner = plugin.distribution, plugin.entry_point
        return any((f.distribution, f.entry_point) == owner for f in self.failures)

    def of(self, plugin: Plugin, kind: str) -> list[Registered]:
        """What one plugin adds of a kind."""
        owner, every = (plugin.distribution, plugin.entry_point), getattr(self, kind).values()
        return [one for one in every if (one.distribution, one.entry_point) == owner]

    def _ask(
        self, plugin: Plugin, kind: str, check: Check, taken: Mapping[str, Registered]
    ) -> Mapping[str, Registered]:
        """Call one hook of one plugin; all of what it registers is accepted, or nothing."""
        hook, module = f"{PREFIX}register_{kind}", self.manager.get_plugin(_key(plugin))
        staged: dict[str, Registered] = {}

        def register(value: Any, **options: Any) -> None:
            name, value = check(value, **options)
            owner = taken.get(name) or staged.get(name)
            if owner is not None:
                raise ValueError(
                    f"name {name!r} is registered twice: "
                    f"by {owner.distribution} and by {plugin.distribution}"
                )
            _refuse_taken(module, kind, name, value)
            staged[name] = Registered(name, value, plugin.distribution, plugin.entry_point)

        others = [p for n, p in self.manager.list_name_plugin() if n != _key(plugin)]
        try:
            self.manager.subset_hook_caller(hook, others)(register=register)
        except (Exception, SystemExit) as error:
            self._fail(plugin.distribution, plugin.entry_point, f"{hook}: {_words(error)}")
            return {}
        return staged

    def _fail(self, distribution: str, entry_point: str, reason: str) -> None:
        failure = Failure(distribution, entry_point, reason)
        self.failures.append(failure)
        logger.warning("%s (skipped)", failure)


def make_manager() -> pluggy.PluginManager:
    """Return an empty plugin manager that knows the hooks of this project."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def discover(points: Iterable[EntryPoint] | None = None) -> Plugins:
    """Load and check plugins, each on its own.

    :param points: entry points to look at; those of all installed distributions by default.
    :returns: the plugins found, with ``failures`` naming the ones that were skipped.
    """
    result = Plugins(make_manager(), ())
    for point in _ordered(entry_points(group=hookspecs.PROJECT) if points is None else points):
        distribution, version = _owner(point)
        try:
            plugin = point.load()
            hooks = tuple(sorted(_hooks(plugin)))
            # A misspelt hook is silent until asked about: ask, one plugin at a time.
            alone = make_manager()
            alone.register(plugin)
            alone.check_pending()
            entry = Plugin(distribution, version, point.name, hooks)
            result.manager.register(plugin, name=_key(entry))
        except (Exception, SystemExit) as error:
            result._fail(distribution, point.name, _words(error))
        else:
            result.found += (entry,)
    return result


@cache
def load() -> Plugins:
    """Load every installed plugin, once, and put what they add to use.

    Mechanisms go to the Context API, losses can be asked for by name, folders of tables are
    searched. Safe to call again: the second call returns what the first one found.

    :returns: the plugins, what they add, and the failures.
    """
    result = discover()
    for kind in IN_USE:
        for plugin in result.found:
            module = result.manager.get_plugin(_key(plugin))
            for added in result.of(plugin, kind):
                try:
                    _use(module, kind, added.name, added.value)
                except ValueError as error:  # taken since, by a hook that went past its register
                    result._fail(plugin.distribution, plugin.entry_point, _words(error))
    return result


load_plugins = load


def enrol(plugin: Any) -> None:
    """Put to use exactly what a plugin's own hooks register: mechanisms, losses, tables.

    What ``import opendp_optimal`` and ``import opendp_optimal_<plugin>`` do; no other import does.

    :param plugin: the module with the hooks.
    """
    staged: dict[tuple[str, str], Any] = {}

    def registering(kind: str, check: Check) -> Callable[..., None]:
        def register(value: Any, **options: Any) -> None:
            name, value = check(value, **options)
            if (kind, name) in staged:
                raise ValueError(f"name {name!r} is registered twice")
            _refuse_taken(plugin, kind, name, value)
            staged[kind, name] = value

        return register

    for kind, check in IN_USE.items():
        hook = getattr(plugin, f"{PREFIX}register_{kind}", None)
        if hook is not None:
            hook(registering(kind, check))
    for added, value in staged.items():  # all hooks went well
        _use(plugin, *added, value)


_in_use: dict[tuple[str, str], Any] = {}
"""Which plugin put what to use, by kind and name."""


def _refuse_taken(plugin: Any, kind: str, name: str, value: Any) -> None:
    """Raise if somebody else has the name; the hooks of one plugin may be called again."""
    if kind not in IN_USE or _in_use.get((kind, name)) is plugin:
        return
    if kind == "mechanisms":
        from opendp_optimal.measure import _opendp

        _opendp.refuse_taken(value, name)
    elif kind == "losses":
        refuse_taken(value, name)


def _use(plugin: Any, kind: str, name: str, value: Any) -> None:
    """Put to use what a plugin adds: in the Context API, by its name, among folders of tables."""
    if _in_use.get((kind, name)) is plugin:
        return
    if kind == "mechanisms":
        from opendp_optimal.measure import _opendp

        _opendp.enroll(value, name)
    elif kind == "losses":
        add_loss(value, name)
    else:
        from opendp_optimal.table.store import add_directory

        add_directory(value)
    _in_use[kind, name] = plugin


def _ordered(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Our own first, so that nobody can take a built-in name; then by name, for everyone alike."""
    return sorted(points, key=lambda p: (_owner(p)[0] != OWN, _owner(p)[0], p.name))


def _owner(point: EntryPoint) -> tuple[str, str]:
    dist = point.dist
    return (dist.name, dist.version) if dist is not None else ("unknown distribution", "")


def _key(plugin: Plugin) -> str:
    return f"{plugin.distribution}:{plugin.entry_point}"


def _hooks(plugin: object) -> Iterator[str]:
    """Yield the names of the hooks a plugin implements; refuse one that lacks its marker."""
    for name in dir(plugin):
        if name.startswith(PREFIX + "register"):
            if not hasattr(getattr(plugin, name), f"{hookspecs.PROJECT}_impl"):
                raise ValueError(f"{name} is not marked with @hookimpl")
            yield name


def _words(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _mechanism(make: Any, *, name: str | None = None) -> tuple[str, Any]:
    if not callable(make):
        raise ValueError(f"make_function ({make!r}) must be callable")
    given = getattr(make, "__name__", "")
    if name is None:
        if not given.startswith("make_"):
            raise ValueError(f"make_function ({given or make!r}) must be called make_<name>")
        name = given.removeprefix("make_")
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"name ({name!r}) must be a Python identifier")
    if isinstance(make, Late):  # looked at when it is first used
        return name, make
    first = list(inspect.signature(make).parameters)[:2]
    if first != ["input_domain", "input_metric"]:
        raise ValueError(f"{given} must take (input_domain, input_metric, ...), not {first}")
    return name, make


def _loss(loss: Any, *, name: str | None = None) -> tuple[str, Any]:
    if name is not None:
        named = isinstance(name, str) and name.removesuffix(":").isidentifier()
        if not callable(loss) or not named:
            raise ValueError(f"loss ({loss!r}) must be made by a function with a name ({name!r})")
        return name, loss
    from opendp_optimal.losses.base import Loss

    if not isinstance(loss, Loss) or loss.function is None:
        raise ValueError(f"loss ({loss!r}) must be a Loss with a function")
    return loss.name, loss


def _directory(directory: Any) -> tuple[str, Any]:
    from importlib.resources.abc import Traversable
    from pathlib import Path

    if isinstance(directory, str):
        directory = Path(directory)
    if not isinstance(directory, Traversable) or not directory.is_dir():
        raise ValueError(f"directory ({str(directory)!r}) must be an existing folder")
    return str(directory), directory


def _candidates(propose: Any, *, name: str | None = None) -> tuple[str, Any]:
    given = str(name or getattr(propose, "__name__", ""))
    if not callable(propose) or not given.isidentifier():
        raise ValueError(f"propose ({propose!r}) must be a function with a name")
    if len(inspect.signature(propose).parameters) != 1:
        raise ValueError(f"{given} must take one argument, the request")
    return given, propose


def _command(command: Any) -> tuple[str, Any]:
    import click

    if not isinstance(command, click.Command) or not command.name:
        raise ValueError(f"command ({command!r}) must be a click.Command with a name")
    return command.name, command


IN_USE: dict[str, Check] = {"mechanisms": _mechanism, "losses": _loss, "tables": _directory}
"""What is put to use when a plugin is imported; commands and candidates are asked for."""
