"""The service of the how-to page, as it stands there: several processes, one of which is killed."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from opendp_optimal.budget import open_ledger

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.process

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "release-service.md"


def workers(server):
    """The processes that answer, of a server."""
    found = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    named = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in found}
    return [pid for pid, line in named.items() if b"spawn_main" in line]


def ask(port, path, method="POST"):
    """The status and the answer of the service; None if the connection was lost."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers in /proc")
def test_workers_spend_from_one_budget(tmp_path):
    code = PAGE.read_text().split("<!-- service.py -->")[1]
    (tmp_path / "service.py").write_text(re.search(r"```python\n(.*?)```", code, re.DOTALL)[1])
    ledger = open_ledger(tmp_path / "budgets.db")
    ledger.create("incomes", epsilon=1.0)
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "service:app", "--workers", "3", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        stderr=subprocess.PIPE,
        text=True,
    )
    told = iter(server.stderr.readline, "")
    port = next(int(found[1]) for line in told if (found := re.search(r":(\d+) \(Press", line)))
    drain = threading.Thread(target=lambda: [None for _ in told], daemon=True)
    drain.start()
    answers, refused = [], []

    def client(number):
        for turn in range(8):
            key = f"?request=k{turn % 4}" if turn % 3 == 0 else ""
            found = ask(port, f"/total{key}")
            if found is None:
                continue
            status, told = found
            if status == 200:
                answers.append((key, told["total"]))
            else:
                assert status == 403, told
                refused.append(number)
            if number == turn == 1:
                os.kill(workers(server)[0], signal.SIGKILL)

    try:
        while ask(port, "/left", "GET") is None and server.poll() is None:
            time.sleep(0.1)  # the workers are still importing
        assert ask(port, "/left", "GET") == (200, {"left": 1.0})
        threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ask(port, "/total?request=" + "x" * 501)[0] == 400
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()
    keyed = {key: total for key, total in answers if key}
    assert all(keyed[key] == total for key, total in answers if key)
    paid = sum(1 for key, _ in answers if not key) + len(keyed)
    assert refused
    assert 0 < paid << 36 <= ledger.budget("incomes").spent.main <= 1 << 40
    ledger.verify()
    ledger.close()
    server.stderr.close()
