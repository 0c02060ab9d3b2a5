"""What importing a package does: names are what they promise, and nothing heavy comes along."""

import ast
import inspect
import json
import pkgutil
import random
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

PLUGINS = ["bayes", "example", "geo", "learn", "select", "warehouse"]
FACES = ["opendp_optimal", *(f"opendp_optimal_{name}" for name in PLUGINS)]
HOOKS = [f"opendp_optimal_{name}.plugin" for name in PLUGINS]
NOTHING_HEAVY = """
loaded = {"shapely", "pyproj", "sklearn", "scipy", "ibis", "duckdb"} & set(sys.modules)
assert not loaded, loaded
"""

CHECK_NAMES = """
import importlib, json, random, sys, types
face, modules = sys.argv[1], json.loads(sys.argv[2])
package = importlib.import_module(face)
for name in modules:
    importlib.import_module(name)
for name in package.__all__:
    value = getattr(package, name)
    assert not isinstance(value, types.ModuleType), f"{face}.{name} is a module"
    assert value is package.__getattr__(name), f"{face}.{name} is {value!r}"
    assert name in dir(package)
"""

ENROLLED = """
import json, sys
import opendp_optimal
from opendp_optimal.losses import NAMED
from opendp_optimal.measure._opendp import _enrolled
from opendp_optimal.table.store import _extra_directories

def enrolled():
    return {*_enrolled, *(f"loss {name}" for name in NAMED), *map(str, _extra_directories)}

before = enrolled()
__import__(sys.argv[1])
print(json.dumps(sorted(enrolled() - before)))
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


def submodules(face: str) -> list[str]:
    package = pytest.importorskip(face)
    found = pkgutil.walk_packages(package.__path__, prefix=f"{face}.")
    return sorted(m.name for m in found if not m.name.endswith("__main__"))


@pytest.mark.parametrize("face", FACES)
def test_no_module_takes_the_place_of_a_public_name(face: str) -> None:
    modules = {name.split(".")[1] for name in submodules(face)}
    assert not modules & set(import_module(face).__all__)


@pytest.mark.parametrize("face", FACES)
def test_public_names_survive_every_order_of_imports(face: str) -> None:
    modules = submodules(face)
    random.shuffle(modules)
    run(CHECK_NAMES, face, json.dumps(modules))


@pytest.mark.parametrize("face", [*FACES, "opendp_optimal.budget", "opendp_optimal.extend"])
def test_type_checkers_see_what_is_loaded(face: str) -> None:
    package = pytest.importorskip(face)
    lines = [n for n in ast.walk(ast.parse(inspect.getsource(package))) if hasattr(n, "module")]
    homes = {a.asname: str(line.module) for line in lines for a in line.names if a.asname}
    assert set(homes) == set(package.__all__)
    for name, home in homes.items():
        value = getattr(package, name)  # loads the module, if it is one
        assert value is getattr(import_module(home), name)


@pytest.mark.parametrize("name", PLUGINS)
def test_an_import_enrols_exactly_what_the_hook_registers(name: str) -> None:
    face = f"opendp_optimal_{name}"
    pytest.importorskip(face)
    registered: list[str] = []
    names = {
        "mechanisms": lambda made: made.__name__.removeprefix("make_"),
        "losses": lambda loss: f"loss {loss.name}",
        "tables": str,
    }
    for kind, name_of in names.items():

        def register(value, *, name=None, name_of=name_of):
            registered.append(name or name_of(value))

        hook = f"opendp_optimal_register_{kind}"
        getattr(import_module(f"{face}.plugin"), hook, lambda register: None)(register)
    assert json.loads(run(ENROLLED, face)) == sorted(registered)
    if name == "example":
        assert len(registered) == 3  # one of each kind


BROKEN = """
from opendp_optimal import hookimpl, plugins
from opendp_optimal.measure._opendp import _enrolled

class Plugin:
    @staticmethod
    @hookimpl
    def opendp_optimal_register_mechanisms(register):
        register(lambda input_domain, input_metric: None, name="half_done")
    @staticmethod
    @hookimpl
    def opendp_optimal_register_losses(register):
        raise RuntimeError("broken inside")

try:
    plugins.enrol(Plugin)
except RuntimeError:
    assert "half_done" not in _enrolled
else:
    raise AssertionError
"""


def test_a_plugin_with_a_broken_hook_leaves_nothing_behind() -> None:
    run(BROKEN)


HOOKED = """
import sys, types
from importlib.metadata import EntryPoint
from opendp_optimal import Loss, hookimpl, hookspecs, plugins
from opendp_optimal.losses import NAMED
from opendp_optimal.losses.base import loss_of
from opendp_optimal.measure._opendp import _enrolled

def made(name, **hooks):
    module = sys.modules[name] = types.ModuleType(name)
    for hook, function in hooks.items():
        function.__name__ = f"opendp_optimal_register_{hook}"
        setattr(module, function.__name__, hookimpl(function))
    return module

