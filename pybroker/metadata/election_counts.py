"""Counts the elections of leaders that a change of the image holds, and names the unclean ones in the log.

They are counted in the image, not where they are committed: the controller commits most of them, but a broker that stops or whose
disk fails moves its own leaders, and any broker carries out ElectLeaders.

Source: ControllerMetricsChanges, which counts unclean elections; KIP-966. LeaderElectionRateAndTimeMs is not there: only Kafka's
controller with ZooKeeper has it, and it counts how often that controller was at work, not partitions.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.listed import listed
from pybroker.metadata.image import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pybroker.metadata.image import PartitionImage, TopicImage

logger = logging.getLogger(__name__)


class ElectionCounts:
    """The elections that this broker has seen while it was the controller."""

    __slots__ = ("elections", "unclean")

    def __init__(self) -> None:
        self.elections = 0
        """Partitions that got another leader, unclean elections included; the first leader of a new partition is not counted."""
        self.unclean = 0
        """Those of them whose leader was neither in sync nor eligible."""

    def count(self, changed: Iterable[tuple[TopicImage, TopicImage]]) -> Iterator[None]:
        """Count the elections in topics before and after a change, in slices."""
        unclean: list[str] = []
        for old, new in changed:
            for number, (before, after) in enumerate(zip(old.partitions, new.partitions, strict=False)):  # new ones: no election
                if before is not after and after.leader not in (before.leader, NO_LEADER):
                    self.elections += 1
                    if _was_unclean(before, after):
                        unclean.append(f"{new.name}-{number} (broker {after.leader})")
            yield
        self.unclean += len(unclean)
        if unclean:
            logger.warning(
                "Partitions whose new leader was neither in sync nor eligible, so that acknowledged records may be lost "
                "(unclean.leader.election.enable, or ElectLeaders): %s",
                listed(unclean),
            )


def _was_unclean(before: PartitionImage, after: PartitionImage) -> bool:
    return after.leader not in before.isr and after.leader not in before.elr
