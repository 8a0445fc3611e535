"""The offsets in a commit: which of them can be committed, and the response to each. OffsetCommit and TxnOffsetCommit share this.

A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION, and an unknown topic id is UNKNOWN_TOPIC_ID; their offsets are not
kept.

Commits that wait
    While a large commit is prepared, or the coordinator of a transaction writes a record, a topic may be deleted, and created
    again. The offsets are of the topic as it was, so none of the commit is kept: NOT_COORDINATOR, with which clients try again.

Large commits
    A commit of more than LARGE_PARTITIONS is prepared in slices, up to the bytes of its batch. Then the group is checked, and the
    batch is appended and replayed, all at once: no client sees some of the offsets only. The topics are those of the time when
    the request came, and the time of the offsets that of their slice. A partition that is named twice may have two records.

Source: KafkaApis.handleOffsetCommitRequest, handleTxnOffsetCommitRequest.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.deferred import Deferred
from pybroker.api.pieces import cut
from pybroker.api.slices import LARGE_PARTITIONS
from pybroker.model import TopicId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.slicing import emptied

if TYPE_CHECKING:
    from pybroker.coordinator.offsets import NewOffset, Refused
    from pybroker.metadata.image import ClusterImage

STEP_PARTITIONS: Final = 500
"""After this many partitions of a large commit the loop may be given back."""

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

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self.new: list[tuple[str, Sequence[NewOffset]]] = []
        self.codes: list[tuple[ErrorCode, int]] = []
        self.is_known = True

    def add(self, topics: Sequence[Any], *, has_topic_ids: bool) -> None:
        """Find out which offsets of `topics` can be committed."""
        image = self._image
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


def is_large(topics: Sequence[Any]) -> bool:
    """Return whether a commit is prepared in slices."""
    count = len(topics)
    return count > LARGE_PARTITIONS or count + sum(len(topic.partitions) for topic in topics) > LARGE_PARTITIONS


def lay_out(image: ClusterImage, topics: Sequence[Any], *, has_topic_ids: bool) -> CommitLayout:
    """Find out which offsets of `topics` can be committed."""
    layout = CommitLayout(image)
    layout.add(topics, has_topic_ids=has_topic_ids)
    return layout


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
    return _refusals(topics, iter(layout.codes), outcome, itertools.count(), topic_response, partition_response)


def _refusals(  # noqa: PLR0917  (each is of another kind)
    topics: Sequence[Any],
    codes: Iterator[tuple[ErrorCode, int]],
    outcome: Refused | ErrorCode,
    places: Iterator[int],
    topic_response: TopicResponse,
    partition_response: PartitionResponse,
) -> list[Any]:
    """Return the responses of some topics. `places` are those of the partitions that could be committed."""
    result = []
    for topic, (unknown, count) in zip(topics, codes, strict=False):  # there may be more topics later
        found = []
        for one in topic.partitions:
            code = unknown
            if 0 <= one.partition_index < count:
                place = next(places)
                code = outcome if isinstance(outcome, ErrorCode) else outcome.get(place, _NONE)
            found.append(partition_response(one.partition_index, code))
        result.append(topic_response(topic.name, topic.topic_id, found))
    return result


class LargeCommit:
    """A commit in pieces of at most STEP_PARTITIONS. `layout` is that of all pieces, whose topics may be parts of a topic."""

    __slots__ = ("_pieces", "layout")

    def __init__(self, image: ClusterImage) -> None:
        self.layout = CommitLayout(image)
        self._pieces: deque[tuple[Sequence[Any], int]] = deque()

    def lay_out(self, request: Any, *, has_topic_ids: bool) -> Generator[None, None, None]:
        """Find out which offsets of the request can be committed."""
        for piece, depth in cut(request, ["topics", "partitions"], STEP_PARTITIONS):
            self.layout.add(piece.topics, has_topic_ids=has_topic_ids)
            self._pieces.append((piece.topics, depth))
            yield

    def responses(
        self, outcome: Refused | ErrorCode, topic_response: TopicResponse, partition_response: PartitionResponse
    ) -> Generator[None, None, list[Any]]:
        """Return what the function of this name returns for the whole request. Frees what it is made of. Call it once."""
        codes, places = iter(self.layout.codes), itertools.count()
        result: list[Any] = []
        while self._pieces:
            topics, depth = self._pieces.popleft()
            some = _refusals(topics, codes, outcome, places, topic_response, partition_response)
            if depth:
                result[-1].partitions += some.pop(0).partitions
            result += some
            yield
        yield from emptied(self.layout.codes, self.layout.new)
        return result


async def outcome_of(commit: Callable[[Callable[[Refused | ErrorCode], None]], None]) -> Refused | ErrorCode:
    """Return what `commit` passes to the callback that it is given."""
    deferred: Deferred[Refused | ErrorCode, Refused | ErrorCode] = Deferred(lambda outcome: outcome)
    commit(deferred.complete)
    outcome = deferred.response()
    return await outcome if isinstance(outcome, asyncio.Future) else outcome
