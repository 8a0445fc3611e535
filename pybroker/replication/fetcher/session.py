"""The follower's half of a fetch session (KIP-227): a request names only the partitions that differ from what the leader knows.

A session begins with a request that names all. Whatever goes wrong, the next request begins another session, which ends the one
before.

Source: org.apache.kafka.clients.FetchSessionHandler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pybroker.model import TopicId

Key = tuple["TopicId", int]

_FIRST: Final = 0
_EPOCH_MAX: Final = (1 << 31) - 1


class FetchSession:
    """A session with one leader. `session_id` and `epoch` are those of the next request."""

    __slots__ = ("_known", "epoch", "session_id")

    def __init__(self) -> None:
        self.session_id, self.epoch = 0, _FIRST
        self._known: dict[Key, FetchPartition] = {}

    def named(self, wanted: Mapping[Key, FetchPartition]) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """Return what the next request names, in the order of `wanted`, and what it forgets."""
        known = self._known
        if self.epoch == _FIRST:
            self._known = dict(wanted)
            return _by_topic(wanted), []
        differing = {key: one for key, one in wanted.items() if known.get(key) != one}
        gone: dict[TopicId, list[int]] = {}
        for topic_id, number in known.keys() - wanted.keys():
            gone.setdefault(topic_id, []).append(number)
        self._known = dict(wanted)
        return _by_topic(differing), [ForgottenTopic(topic_id=topic_id, partitions=gone[topic_id]) for topic_id in gone]

    def responded(self, session_id: int) -> None:
        """Note a response without an error."""
        if session_id == 0:
            self.session_id, self.epoch = 0, _FIRST
        elif self.epoch == _FIRST:
            self.session_id, self.epoch = session_id, 1
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def begin_again(self) -> None:
        """Name all partitions in the next request, because the leader may know others than this one."""
        self.epoch = _FIRST


def _by_topic(partitions: Mapping[Key, FetchPartition]) -> list[FetchTopic]:
    """Return partitions by topic, in their order; a topic comes again after another one, because the order is that of reading."""
    topics: list[FetchTopic] = []
    for (topic_id, _), partition in partitions.items():
        if not topics or topics[-1].topic_id != topic_id:
            topics.append(FetchTopic(topic_id=topic_id, partitions=[]))
        topics[-1].partitions.append(partition)
    return topics
