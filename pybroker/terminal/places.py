"""Places in partitions as people name them: `beginning`, `end`, an offset, the last N, ten minutes ago, a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pybroker.spark.wire.client import COMMITTED, EARLIEST, LATEST, UNCOMMITTED
from pybroker.terminal.numbers import counted, when_ms
from pybroker.terminal.session import FailedError
from pybroker.terminal.topics import unknown_topic
from pybroker.tools.groups_admin import Partition

if TYPE_CHECKING:
    from pybroker.spark.wire.client import WireClient


class Place(NamedTuple):
    """A place: a time, an offset, or some records before the end. `at` is EARLIEST or LATEST without these."""

    at: int = LATEST
    time: int | None = None
    offset: int | None = None
    last: int | None = None


def place(text: str) -> Place | None:
    """Parse a place; None for a text that is none."""
    if text in ("beginning", "earliest"):
        return Place(EARLIEST)
    if text in ("end", "latest"):
        return Place(LATEST)
    if text[:1] == "-" and text[1:].isdecimal():
        return Place(last=int(text[1:]))
    at_ms = when_ms(text)
    if at_ms is not None:
        return Place(time=at_ms)
    return Place(offset=int(text)) if text.isascii() and text.isdecimal() else None


def partitions(client: WireClient, topics: Sequence[str], numbers: Sequence[int] = ()) -> list[Partition]:
    """Return the partitions of topics, or those with these numbers. Raises FailedError for what does not exist."""
    found = client.topics(topics)
    for name in topics:
        if name not in found:
            raise unknown_topic(name, client.topics())
        count = len(found[name].leaders)
        for number in numbers:
            if number >= count:
                raise FailedError(f"{name}-{number}: UNKNOWN_TOPIC_OR_PARTITION: {name} has {counted(count, 'partition')}")
    return [Partition(name, number) for name in topics for number in numbers or range(len(found[name].leaders))]


def offsets(client: WireClient, wanted: Sequence[Partition], where: Place, *, committed: bool) -> dict[Partition, int]:
    """Return the offset of a place in each partition, within what the partition has."""
    isolation = COMMITTED if committed else UNCOMMITTED
    found: dict[Partition, int] = {}
    for partition in wanted:

        def listed(timestamp: int, partition: Partition = partition) -> int:
            return client.list_offset(partition.topic, partition.number, timestamp=timestamp, isolation=isolation)

        if where.time is not None:
            at = listed(where.time)
            found[partition] = listed(LATEST) if at < 0 else at
        elif where.offset is not None:
            found[partition] = min(max(where.offset, listed(EARLIEST)), listed(LATEST))
        elif where.last is not None:
            found[partition] = max(listed(EARLIEST), listed(LATEST) - where.last)
        else:
            found[partition] = listed(where.at)
    return found
