"""Each way a plugin can go wrong is reported with its owner, and the others go on."""

import sys
import types
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import click
import opendp.prelude as dp
import pytest

from opendp_optimal import Loss, hookimpl, hookspecs, plugins

MODULES: list[str] = []


class Distribution:
    """As much of an installed distribution as discovery looks at."""

    version = "1.0"

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture
def plugin() -> Iterator[Callable[..., EntryPoint]]:
    """Make an entry point for a module with the given hooks."""
    made: list[str] = []

    def make(distribution: str, **hooks: Any) -> EntryPoint:
        name = f"test_plugin_{len(made)}"
        made.append(name)
        module = types.ModuleType(name)
        for hook, function in hooks.items():
            setattr(module, hook, function)
        sys.modules[name] = module
        return point(distribution, name)

    yield make
    for name in made:
        del sys.modules[name]


def point(distribution: str, module: str) -> EntryPoint:
    entry = EntryPoint("entry", module, hookspecs.PROJECT)
    vars(entry)["dist"] = Distribution(distribution)
    return entry


def make_thing(input_domain: dp.Domain, input_metric: dp.Metric) -> None:
    """A mechanism that is never built."""


def registering(*values: Any, **options: Any) -> Callable[..., None]:
    def hook(register: Callable[..., None]) -> None:
        for value in values:
            register(value, **options)

    return hook


def marked(hook: str, function: Callable[..., None]) -> dict[str, Any]:
    name = f"opendp_optimal_register_{hook}"
    function.__name__ = name
    return {name: hookimpl(function)}


Make = Callable[..., EntryPoint]


def test_a_good_plugin(plugin: Make, tmp_path: Path) -> None:
    command = click.Command("hello")
    loss = Loss(lambda x: abs(x) ** 1.5, "three halves")
    found = plugins.discover(
        [
            plugin(
                "good",
                **marked("mechanisms", registering(make_thing)),
                **marked("losses", registering(loss)),
                **marked("tables", registering(str(tmp_path))),
                **marked("commands", registering(command)),
            )
        ]
    )
    assert list(found.mechanisms) == ["thing"]
    assert found.losses["three halves"].value is loss
    assert found.tables[str(tmp_path)].distribution == "good"
    assert found.commands["hello"].value is command
    assert found.failures == []
    assert found.found[0].version == "1.0"


def test_a_name_of_its_own(plugin: Make) -> None:
    hook = marked("mechanisms", registering(make_thing, name="other"))
    assert list(plugins.discover([plugin("good", **hook)]).mechanisms) == ["other"]


def bad_hooks() -> dict[str, dict[str, Any]]:
    def wrong_argument(registrar: Any) -> None:
        """Takes an argument that no hook has."""

    def raising(register: Any) -> None:
        raise RuntimeError("broken inside")

    def raising_twice(register: Any) -> None:
        raise RuntimeError("broken twice")

    def leaving(register: Any) -> None:
        raise SystemExit(3)

    def naming_a_loss_l1(register: Any) -> None:
        register(Loss(abs, "l1"))

    def taking_a_family(register: Any) -> None:
        register(lambda level: Loss(abs), name="pinball:0.5")

    def unmarked(register: Any) -> None:
        """Lacks its marker."""

    return {
        "misspelt": marked("mechanism", registering(make_thing)),
        "opendp_optimal_register_mechanisms is not marked": {
            "opendp_optimal_register_mechanisms": unmarked
        },
        "registrar": marked("mechanisms", wrong_argument),
        "broken inside": marked("mechanisms", raising),
        "SystemExit": marked("mechanisms", leaving),
        "must be callable": marked("mechanisms", registering("make_thing")),
        "make_<name>": marked("mechanisms", registering(registering())),
        "identifier": marked("mechanisms", registering(make_thing, name="a b")),
        "name (3) must be": marked("mechanisms", registering(make_thing, name=3)),
        "input_domain, input_metric": marked("mechanisms", registering(bad_hooks, name="x")),
        "existing folder": marked("tables", registering("no/such/folder")),
        "must be a Loss": marked("losses", registering("l7")),
        "built-in loss": marked("losses", naming_a_loss_l1),
        "made by a function with a name": marked("losses", taking_a_family),
        "with a name (3)": marked("losses", registering(make_thing, name=3)),
        "broken twice": marked("mechanisms", raising_twice) | marked("losses", raising_twice),
        "click.Command": marked("commands", registering(print)),
    }


