"""Removes what was deleted: files and directories that are due, and logs that the metadata does not have any more.

A directory that is offline because its volume is full is still worked on here: deletion makes room. Renaming a
directory and removing files need no room.
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Final

from pybroker.log.checkpoints import checkpoint
from pybroker.log.directories import strays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pybroker.log.directories.directory import LogDirectory
    from pybroker.model import TopicId, TopicPartition

logger = logging.getLogger(__name__)

NOT_REMOVABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.ENOTEMPTY, errno.EBUSY})
"""Errors of files that belong to another program or need other rights: they are no reason to go offline, unlike a broken
disk.
"""


def run_due(directory: LogDirectory, now_ms: int) -> None:
    """Begin a pass in the directory's thread over the removals that are due, unless a pass is running."""
    if directory.can_delete and not directory.is_busy_with("removals"):
        works = (_removal(directory, work) for work in directory.take_due(now_ms))
        directory.run_pass("removals", works, is_deleting=True)


def delete_unloaded(directories: Iterable[LogDirectory], tp: TopicPartition, topic_id: TopicId, due_ms: int) -> None:
    """Delete the log of a deleted topic that was never loaded, because the volume was full.

    Only a log that names this topic is deleted; any other is left to the next start. Raises KafkaError.
    """
    for directory in directories:
        path = f"{directory.path}/{tp}"
        if not directory.is_out_of_room:
            continue
        try:
            if checkpoint.read_partition_metadata(directory.filesystem, path) == topic_id:
                strays.delete_later(directory, path, tp, due_ms)
        except checkpoint.CorruptCheckpointError as error:
            logger.warning("%s is left as it is: %s", path, error)
        except OSError as error:
            raise directory.fail(error) from error


def _removal(directory: LogDirectory, work: Callable[[], None]) -> Callable[[], None]:
    """Return `work` with errors handled that are no failure of the disk: such a removal is left to the next start."""

    def remove() -> None:
        try:
            work()
        except OSError as error:
            if error.errno not in NOT_REMOVABLE:
                raise
            logger.warning(
                "A deleted file or directory in %s cannot be removed; the next start tries again: %s", directory.path, error
            )

    return remove
