"""The offsets in a commit: which of them can be committed, and the response to each. OffsetCommit and TxnOffsetCommit share this.

A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION, and an unknown topic id is UNKNOWN_TOPIC_ID; their offsets are not
kept.

Commits that wait
    While the coordinator of a transaction writes a record, a topic may be deleted, and created again. The offsets are of the
    topic as it was, so none of the commit is kept: NOT_COORDINATOR, with which clients try again.

Source: KafkaApis.handleOffsetCommitRequest, handleTxnOffsetCommitRequest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from pybroker.model import TopicId
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.coordinator.offsets import NewOffset, Refused
    from pybroker.metadata.image import ClusterImage

TopicResponse = Callable[[str, bytes, list[Any]], Any]
"""Makes the response of a topic from its name, its id and the responses of its partitions."""

PartitionResponse = Callable[[int, ErrorCode], Any]

_index: Final = attrgetter("partition_index")
_NONE: Final = ErrorCode.NONE
_UNKNOWN_PARTITION: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class CommitLayout:
    """The topics of a commit, as the cluster had them when the request came.

    `new` has the offsets that can be committed, by the name of their topic. `codes` has, for each topic, the error of partitions
    that do not exist, and from which number on that is so. `is_known` is whether everything exists.
    """

    __slots__ = ("_image", "codes", "is_known", "new")

    def __init__(self, image: ClusterImage, topics: Sequence[Any], *, has_topic_ids: bool) -> None:
        """Find out which offsets of `topics` can be committed."""
        self._image = image
        self.new: list[tuple[str, Sequence[NewOffset]]] = []
        self.codes: list[tuple[ErrorCode, int]] = []
        self.is_known = True
        for topic in topics:
            known = image.topics_by_id.get(TopicId(topic.topic_id)) if has_topic_ids else image.topics.get(topic.name)
            if known is None:
                self.codes.append((ErrorCode.UNKNOWN_TOPIC_ID if has_topic_ids else _UNKNOWN_PARTITION, 0))
                self.is_known = False
                continue
            count, partitions = len(known.partitions), topic.partitions
            self.codes.append((_UNKNOWN_PARTITION, count))
            numbers = list(map(_index, partitions))
            if numbers and not (min(numbers) >= 0 and max(numbers) < count):
                partitions = [one for one in partitions if 0 <= one.partition_index < count]
                self.is_known = False
            if partitions:
                self.new.append((known.name, partitions))

    def is_outdated(self, image: ClusterImage) -> bool:
        """Return whether one of the topics does not exist any more as it was, by the cluster of now."""
        return not image.still_has(self._image, [name for name, _ in self.new])


def responses(
    layout: CommitLayout,
    topics: Sequence[Any],
    outcome: Refused | ErrorCode,
    topic_response: TopicResponse,
    partition_response: PartitionResponse,
) -> list[Any]:
    """Return the responses by topics: `outcome` for what was committed, or refused."""
    if not outcome and layout.is_known:
        return [
            topic_response(
                topic.name, topic.topic_id, list(map(partition_response, map(_index, topic.partitions), itertools.repeat(_NONE)))
            )
            for topic in topics
        ]
    result = []
    places = itertools.count()  # of the partitions that could be committed
    for topic, (unknown, count) in zip(topics, layout.codes, strict=True):
        found = []
        for one in topic.partitions:
            code = unknown
            if 0 <= one.partition_index < count:
                place = next(places)
                code = outcome if isinstance(outcome, ErrorCode) else outcome.get(place, _NONE)
            found.append(partition_response(one.partition_index, code))
        result.append(topic_response(topic.name, topic.topic_id, found))
    return result
