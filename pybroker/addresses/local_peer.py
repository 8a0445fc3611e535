"""Finds whether the client of a connection from this network namespace is a process of this container.

The forwarder of a rootless engine has its socket in the container's network, but is not a process that is visible from here; a
command that runs in the container is. The kernel lists the inode of the client's socket, and for each process the inodes of its
own sockets.

Source: proc(5), proc_pid_fd(5); tcp_ipv4.c of Linux for the columns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_TABLES: Final = ("net/tcp", "net/tcp6")
_INODE_COLUMN: Final = 9


def is_process_here(*, peer_port: int, local_port: int, proc: Path = PROC) -> bool:
    """Return whether one of the processes here has the socket that is connected from `peer_port` to `local_port`.

    The descriptors of other users' processes are not visible. Reads one entry for each descriptor of the visible processes.
    Raises OSError.
    """
    wanted = {f"socket:[{inode}]" for inode in _inodes(from_port=peer_port, to_port=local_port, proc=proc)}
    if not wanted:
        return False
    own = str(os.getpid())
    pids = (name for name in os.listdir(proc) if name.isdigit() and name != own)  # noqa: PTH208  (half the cost)
    return any(target in wanted for pid in pids for target in _descriptors(proc / pid / "fd"))


def _inodes(*, from_port: int, to_port: int, proc: Path) -> Iterator[str]:
    ends = f":{from_port:04X}", f":{to_port:04X}"
    for table in _TABLES:
        try:
            lines = (proc / table).read_text("ascii").splitlines()[1:]
        except FileNotFoundError:  # a system without IPv6
            continue
        for columns in map(str.split, lines):
            if columns[1].endswith(ends[0]) and columns[2].endswith(ends[1]):
                yield columns[_INODE_COLUMN]


def _descriptors(folder: Path) -> Iterator[str]:
    """Yield what the descriptors of a process refer to; nothing for a process that is gone or of another user."""
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return
    for name in names:
        try:
            yield os.readlink(folder / name)  # noqa: PTH115
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
