"""Removing what was deleted: files and directories whose time has come, and logs that the metadata has no more.

A directory that is offline because its volume is full is still worked on here: deleting is what makes room. Renaming a directory
and removing files need none.
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Final

from pybroker.log import checkpoint, strays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pybroker.log.directory import LogDirectory
    from pybroker.model import TopicId, TopicPartition

logger = logging.getLogger(__name__)

NOT_REMOVABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.ENOTEMPTY, errno.EBUSY})
"""Somebody else's files, or rights: other than a broken disk, nothing to go offline for."""


def run_due(directory: LogDirectory, now_ms: int) -> None:
    """Begin a pass in the directory's thread over what is to be removed by now, unless one is under way."""
    if directory.can_delete and not directory.is_busy_with("removals"):
        directory.run_pass("removals", [_removal(directory, work) for work in directory.take_due(now_ms)], is_deleting=True)


def delete_unloaded(directories: Iterable[LogDirectory], tp: TopicPartition, topic_id: TopicId, due_ms: int) -> None:
    """Give up the log of a deleted topic where it was never loaded, because the volume was full.

    Only one that says it is of this topic; any other is left to the next start. Raises KafkaError.
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
    """`work`, but for what is no failure of the disk: it is left to the next start."""

    def remove() -> None:
        try:
            work()
        except OSError as error:
            if error.errno not in NOT_REMOVABLE:
                raise
            logger.warning(
                "a deleted file or directory in %s cannot be removed; the next start tries again: %s", directory.path, error
            )

    return remove