def loaded(*names):
    points = [EntryPoint(name, name, hookspecs.PROJECT) for name in names]
    plugins.entry_points = lambda group: points
    return plugins.load.__wrapped__()

def losses(register):
    register(Loss(lambda x: abs(x) ** 1.5, "three halves"))
    register(lambda text: Loss(lambda x: abs(x) ** float(text), f"to {text}"), name="to:")

def mechanisms(register):
    register(lambda input_domain, input_metric: None, name="thing")
"""
AGAIN = """
plugin = made("hasty", losses=losses, mechanisms=mechanisms)
plugins.enrol(plugin)
plugins.enrol(plugin)
first = loss_of("three halves"), _enrolled["thing"]
found = loaded("hasty")
assert not found.failures and set(found.losses) == {"three halves", "to:"}, found.failures
assert (loss_of("three halves"), _enrolled["thing"]) == first
assert loss_of("to:2.5")(2.0) == 2.0**2.5
"""
TAKEN = """
def taking(register):
    register(Loss(lambda x: abs(x) ** 1.25, "new"))
    register(Loss(lambda x: abs(x) ** 1.75, sys.argv[1]))

plugins.enrol(made("first", losses=losses))
plugin = made("late", losses=taking, mechanisms=mechanisms)
try:
    plugins.enrol(plugin)
except ValueError as error:
    assert sys.argv[2] in str(error)
else:
    raise AssertionError
assert "new" not in NAMED and "thing" not in _enrolled
(failure,) = loaded("first", "late").failures
assert failure.entry_point == "late" and "registered twice" in failure.reason
assert "new" not in NAMED
"""


PAST = """
def past(register):
    from opendp.context import register as enter
    enter(lambda input_domain, input_metric: None, "thing")

made("first", mechanisms=mechanisms)
made("past", mechanisms=past)
(failure,) = loaded("first", "past").failures
assert failure.entry_point == "first" and "already in the Context API" in failure.reason
"""


def test_a_hook_that_goes_past_its_register_breaks_nothing_else() -> None:
    run(HOOKED + PAST)


def test_hooks_may_be_called_again() -> None:
    run(HOOKED + AGAIN)


@pytest.mark.parametrize(
    ("name", "reason"), [("three halves", "is taken"), ("new", "registered twice")]
)
def test_a_plugin_that_takes_a_name_leaves_nothing_behind(name: str, reason: str) -> None:
    run(HOOKED + TAKEN, name, reason)


def test_an_import_makes_the_losses_and_tables_of_a_plugin_usable() -> None:
    pytest.importorskip("opendp_optimal_example")
    run(
        "import opendp_optimal_example\n"
        "from opendp_optimal import advise, load_plugins, solve\n"
        "assert solve(1.0, 0.1, loss='huber', gap=0.1).loss is opendp_optimal_example.HUBER\n"
        "assert not load_plugins().failures\n"
    )


@pytest.mark.parametrize("name", ["opendp_optimal.builtins", *HOOKS])
def test_hooks_load_nothing_heavy(name: str) -> None:
    pytest.importorskip(name)
    run(f"import sys, {name}\n{NOTHING_HEAVY}")


def test_the_version_loads_nothing_heavy() -> None:
    asked = "from opendp_optimal.cli import main\ntry:\n    main(['--version'])\n"
    run(f"import sys\n{asked}except SystemExit:\n    pass\n{NOTHING_HEAVY}")


def test_the_contract_of_the_plugins_names_every_room() -> None:
    import tomllib

    root = Path(__file__).parents[2]
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [c for c in settings["contracts"] if c["name"].startswith("Plugins use the face")]
    rooms = {
        f"opendp_optimal.{path.stem}"
        for path in (root / "opendp_optimal").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    allowed = {f"opendp_optimal.{name}" for name in ("__init__", "budget", "extend", "testing")}
    assert set(contract["forbidden_modules"]) == rooms - allowed


def test_a_plugin_that_reaches_past_the_door_is_reported_with_its_line(tmp_path) -> None:
    pytest.importorskip("importlinter")
    package = tmp_path / "opendp_optimal_wrong"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "noise.py").write_text('"""Noise."""\n\nfrom opendp_optimal.certify import noise\n')
    (tmp_path / "contracts.toml").write_text(
        '[tool.importlinter]\nroot_packages = ["opendp_optimal", "opendp_optimal_wrong"]\n'
        "[[tool.importlinter.contracts]]\n"
        'name = "door"\ntype = "forbidden"\nallow_indirect_imports = true\n'
        'source_modules = ["opendp_optimal_wrong"]\n'
        'forbidden_modules = ["opendp_optimal.certify"]\n'
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports;"
            "sys.exit(lint_imports(config_filename='contracts.toml', no_cache=True))",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "opendp_optimal_wrong.noise -> opendp_optimal.certify.noise (l.3)" in done.stdout