@pytest.mark.parametrize("reason", bad_hooks())
def test_a_bad_plugin_is_named_and_skipped(
    plugin: Make, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    good = plugin("good", **marked("mechanisms", registering(make_thing)))
    found = plugins.discover([plugin("bad-one", **bad_hooks()[reason]), good])
    everything = [found.mechanisms, found.losses, found.tables, found.commands]
    assert list(found.mechanisms) == ["thing"]
    assert sum(len(kind) for kind in everything) == 1
    (failure,) = found.failures
    assert failure.distribution == "bad-one"
    wanted = "opendp_optimal_register_mechanism'" if reason == "misspelt" else reason
    assert wanted in failure.reason
    assert "bad-one" in caplog.text


def test_a_plugin_that_does_not_import(plugin: Make) -> None:
    good = plugin("good", **marked("mechanisms", registering(make_thing)))
    found = plugins.discover([point("missing", "no_such_module_anywhere"), good])
    assert list(found.mechanisms) == ["thing"]
    (failure,) = found.failures
    assert str(failure).startswith("plugin 'entry' of missing: ModuleNotFoundError")


def test_duplicates_name_both_owners(plugin: Make) -> None:
    one = plugin("alpha", **marked("mechanisms", registering(make_thing)))
    two = plugin("beta", **marked("mechanisms", registering(make_thing)))
    found = plugins.discover([two, one])
    assert found.mechanisms["thing"].distribution == "alpha"
    (failure,) = found.failures
    assert failure.distribution == "beta"
    assert "alpha" in failure.reason
    assert "beta" in failure.reason


def test_nobody_takes_a_built_in_name(plugin: Make) -> None:
    from importlib.metadata import entry_points

    builtin = [p for p in entry_points(group=hookspecs.PROJECT) if p.dist.name == plugins.OWN]
    thief = plugin("aaa", **marked("mechanisms", registering(make_thing, name="optimal")))
    found = plugins.discover([thief, *builtin])
    assert found.mechanisms["optimal"].distribution == plugins.OWN
    assert [failure.distribution for failure in found.failures] == ["aaa"]


@pytest.mark.parametrize("name", ["l1", "pinball:"])
def test_nobody_takes_the_name_of_a_built_in_loss(plugin: Make, name: str) -> None:
    from importlib.metadata import entry_points

    builtin = [p for p in entry_points(group=hookspecs.PROJECT) if p.dist.name == plugins.OWN]
    hook = marked("losses", registering(lambda level="": Loss(abs), name=name))
    found = plugins.discover([plugin("aaa", **hook), *builtin])
    assert found.losses[name].distribution == plugins.OWN
    assert [failure.distribution for failure in found.failures] == ["aaa"]


def test_the_same_module_twice_is_reported(plugin: Make) -> None:
    one = plugin("alpha", **marked("mechanisms", registering(make_thing)))
    found = plugins.discover([one, point("beta", one.value)])
    assert [failure.distribution for failure in found.failures] == ["beta"]


def test_the_built_in_noise_is_a_plugin() -> None:
    found = plugins.load()
    assert found.mechanisms["optimal"].distribution == plugins.OWN
    assert {"solve", "show", "compare", "warm", "verify", "cache", "plugins", "demo"} <= {
        name for name, item in found.commands.items() if item.distribution == plugins.OWN
    }
    assert plugins.load() is found


def test_every_hook_has_a_user_in_the_repository() -> None:
    used = {hook for plugin in plugins.load().found for hook in plugin.hooks}
    assert used == {name for name in vars(hookspecs) if name.startswith("opendp_optimal_register")}
