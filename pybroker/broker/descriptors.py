"""Divides the file descriptors that the system grants this process between data files, connections, and everything else.

    limit (RLIMIT_NOFILE)     256    1,024    4,096    1,048,576
    for everything else        64      128      512        1,024
    for data files             96      448    1,792      523,776
    for connections            96      448    1,792      523,776

When the data files have used their share, opening one closes another; a connection waits for its turn. "Everything else" is what
may be opened at any time: indexes and checkpoints while they are read or written, the metadata, modules that are imported at
their first use, listening sockets, threads' own files. A data file that is being sent to a client may be held beyond its share;
then it counts among everything else.
"""

from __future__ import annotations

import fcntl
import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pybroker.log.files.open_files import OPEN_FILES

logger = logging.getLogger(__name__)

RESERVE_MIN: Final = 64
RESERVE_MAX: Final = 1_024
LIMIT_MAX: Final = 1 << 30  # where the system has no limit
TABLE_MAX: Final = 1 << 16
"""Linux doubles the table of a process's descriptors when it is full. Where the process has threads, the connection or the file
that comes then waits for every core, for 5 to 30 ms. A table of this size takes half a megabyte of the kernel's memory.
"""


@dataclass(slots=True, frozen=True, kw_only=True)
class DescriptorShares:
    """The number of descriptors that each kind of use gets."""

    limit: int
    data_files: int
    connections: int


def shares(limit: int) -> DescriptorShares:
    """Divide `limit` descriptors; each share is at least one, however small `limit` is."""
    if limit < 0 or limit > LIMIT_MAX:
        limit = LIMIT_MAX
    left = limit - max(min(limit // 8, RESERVE_MAX), RESERVE_MIN)
    half = max(left // 2, 1)
    return DescriptorShares(limit=limit, data_files=half, connections=max(left - half, 1))


def shares_of_process() -> DescriptorShares:
    """Return the shares of this process's present limit."""
    return shares(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


@contextmanager
def held_share(connections_max: int) -> Iterator[None]:
    """Let the data files of a broker use their share. `connections_max` is the broker's setting, for the log."""
    own = shares_of_process()
    OPEN_FILES.add_share(own.data_files)
    logger.info(
        "Of %d file descriptors at most, %d are for data files and %d for connections (max.connections is %d)",
        own.limit,
        own.data_files,
        own.connections,
        connections_max,
    )
    try:
        yield
    finally:
        OPEN_FILES.remove_share(own.data_files)


def allow_many() -> None:
    """Use as many descriptors as the system lets this process have. Called before there are threads."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError) as error:  # macOS has a lower limit that it does not report
            logger.info("The limit of open files stays at %d: %s", soft, error)
    _make_table()


def _make_table() -> None:
    """Let the system make room for TABLE_MAX descriptors, or for as many as the limit, before this process has threads."""
    highest = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], TABLE_MAX) - 1
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        os.close(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, highest))
    except OSError as error:
        logger.debug("The table of descriptors stays small: %s", error)
    finally:
        os.close(descriptor)
