"""The offsets in a commit: which of them can be committed, and the response to each. OffsetCommit and TxnOffsetCommit share this.

A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION, and an unknown topic id is UNKNOWN_TOPIC_ID; their offsets are not
kept. `lay_out` and `responses` yield where the loop may be given back.

Commits that wait
    While a large commit is prepared, or the coordinator of a transaction writes a record, a topic may be deleted, and created
    again. The offsets are of the topic as it was, so none of the commit is kept: NOT_COORDINATOR, with which clients try again.

Large commits
    A commit of more than LARGE_PARTITIONS is prepared in slices, up to the bytes of its batch. Then the group is checked, and the
    batch is appended and replayed, all at once: no client sees some of the offsets only. The topics are those of the time when
    the request came, and the time of the offsets that of their slice.

Source: KafkaApis.handleOffsetCommitRequest, handleTxnOffsetCommitRequest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.deferred import Deferred
from pybroker.model import TopicId
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.coordinator.offsets import NewOffset, Refused
    from pybroker.metadata.image import ClusterImage

STEP_PARTITIONS: Final = 500
"""After this many partitions the loop may be given back."""

LARGE_PARTITIONS: Final = 1_000
"""A commit of more partitions is prepared in slices."""

_NONE: Final = ErrorCode.NONE  # looking up an enum's member costs more than the decision by it
_UNKNOWN_PARTITION: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class CommitLayout:
    """The topics of a commit, as the cluster had them when the request came.

    `new` has the offsets that can be committed, by the name of their topic. `codes` has, for each topic of the request, the error
    of partitions that do not exist, and from which number on that is so. `is_known` is whether everything exists. `count` is the
    number of partitions in the request.
    """

    __slots__ = ("_image", "codes", "count", "is_known", "new")

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self.new: list[tuple[str, Sequence[NewOffset]]] = []
        self.codes: list[tuple[ErrorCode, int]] = []
        self.is_known = True
        self.count = 0

    def is_outdated(self, image: ClusterImage) -> bool:
        """Return whether one of the topics does not exist any more as it was, by the cluster of now."""
        return not image.still_has(self._image, [name for name, _ in self.new])


def lay_out(image: ClusterImage, topics: Sequence[Any], *, has_topic_ids: bool) -> Generator[None, None, CommitLayout]:
    """Find out which offsets of `topics` can be committed."""
    layout = CommitLayout(image)
    todo = STEP_PARTITIONS
    for topic in topics:
        asked = topic.partitions
        layout.count += len(asked)
        known = image.topics_by_id.get(TopicId(topic.topic_id)) if has_topic_ids else image.topics.get(topic.name)
        if known is None:
            layout.codes.append((ErrorCode.UNKNOWN_TOPIC_ID if has_topic_ids else _UNKNOWN_PARTITION, 0))
            layout.is_known = False
            todo -= 1
        else:
            count = len(known.partitions)
            layout.codes.append((_UNKNOWN_PARTITION, count))
            partitions: list[NewOffset] = []
            for start in range(0, len(asked), STEP_PARTITIONS):
                some = asked[start : start + STEP_PARTITIONS]
                partitions += [one for one in some if 0 <= one.partition_index < count]
                todo -= len(some)
                if todo <= 0:
                    todo = STEP_PARTITIONS
                    yield
            layout.is_known = layout.is_known and len(partitions) == len(asked)
            if partitions:
                layout.new.append((known.name, partitions))
        if todo <= 0:
            todo = STEP_PARTITIONS
            yield
    return layout


def responses(
    layout: CommitLayout,
    topics: Sequence[Any],
    outcome: Refused | ErrorCode,
    topic_response: Callable[[str, bytes, list[Any]], Any],
    partition_response: Callable[[int, ErrorCode], Any],
) -> Generator[None, None, list[Any]]:
    """Return the responses by topics: `outcome` for what was committed, or refused."""
    are_all_committed = not outcome and layout.is_known
    place = -1  # among the partitions that could be committed
    todo = STEP_PARTITIONS
    result = []
    for topic, (unknown, count) in zip(topics, layout.codes, strict=True):
        asked = topic.partitions
        found: list[Any] = []
        for start in range(0, len(asked), STEP_PARTITIONS):
            some = asked[start : start + STEP_PARTITIONS]
            if are_all_committed:
                found += [partition_response(one.partition_index, _NONE) for one in some]
            else:
                for one in some:
                    code = unknown
                    if 0 <= one.partition_index < count:
                        place += 1
                        code = outcome if isinstance(outcome, ErrorCode) else outcome.get(place, _NONE)
                    found.append(partition_response(one.partition_index, code))
            todo -= len(some)
            if todo <= 0:
                todo = STEP_PARTITIONS
                yield
        result.append(topic_response(topic.name, topic.topic_id, found))
        todo -= 1
        if todo <= 0:
            todo = STEP_PARTITIONS
            yield
    return result


def is_large(layout: CommitLayout) -> bool:
    """Return whether the rest of the commit is done in slices, too."""
    return layout.count > LARGE_PARTITIONS


async def outcome_of(commit: Callable[[Callable[[Refused | ErrorCode], None]], None]) -> Refused | ErrorCode:
    """Return what `commit` passes to the callback that it is given."""
    deferred: Deferred[Refused | ErrorCode, Refused | ErrorCode] = Deferred(lambda outcome: outcome)
    commit(deferred.complete)
    outcome = deferred.response()
    return await outcome if isinstance(outcome, asyncio.Future) else outcome
