"""The follower's half of a fetch session (KIP-227): a request names only the partitions that differ from what the leader knows.

A session begins with a request that names all. Whatever goes wrong, the next request begins another session, which ends the one
before.

Source: org.apache.kafka.clients.FetchSessionHandler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.protocol.messages.fetch import ForgottenTopic

if TYPE_CHECKING:
    from pybroker.model import TopicId

Key = tuple["TopicId", int]
State = tuple[int, ...]
"""The numbers that a request names of a partition."""

_FIRST: Final = 0
_EPOCH_MAX: Final = (1 << 31) - 1


class FetchSession:
    """A session with one leader. `session_id` and `epoch` are those of the next request."""

    __slots__ = ("_forgotten", "_known", "epoch", "session_id")

    def __init__(self) -> None:
        self.session_id, self.epoch = 0, _FIRST
        self._known: dict[Key, State] = {}
        self._forgotten: dict[Key, None] = {}  # since the last request

    @property
    def is_new(self) -> bool:
        """Whether the next request names all partitions."""
        return self.epoch == _FIRST

    def name(self, key: Key, state: State) -> bool:
        """Note what the next request wants of a partition. Returns whether it must name the partition."""
        self._forgotten.pop(key, None)
        if self._known.get(key) == state:
            return False
        self._known[key] = state
        return True

    def forget(self, key: Key) -> None:
        """Fetch a partition no more, until it is named again."""
        if self._known.pop(key, None) is not None:
            self._forgotten[key] = None

    def forgotten(self) -> list[ForgottenTopic]:
        """Return what the next request forgets."""
        if not self._forgotten:
            return []
        gone: dict[TopicId, list[int]] = {}
        for topic_id, number in self._forgotten:
            gone.setdefault(topic_id, []).append(number)
        self._forgotten.clear()
        return [ForgottenTopic(topic_id=topic_id, partitions=numbers) for topic_id, numbers in gone.items()]

    def responded(self, session_id: int) -> None:
        """Note a response without an error."""
        if session_id == 0:
            self.begin_again()
            self.session_id = 0
        elif self.epoch == _FIRST:
            self.session_id, self.epoch = session_id, 1
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def begin_again(self) -> None:
        """Name all partitions in the next request, because the leader may know others than this one."""
        self.epoch = _FIRST
        self._known.clear()
        self._forgotten.clear()
