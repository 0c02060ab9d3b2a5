"""Environments in which the tests must pass: both ends of every bound, and the lock.

    python -m tests.attacks.bounds            all three
    python -m tests.attacks.bounds lowest     every dependency at the lower end of its bound
    python -m tests.attacks.bounds newest     the newest version of each that its bound allows
    python -m tests.attacks.bounds locked     exactly ``requirements-dev.lock``, and the whole suite

The bounds are read from every ``pyproject.toml``: the core and its extras, the plugins and theirs.
Each environment has a copy of the repository next to it in ``build/bounds``, with a cache of tables
of its own: nothing that another version solved is used.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.attacks.evidence import ROOT, Row

FOLDER = ROOT / "build" / "bounds"
TOOLS = ["pytest>=8", "pytest-xdist>=3.6", "hypothesis>=6.100", "hatchling>=1.27"]
LEFT_OUT = ("build", "dist", ".git", ".venv", "__pycache__", ".*_cache", "*.egg-info")
"""Not copied."""

SLOW = ("attacks", "benchmarks", "docs")
"""Folders of tests left out at the ends: attacks take long, and pages of docs need every tool."""
SIMULATION = "tests/advisor/test_brute_force.py"
"""Left out there, too."""

WHAT = {
    "lowest": "lowest versions allowed",
    "newest": "newest versions allowed",
    "locked": "exactly the lock, the whole suite",
}


def selected(kind: str) -> list[str]:
    """What is run; nothing means everything. At the ends: all but what is slow, every plugin."""
    if kind == "locked":
        return []
    folder = ROOT / "tests"
    found = [path for path in folder.iterdir() if path.is_dir() and path.name not in SLOW]
    found += ROOT.glob("plugins/*/tests")
    ours = sorted(path.relative_to(ROOT).as_posix() for path in found)
    return [*ours, "opendp_optimal", f"--ignore={SIMULATION}"]


def warnings(kind: str) -> list[str]:
    """An error everywhere; but old versions may call deprecated parts of each other."""
    return ["-W", "ignore::DeprecationWarning"] if kind == "lowest" else []


def manifests() -> list[Path]:
    """The core's ``pyproject.toml``, then every plugin's."""
    return [ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/*/pyproject.toml"))]


def dependencies(manifest: Path = ROOT / "pyproject.toml") -> list[str]:
    """The run-time dependencies of a distribution with their bounds, without extras."""
    return list(tomllib.loads(manifest.read_text())["project"]["dependencies"])


def extras(manifest: Path) -> list[str]:
    """What the extras of a distribution need at run time; Spark is not installed here."""
    project = tomllib.loads(manifest.read_text())["project"]
    found = project.get("optional-dependencies", {})
    return [need for name, needs in found.items() if name not in ("dev", "spark") for need in needs]


def every() -> list[str]:
    """Every run-time dependency of the core, the plugins and all extras; none of our own."""
    found = [need for path in manifests() for need in (*dependencies(path), *extras(path))]
    return sorted({need for need in found if not need.startswith("opendp-optimal")})


def name_of(requirement: str) -> str:
    """The name alone.

    >>> name_of("opendp[polars]>=0.16,<0.17")
    'opendp'
    """
    return re.split(r"[\[<>=~; ]", requirement)[0].lower().replace("_", "-")


def lowest(requirement: str) -> str:
    """A requirement pinned to its lower end.

    >>> lowest("opendp[polars]>=0.16,<0.17")
    'opendp[polars]==0.16'
    >>> lowest("numpy>=1.26")
    'numpy==1.26'
    """
    name, version = re.fullmatch(r"([\w.-]+(?:\[\w+\])?)>=([\d.]+).*", requirement).groups()  # type: ignore[union-attr]
    return f"{name}=={version}"


def build(kind: str) -> tuple[Path, Path]:
    """An environment and a copy of the repository; returns its interpreter and the copy.

    An environment of exact versions is used again as long as the same ones are wanted.
    """
    home, copy = FOLDER / kind, FOLDER / f"{kind}-copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
    python, stamp = home / "bin" / "python", home / "wanted.txt"
    lock = (copy / "requirements-dev.lock").read_text().splitlines()
    pinned = [lowest(need) for need in every()]
    wanted = {"locked": lock[1:], "lowest": [*pinned, *TOOLS], "newest": [*every(), *TOOLS]}[kind]
    if kind != "newest" and stamp.is_file() and stamp.read_text().splitlines() == wanted:
        return python, copy
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    alone = ["--no-deps"]
    subprocess.run([*pip, *(alone if kind == "locked" else []), *wanted], check=True)
    ours = [str(copy / path.relative_to(ROOT).parent) for path in manifests()]
    subprocess.run([*pip, *alone, *(word for path in ours for word in ("-e", path))], check=True)
    subprocess.run([str(python), "-m", "pip", "check"], check=True)
    stamp.write_text("\n".join(wanted) + "\n")
    return python, copy


def versions(python: Path) -> str:
    """What was installed, of the run-time dependencies."""
    names = list(dict.fromkeys(map(name_of, every())))
    code = (
        "from importlib.metadata import version;"
        f"print(', '.join(f'{{n}} {{version(n)}}' for n in {[*names, 'polars']}))"
    )
    done = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def row(kind: str) -> Row:
    """Build an environment, run the tests there, say what came out."""
    python, copy = build(kind)
    workers = os.environ.get("WORKERS", "2")
    options = ["-q", "-n", workers, "--dist", "loadfile", "-p", "no:cacheprovider", "--durations=9"]
    log = FOLDER / f"{kind}.log"
    with log.open("w") as stream:
        code = subprocess.run(
            [str(python), "-m", "pytest", *options, *warnings(kind), *selected(kind)],
            cwd=copy,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdout=stream,
            stderr=subprocess.STDOUT,
        ).returncode
    last = (log.read_text().strip().splitlines() or ["nothing"])[-1]
    if code:
        print(log.read_text()[-3000:], file=sys.stderr)
    found = re.search(r"(\d+) passed", last)
    result = f"{re.sub(r' in .*', '', last).strip('= ')}: {versions(python)}"
    passed = int(found.group(1)) if found else 0
    return Row("supply", WHAT[kind], passed, result, code == 0)


def main(argv: list[str]) -> int:
    """Test all environments, or those named."""
    rows = []
    for kind in argv or list(WHAT):
        rows.append(row(kind))
        print(f"{kind}: {rows[-1].result}", flush=True)
    return 0 if all(found.good for found in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
