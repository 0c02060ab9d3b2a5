"""Processes that spend from one ledger until they are killed.

    python -m tests.budget.ledger.writers ADDRESS

Each line on standard input starts another writer; its process number is the answer. Writers print
what they release, after it was charged: ``paid`` for a charge of 1/64, ``answer KEY VALUE`` for a
request, at the same price once for all of them. Nothing that was drawn but not stored is printed.
"""

import os
import secrets
import subprocess
import sys
from contextlib import suppress

PRICE = 1 / 64
KEYS = 40


def write(address):
    """Spend, and print each release, for ever."""
    from opendp_optimal.budget.ledger import open_ledger
    from opendp_optimal.errors import BudgetError, LedgerError

    ledger = open_ledger(address)
    while True:
        try:
            key = f"r{secrets.randbelow(KEYS)}"
            if secrets.randbelow(4):
                ledger.charge("a", epsilon=PRICE)
                told = "paid"
            else:
                drawn = ledger.answer_once(
                    "a", key, "q", lambda: secrets.token_hex(4).encode(), epsilon=PRICE
                )
                told = f"answer {key} {drawn.decode()}"
        except BudgetError:
            told = "refused"
        except LedgerError:
            if address.startswith("postgresql"):  # the server is being restarted
                continue
            raise
        os.write(1, f"{told}\n".encode())


class Writers:
    """Writers on an address, and what they have released."""

    def __init__(self, address):
        """Start the process that forks them."""
        self.running, self.released, self.answers, self.refused = [], 0, {}, 0
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "tests.budget.ledger.writers", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, count=1):
        """Start some more."""
        for _ in range(count):
            self._nursery.stdin.write("start\n")
            self._nursery.stdin.flush()
            known = len(self.running)
            while len(self.running) == known:
                self.read()

    def read(self):
        """Read one line of what they print."""
        word, *rest = self._nursery.stdout.readline().split() or ["end"]
        if word == "started":
            self.running.append(int(rest[0]))
        elif word == "paid":
            self.released += 1
        elif word == "refused":
            self.refused += 1
        elif word == "answer":
            key, value = rest
            assert self.answers.setdefault(key, value) == value, "a request was answered twice"
        elif word == "end":
            raise RuntimeError("the writers ended")

    def kill(self, signal=9):
        """Kill the one that was started first."""
        os.kill(self.running.pop(0), signal)

    def end(self):
        """Kill all, and read the rest."""
        while self.running:
            self.kill()
        self._nursery.stdin.close()
        with suppress(RuntimeError):
            while True:
                self.read()
        self._nursery.stdout.close()
        self._nursery.wait()

    @property
    def told(self):
        """The price of all that was released, in units of 2^-40."""
        return (self.released + len(self.answers)) << 34


def main():
    """Fork a writer for each line."""
    import opendp_optimal.budget.ledger  # noqa: F401 (once, before the forks)

    with suppress(ImportError):
        import psycopg  # noqa: F401
    address = sys.argv[1]
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            try:
                write(address)
            finally:
                os._exit(1)
        os.write(1, f"started {child}\n".encode())
    with suppress(ChildProcessError):
        while True:
            os.wait()


if __name__ == "__main__":
    main()
