"""Reads what CreateTopics and CreatePartitions ask for, in steps: the names that occur once, and assignments and settings as far
as they can be good.

A request may have a million elements, in one topic or in many. So no loop over them is one step, and what is refused in any case
is not made.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final, Protocol, TypeVar

from pybroker.metadata.new_topic import PARTITIONS_PER_REQUEST_MAX
from pybroker.model import BrokerId
from pybroker.slicing import ManyValues, repeated

STEP: Final = 1_000
REPLICAS_MAX: Final = 1_000
"""If a partition has more replicas, one of the first is there twice or is no broker."""
CONFIGS_MAX: Final = 1_000
"""If a topic has more settings, one of the first is unknown."""


class Named(Protocol):
    """A topic of a request."""

    @property
    def name(self) -> str:
        """The name."""


class Config(Protocol):
    """A setting of a request."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def value(self) -> str | None:
        """The value; None is refused."""


class Assigned(Protocol):
    """A partition of a request."""

    @property
    def broker_ids(self) -> Sequence[int]:
        """The replicas."""


Topic = TypeVar("Topic", bound=Named)
Assignment = TypeVar("Assignment", bound=Assigned)
Item = TypeVar("Item")


def apart(topics: Sequence[Topic]) -> Generator[None, None, tuple[list[Topic], list[str]]]:
    """Return the topics whose names occur once, and the names that occur more often."""
    repeated_names = yield from repeated(topic.name for topic in topics)
    once: list[Topic] = []
    again: list[str] = []
    listed = ManyValues[str]()
    for number, topic in enumerate(topics, 1):
        if topic.name not in repeated_names:
            once.append(topic)
        elif listed.add(topic.name):
            again.append(topic.name)
        if not number % STEP:
            yield
    yield from repeated_names.emptied()
    yield from listed.emptied()
    return once, again


def replicas_of(assigned: Assigned) -> tuple[BrokerId, ...]:
    """Return the replicas of a partition."""
    return tuple(map(BrokerId, assigned.broker_ids[:REPLICAS_MAX]))


def assignments_of(assignments: Sequence[Assignment], made: Callable[[Assignment], Item]) -> Generator[None, None, list[Item]]:
    """Return what `made` returns for each assignment, as far as a request may have them: more are refused in any case."""
    found: list[Item] = []
    for number, one in enumerate(assignments[: PARTITIONS_PER_REQUEST_MAX + 1], 1):
        found.append(made(one))
        if not number % STEP:
            yield
    return found


def configs_of(configs: Sequence[Config]) -> Generator[None, None, dict[str, str | None]]:
    """Return the settings of a topic; of very many, enough to refuse it."""
    found: dict[str, str | None] = {}
    for number, config in enumerate(configs, 1):
        found[config.name] = config.value
        if len(found) > CONFIGS_MAX:
            break
        if not number % STEP:
            yield
    return found
