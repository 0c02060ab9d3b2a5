"""Ctrl-C leaves the cache whole."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.process
def test_ctrl_c_during_warm(tmp_path: Path) -> None:
    epsilons = ",".join(str(0.31 + 0.01 * i) for i in range(60))
    command = [sys.executable, "-c", "from opendp_optimal.cli import main; main()"]
    grid = ["warm", "--epsilon", epsilons, "--delta", "1e-7,1e-8,1e-9", "--jobs", "2"]
    environment = {**os.environ, "OPENDP_OPTIMAL_CACHE": str(tmp_path)}
    with subprocess.Popen(
        [*command, *grid],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        # Interrupted once two tables are there and others are on their way.
        for line in process.stderr:
            if line.startswith("2/180"):
                break
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted" in err
    time.sleep(0.5)
    kept = len(list(tmp_path.rglob("*.noise")))
    assert 2 <= kept < 180
    verify = subprocess.run(
        [*command, "verify", *map(str, tmp_path.rglob("*.noise"))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert verify.returncode == 0, verify.stdout
    assert verify.stdout.strip() == f"{kept} of {kept} tables verified"
