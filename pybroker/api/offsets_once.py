"""The parts of an OffsetFetch that are in the response once, however often they are named.

A group whose topics are null has all of its offsets in the response. A partition takes four bytes of a request, and may have
metadata of 4 kB. The handler does not look for repeats of partitions in the few that it is asked for at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.api.pieces import Once, first_of

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterator

LONG_METADATA: Final = 64
"""The number of characters from which on a partition is not in the response again."""


def leave_out_groups(request: Any, known: Container[Hashable]) -> set[Hashable]:
    """Leave out the groups that all offsets are wanted of again; return the others of that kind."""
    named: set[Hashable] = set()
    request.groups = first_of(request.groups, known, named, lambda group: group.group_id if group.topics is None else id(group))
    return named


def _leave_out(request: Any, known: Container[Hashable]) -> set[Hashable]:
    named = leave_out_groups(request, known)
    for group_id, topic in _topics(request):
        name = _name_of(topic)
        topic.partition_indexes = first_of(
            topic.partition_indexes,
            known,
            named,
            lambda number, group_id=group_id, name=name: (group_id, name, number),  # type: ignore[misc]
        )
    return named


def _large(response: Any) -> Iterator[Hashable]:
    for group in response.groups:
        if group.topics:
            yield group.group_id
    for group_id, topic in _topics(response):
        name = _name_of(topic)
        for partition in topic.partitions:
            if len(partition.metadata or "") >= LONG_METADATA:
                yield group_id, name, partition.partition_index


def _topics(message: Any) -> Iterator[tuple[str, Any]]:
    """Return the topics of a request or a response, each with its group, which is the only one before v8."""
    for topic in message.topics or ():
        yield "", topic
    for group in message.groups or ():
        for topic in group.topics or ():
            yield group.group_id, topic


def _name_of(topic: Any) -> Hashable:
    return topic.name or getattr(topic, "topic_id", None)


OFFSETS_ONCE: Final = Once(leave_out=_leave_out, large=_large)
