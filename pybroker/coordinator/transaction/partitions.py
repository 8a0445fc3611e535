"""The partitions of a transaction, joined and by topic, in steps: a transaction may have a hundred thousand of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pybroker.model import TopicPartition

STEP_PARTITIONS: Final = 1_000
"""The number of partitions, or of topics, that are looked at in a step."""


def by_topic(partitions: Collection[TopicPartition]) -> Generator[None, None, dict[str, list[int]]]:
    """Return the numbers of the partitions by topic, both in order. Yields between steps; a usual transaction has one."""
    found: dict[str, list[int]] = defaultdict(list)
    rest = iter(partitions)
    for start in range(0, len(partitions), STEP_PARTITIONS):
        if start:
            yield
        for topic, number in islice(rest, STEP_PARTITIONS):
            found[topic].append(number)
    topics: dict[str, list[int]] = {}
    size = 0
    for topic in sorted(found):
        size += len(found[topic])
        if size > STEP_PARTITIONS and topics:
            size = 0
            yield
        topics[topic] = sorted(found[topic])
    return topics


def with_more(
    partitions: frozenset[TopicPartition], more: Sequence[TopicPartition]
) -> Generator[None, None, frozenset[TopicPartition]]:
    """Return a set that has `more` too. Yields between steps; a usual transaction has one.

    To copy a set as a whole is one step, which takes about a tenth of what it takes to make it.
    """
    if len(more) <= STEP_PARTITIONS:
        if len(partitions) > STEP_PARTITIONS:
            yield
        return partitions.union(more)
    joined = set(partitions)
    for start in range(0, len(more), STEP_PARTITIONS):
        yield
        joined.update(more[start : start + STEP_PARTITIONS])
    yield
    return frozenset(joined)
