"""Files that can hold a ledger: which one it is, where it may be, and who holds its lock."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from opendp_optimal.errors import LedgerError

NETWORKED = {
    *("9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "gfs2", "glusterfs"),
    *("gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "pvfs2", "smb2"),
    *("smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs", "wekafs"),
}
"""File systems that are shared by machines, where SQLite's locks and its log do not hold; those of
the kind ``fuse.something`` are taken for such, too."""
LOCAL_FUSE = {"fuse.fuse-overlayfs", "fuse.ntfs", "fuse.ntfs-3g", "fuse.exfat"}


def identity(path: str) -> tuple[int, int] | None:
    """Which file has a name; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_file(path: Path, address: str) -> None:
    """Refuse what is no file, or one with two names, which would have two logs."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise LedgerError(f"{address}: {error.strerror}; nothing was charged") from None
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"address ({address!r}) must be the path of a file")
    if found.st_nlink > 1:
        raise ValueError(f"address ({address!r}) must be a file with one name, without hard links")


def refuse_networked(folder: Path) -> None:
    """Refuse a folder that other machines can write to, where that can be told (Linux)."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    best, kind = -1, ""
    for line in mounts.splitlines():
        _, place, system, *_ = line.split(" ")
        root = Path(re.sub(r"\\(0\d\d|1\d\d)", lambda found: chr(int(found[1], 8)), place))
        if folder.is_relative_to(root) and len(root.parts) >= best:
            best, kind = len(root.parts), system
    if kind in NETWORKED or (kind.startswith("fuse.") and kind not in LOCAL_FUSE):
        raise ValueError(
            f"address ({str(folder)!r}) must not be on a network file system ({kind}): SQLite "
            "cannot keep a budget there; use PostgreSQL"
        )


def holder(names: Iterable[str]) -> str:
    """Who holds a lock of one of some files, where the system tells (Linux)."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return ""
    places = {found[1] for name in names if (found := identity(name))}
    holders = set()
    for line in lines:
        parts = line.split()
        inode = parts[5].rsplit(":", 1)[-1] if len(parts) > 5 and "WRITE" in parts else ""
        if inode.isdigit() and int(inode) in places and parts[4] != str(os.getpid()):
            holders.add(parts[4])
    return f" by process {', '.join(sorted(holders))}" if holders else ""
