"""Supply: no connection at run time, few dependencies, bounds, and a lock that fits them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.bounds import (
    WHAT,
    dependencies,
    every,
    extras,
    lowest,
    manifests,
    name_of,
    selected,
)

ROOT = Path(__file__).resolve().parents[2]

# An audit hook cannot be taken back, so this runs in a process of its own.
FORBID = """
import sys

def hook(event, arguments):
    if event.startswith("socket.") and event not in ("socket.gethostname", "socket.sethostname"):
        raise RuntimeError("a connection was tried: " + event)
    if event in ("urllib.Request", "ftplib.connect", "http.client.connect", "smtplib.connect"):
        raise RuntimeError("a connection was tried: " + event)

sys.addaudithook(hook)
"""


def alone(code, tmp_path):
    return subprocess.run(
        [sys.executable, "-c", FORBID + code],
        env={**os.environ, "OPENDP_OPTIMAL_CACHE": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )


def test_the_hook_forbids_connections(tmp_path):
    done = alone("import socket; socket.socket()", tmp_path)
    assert done.returncode != 0
    assert "a connection was tried" in done.stderr


def test_solving_and_releasing_open_no_connection(tmp_path):
    code = """
import opendp.prelude as dp
import opendp_optimal
dp.enable_features("contrib", "honest-but-curious")
opendp_optimal.load_plugins()
opendp_optimal.solve(0.83, 0.01, gap=0.05)
space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
opendp_optimal.make_optimal_noise(*space, 1.0, (1.0, 1e-3))(3.0)
print("done")
"""
    done = alone(code, tmp_path)
    assert done.stdout.strip() == "done", done.stderr


def test_every_registered_mechanism_releases_without_a_connection(tmp_path):
    code = f"""
sys.path.insert(0, {str(ROOT)!r})
from tests.attacks.mechanisms import cases
print(len([case.release(case.x) for case in cases()]))
"""
    done = alone(code, tmp_path)
    assert int(done.stdout) > 8, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["solve", "1", "1e-6"],
        ["show", "1", "1e-6"],
        ["plugins"],
        ["cache", "list"],
        ["verify"],
        ["compare", "1", "1e-6"],
    ],
    ids=" ".join,
)
def test_the_command_line_opens_no_connection(words, tmp_path):
    code = f"from opendp_optimal.cli import run; sys.exit(run({words!r}))"
    done = alone(code, tmp_path)
    assert "connection" not in done.stderr
    assert done.returncode in (0, 2), done.stderr


def numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version))


def locked():
    lines = (ROOT / "requirements-dev.lock").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+]*", pin) for pin in pins)
    return {name.lower().replace("_", "-"): v for name, v in (pin.split("==") for pin in pins)}


@pytest.mark.parametrize("manifest", manifests(), ids=lambda p: p.parent.name)
def test_the_lock_satisfies_every_bound_that_it_knows(manifest):
    pins = locked()
    for requirement in (*dependencies(manifest), *extras(manifest)):
        name = name_of(requirement)
        if name.startswith("opendp-optimal"):
            continue
        assert name in pins, f"make lock: {name} is missing"
        for operator, bound in re.findall(r"(>=|<)\s*([\d.]+)", requirement):
            have, want = numbers(pins[name]), numbers(bound)
            assert have >= want if operator == ">=" else have < want, requirement


def test_every_run_time_dependency_has_a_lower_bound():
    for requirement in every():
        assert re.fullmatch(r"[\w.-]+(\[\w+\])?>=[\d.]+(,<[\d.]+)?", requirement)
        assert lowest(requirement).split("==")[0] == requirement.split(">=")[0]
    assert len(dependencies()) <= 10


def test_the_core_and_all_plugins_agree_on_every_bound():
    bounds = {}
    for requirement in every():
        bounds.setdefault(name_of(requirement), set()).add(requirement.partition(">=")[2])
    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}
    assert {"click", "dp-accounting", "matplotlib", "pyarrow", "shapely", "starlette"} <= set(
        bounds
    )


def test_both_ends_are_tested_with_the_command_line_and_every_plugin():
    for kind in WHAT:
        chosen = selected(kind)
        wanted = {"tests/cli", "tests/measure", "tests/table"}
        wanted |= {f"plugins/{path.parent.name}/tests" for path in manifests()[1:]}
        assert not chosen or wanted <= set(chosen)


def test_importing_needs_run_time_dependencies_only(tmp_path):
    code = """
import opendp.prelude
of_opendp = set(sys.modules)  # it loads some of its own extras where they are installed
import opendp_optimal, opendp_optimal.table, opendp_optimal.sample.weights
extras = {"matplotlib", "dp_accounting", "pytest", "hypothesis", "sklearn", "pyarrow"}
print(sorted(extras & (set(sys.modules) - of_opendp)))
"""
    done = alone(code, tmp_path)
    assert done.stdout.strip() == "[]", done.stderr
