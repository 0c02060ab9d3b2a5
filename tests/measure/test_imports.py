"""What importing and releasing load, and what they do not."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

IMPORT = "import opendp_optimal, sys; print(*(m.partition('.')[0] for m in sys.modules))"
RELEASE = """
import sys
import opendp.prelude as dp
from opendp_optimal import make_optimal_noise
dp.enable_features("contrib")
space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
make_optimal_noise(*space, 1, (1.0, 1e-3))(5)
print(*sys.modules)
"""


def loaded(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_loads_no_solver_and_no_command_line() -> None:
    found = loaded(IMPORT)
    assert "opendp" in found
    assert not found & {"highspy", "matplotlib", "click", "dp_accounting"}


def test_releasing_from_a_stored_table_loads_no_solver() -> None:
    loaded(RELEASE)  # now it is stored
    found = loaded(RELEASE)
    assert "highspy" not in found
    assert not any(name.startswith("opendp_optimal.solvers") for name in found)
