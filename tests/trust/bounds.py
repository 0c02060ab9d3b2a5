"""Run-time dependencies at both ends of their bounds: the lowest versions allowed, and the newest.

    python -m tests.trust.bounds            builds both environments, runs the smoke tests in each
    python -m tests.trust.bounds lowest

The lower ends are read from ``pyproject.toml``; the newest is whatever the index offers.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.trust.evidence import ROOT, Row

SMOKE = [
    "tests/certify",
    "tests/sample",
    "tests/table/test_noise_table.py",
    "tests/measure/test_grid.py",
    "tests/measure/test_noise.py",
    "tests/measure/test_opendp_private.py",
    "tests/trust/test_certify_bound.py",
    "tests/trust/test_certify_privacy.py",
    "tests/trust/test_certify_pure.py",
    "tests/test_engine.py",
]


def dependencies() -> list[str]:
    """The run-time dependencies with their bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["dependencies"])


def lowest(requirement: str) -> str:
    """A requirement pinned to its lower end.

    >>> lowest("opendp>=0.16,<0.17")
    'opendp~=0.16.0'
    >>> lowest("numpy>=1.26")
    'numpy~=1.26.0'
    """
    name, version = re.fullmatch(r"([\w.-]+)>=([\d.]+).*", requirement).groups()  # type: ignore[union-attr]
    return f"{name}~={version}.0" if version.count(".") == 1 else f"{name}=={version}"


def build(end: str, folder: Path) -> Path:
    """An environment with the core and one end of the bounds; returns its interpreter."""
    python = folder / end / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder / end)], check=True)
    wanted = [lowest(d) if end == "lowest" else d for d in dependencies()]
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *wanted, "pytest>=8", "hypothesis>=6.100"], check=True)
    subprocess.run([*pip, "--no-deps", "-e", str(ROOT)], check=True)
    return python


def versions(python: Path) -> str:
    """What was installed, of the run-time dependencies."""
    names = [re.split(r"[<>=~]", d)[0] for d in dependencies()]
    code = (
        "from importlib.metadata import version;"
        f"print(', '.join(f'{{n}} {{version(n)}}' for n in {names}))"
    )
    done = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def row(end: str) -> Row:
    """Build one end, test it, say what came out."""
    python = build(end, ROOT / "build" / "bounds")
    tests = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *SMOKE],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    last = (tests.stdout.strip().splitlines() or [tests.stderr[-200:]])[-1]
    if tests.returncode:
        print(tests.stdout[-3000:], file=sys.stderr)
    found = re.search(r"(\d+) passed", last)
    result = f"{re.sub(r' in .*', '', last).strip('= ')}: {versions(python)}"
    passed = int(found.group(1)) if found else 0
    return Row("supply", f"{end} versions allowed", passed, result, tests.returncode == 0)


def main(argv: list[str]) -> int:
    """Test both ends, or those named."""
    rows = []
    for end in argv or ["lowest", "newest"]:
        rows.append(row(end))
        print(f"{end}: {rows[-1].result}", flush=True)
    return 0 if all(found.good for found in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
