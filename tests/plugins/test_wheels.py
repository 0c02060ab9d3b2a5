"""Discovery against wheels installed into a fresh virtual environment.

The wheels of the core and of every plugin in the repository are built, installed with their
dependencies into a new environment, and used from there, together with plugins that are broken in
three ways.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
HOOK = """
from opendp_optimal import hookimpl

def make_sized_mean(input_domain, input_metric):
    pass

@hookimpl
def opendp_optimal_register_{kind}(register):
    register(make_sized_mean)
"""
BROKEN = {
    "zz-misspelt": HOOK.format(kind="mechanismz"),
    "zz-duplicate": HOOK.format(kind="mechanisms"),
    "zz-unimportable": "import a_module_that_nobody_has\n",
}


def write_wheel(folder: Path, name: str, source: str) -> Path:
    """Write a wheel with one module and one entry point, by hand."""
    module = name.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    files = {
        f"{module}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[opendp_optimal]\nplugin = {module}\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
        record += f"{path},sha256={digest.decode().rstrip('=')},{len(text.encode())}\n"
    wheel = folder / f"{module}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return wheel


def run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=tempfile.gettempdir(),  # not where the sources are
        env={**clean, **environment},
    )


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of a fresh environment with everything installed from wheels."""
    wheels = tmp_path_factory.mktemp("wheels")
    sources = [ROOT, *sorted(p.parent for p in ROOT.glob("plugins/*/pyproject.toml"))]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    built = run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, *sources)
    assert built.returncode == 0, built.stderr
    for name, source in BROKEN.items():
        write_wheel(wheels, name, source)
    home = tmp_path_factory.mktemp("fresh") / "env"
    venv.create(home)
    scripts = home / "bin"
    # The environment needs no pip of its own, and only what is imported is compiled.
    into = [*pip, "--python", scripts / "python", "install", "--no-compile"]
    installed = run(*into, *sorted(wheels.iterdir()))
    assert installed.returncode == 0, installed.stderr
    return scripts


def test_wheels_hold_what_they_should(fresh: Path) -> None:
    code = (
        "import opendp_optimal, importlib.resources as r;"
        "assert (r.files('opendp_optimal') / 'py.typed').is_file();"
        "print(opendp_optimal.__file__)"
    )
    done = run(fresh / "python", "-c", code)
    assert done.returncode == 0, done.stderr
    assert str(fresh.parent) in done.stdout


def test_everything_is_discovered_and_the_broken_are_named(fresh: Path, tmp_path: Path) -> None:
    done = run(fresh / "opendp-optimal", "plugins", "--json", OPENDP_OPTIMAL_CACHE=str(tmp_path))
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    distributions = {plugin["distribution"] for plugin in found["plugins"]}
    assert {"opendp-optimal", "opendp-optimal-example"} <= distributions
    (example,) = [p for p in found["plugins"] if p["distribution"] == "opendp-optimal-example"]
    assert example["adds"]["mechanisms"] == ["sized_mean"]
    assert example["adds"]["losses"] == ["huber"]
    assert example["adds"]["commands"] == ["quote"]
    reasons = {failure["distribution"]: failure["reason"] for failure in found["failures"]}
    assert set(reasons) == set(BROKEN)
    assert "opendp_optimal_register_mechanismz" in reasons["zz-misspelt"]
    assert "opendp-optimal-example and by zz-duplicate" in reasons["zz-duplicate"]
    assert "a_module_that_nobody_has" in reasons["zz-unimportable"]
    for name in BROKEN:
        assert name in done.stderr


def test_a_plugin_command_and_its_table_work(fresh: Path, tmp_path: Path) -> None:
    done = run(fresh / "opendp-optimal", "quote", "1", "1e-6", OPENDP_OPTIMAL_CACHE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert 0.95 < float(done.stdout) < 0.97
    code = (
        "import opendp_optimal as o; o.load_plugins();"
        "t = o.solve(epsilon=1.0, delta=1e-6, loss='huber', compute=False); t.verify();"
        "print(t.loss.name)"
    )
    empty = tmp_path / "empty"
    done = run(fresh / "python", "-c", code, OPENDP_OPTIMAL_CACHE=str(empty))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "huber"
    assert not empty.exists()  # it came from the plugin's own folder


def test_a_context_uses_a_plugin_mechanism(fresh: Path, tmp_path: Path) -> None:
    code = """
import opendp.prelude as dp, opendp_optimal
dp.enable_features("contrib")
opendp_optimal.load_plugins()
context = dp.Context.compositor(
    data=[1.0, 2.0, 3.0], privacy_unit=dp.unit_of(contributions=1),
    privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6), split_evenly_over=2,
    domain=dp.vector_domain(dp.atom_domain(T=float, nan=False)))
print(type(context.query().sized_mean((0.0, 10.0), 3).release()).__name__)
print(type(context.query().count().optimal().release()).__name__)
"""
    done = run(fresh / "python", "-c", code, OPENDP_OPTIMAL_CACHE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["float", "int"]
