"""Files of the cache: read by those who may, written whole, and never waited for."""

import os
import stat
import subprocess
import sys

import pytest

from opendp_optimal import files, solve
from opendp_optimal.cli import run
from opendp_optimal.table import store as cache

needs_posix = pytest.mark.skipif(os.name == "nt", reason="modes and pipes")


def small(**change):
    return solve(0.77, 0.03, cells=3, gap=1.0, **change)


@needs_posix
@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077, 0o027])
def test_tables_have_the_permissions_of_any_new_file(mask):
    table = small(cache=False)
    before = os.umask(mask)
    try:
        place = cache.keep(table)
    finally:
        os.umask(before)
    assert place is not None
    assert stat.S_IMODE(place.stat().st_mode) == 0o666 & ~mask
    assert [p.name for p in place.parent.iterdir()] == [place.name]


@needs_posix
@pytest.mark.process
def test_a_pipe_or_a_device_named_like_a_table_is_passed_over():
    directory = cache.cache_directory()
    directory.mkdir(parents=True)
    os.mkfifo(directory / "pipe.noise")
    os.symlink("/dev/zero", directory / "endless.noise")
    # In a process of its own, with little memory: on failure it waits or takes all of it.
    code = (
        "import resource, signal; signal.alarm(60);"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32));"
        "from opendp_optimal.table import store as cache;"
        "own = [p for p in cache.stored_files() if p.parent == cache.cache_directory()];"
        "print([[cache.read(p), cache.fault(p), cache.describe(p)['error']] for p in own])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("None") == 2
    assert done.stdout.count("is not a regular file") == 4
    assert cache.clear() == 2
    assert not list(directory.iterdir())


def test_only_regular_files_of_bounded_size_are_read(tmp_path):
    place = tmp_path / "data"
    place.write_bytes(b"12345678")
    assert files.read_regular(place, 8) == b"12345678"
    with pytest.raises(OSError, match="larger than 7 bytes"):
        files.read_regular(place, 7)
    with pytest.raises(FileNotFoundError):
        files.read_regular(tmp_path / "none")
    with pytest.raises(OSError, match=r"folder|denied|directory"):
        files.read_regular(tmp_path)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    place = tmp_path / "data"
    files.write_whole(place, b"old")

    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        files.write_whole(place, b"new")
    assert place.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["data"]


def test_clearing_leaves_folders_alone():
    (cache.cache_directory() / "folder.noise").mkdir(parents=True)
    small()
    assert cache.clear() == 1


def test_warm_says_when_tables_cannot_be_kept(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "file" / "below"))
    assert run(["warm", "--epsilon", "0.7", "--delta", "0.1"]) == 1
    shown = capsys.readouterr()
    assert "cannot be written" in shown.err
    assert "solved" not in shown.out


def test_a_table_that_is_lost_on_the_way_is_a_failure(monkeypatch):
    from opendp_optimal.cli.warm import Job, attempt

    job = Job(0.7, 0.1, "l1", None, 0.5)
    assert attempt(job).status == "solved"
    cache.clear()
    monkeypatch.setattr(cache, "write", lambda name, data: None)
    lost = attempt(job)
    assert lost.status == "failed"
    assert "could not be written" in lost.reason


def test_what_could_not_be_read_again_is_not_kept(monkeypatch):
    """A user's own loss at a small epsilon has a long list of costs."""
    from opendp_optimal.table.files import container

    table = solve(1.0, 0.1, loss=lambda x: abs(x) ** 0.5, gap=1.0, cache=False)
    monkeypatch.setattr(container, "_MOST_HEADER", 1000)
    assert cache.keep(table) is None
    monkeypatch.undo()
    assert cache.keep(table).is_file()
    assert cache.load(table.problem) == table
