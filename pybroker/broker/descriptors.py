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

import logging
import resource
from dataclasses import dataclass
from typing import Final

logger = logging.getLogger(__name__)

RESERVE_MIN: Final = 64
RESERVE_MAX: Final = 1_024
LIMIT_MAX: Final = 1 << 30  # where the system has no limit


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


def allow_many() -> None:
    """Use as many descriptors as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError) as error:  # macOS has a lower limit that it does not report
            logger.info("The limit of open files stays at %d: %s", soft, error)
