"""Decides whether a start may have cost records, so that leader epochs must be raised before any client is served.

Clients notice a truncation by the leader epoch (see `metadata.leader_epochs`). A clean stop costs no records and keeps all
epochs. Each of these raises all epochs of this broker at once:

    a log directory with logs did not stop cleanly: records not yet on the disk may be gone, and it cannot be known how many
    a log had to give up records, also after a clean stop: its files are damaged, or end before its checkpoints (`Log.lost`)
    a log directory is back that was missing, or had been given up: its logs are older than the rest
    a partition that this broker leads has no log, and no directory is missing that could have it: it is made again, empty
    a log has an epoch above its partition's: its metadata is not the one that it was written with

Raising the epochs without need does little harm: the clients ask, learn that nothing was truncated, and continue.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.listed import listed
from pybroker.log.leader_epoch_cache import UNDEFINED_EPOCH
from pybroker.metadata.leader_epochs import EPOCH_MAX
from pybroker.model import BrokerId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.log.manager.manager import LogManager
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage

logger = logging.getLogger(__name__)


async def renew_leader_epochs(controller: Controller, logs: LogManager) -> None:
    """Raise the leader epochs if this start calls for it, in one commit. Call it after opening the logs and before using them.

    Raises StoreError.
    """
    reasons = list(_reasons(controller.image, controller.broker_id, logs))
    if not reasons:
        return
    before = controller.image.leader_epochs.counter
    largest = max((log.epochs.largest_epoch for log in logs.all_logs()), default=UNDEFINED_EPOCH)
    epoch = await controller.raise_leader_epochs(above=largest)
    logger.info("Leader epochs begin at %d, so that clients check whether records are gone: %s", epoch, "; ".join(reasons))
    if epoch <= max(before, largest):
        logger.error("There is no leader epoch above %d: clients cannot notice it if records are gone", EPOCH_MAX)


def _reasons(image: ClusterImage, broker_id: BrokerId, logs: LogManager) -> Iterator[str]:
    logs_in = {directory.path: 0 for directory in logs.directories}
    for log in logs.all_logs():
        logs_in[log.log_directory.path] += 1
    for directory in logs.directories:
        if not directory.was_clean and logs_in[directory.path]:
            yield f"{directory.path} with {logs_in[directory.path]} logs was not stopped cleanly"
    shortened = [log.topic_partition for log in logs.all_logs() if log.lost]
    if shortened:
        yield f"{_named(shortened)} gave up records"
    if logs.came_back:
        yield f"{len(logs.came_back)} log directories came back ({', '.join(sorted(logs.came_back))})"
    lost: list[TopicPartition] = []
    above: list[TopicPartition] = []
    for topic in image.topics.values():
        for number, partition in enumerate(topic.partitions):
            if partition.leader == broker_id:
                topic_partition = TopicPartition(topic.name, number)
                found = logs.get(topic_partition)
                if found is None:
                    if logs.is_lost(topic_partition):
                        lost.append(topic_partition)
                elif found.epochs.largest_epoch > partition.leader_epoch:
                    above.append(topic_partition)
    if lost:
        yield f"{_named(lost)} without a log"
    if above:
        yield f"{_named(above)} with records of a later epoch than the metadata knows"


def _named(partitions: list[TopicPartition]) -> str:
    return f"{len(partitions)} partitions ({listed(partitions)})"
