"""The names in a request: the topics, partitions, groups and transactional ids that it names, whichever API it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.model import TopicId

if TYPE_CHECKING:
    from pybroker.metadata.controller import Controller

TOPICS: Final = (
    "topics", "topic_data", "topic_names", "topic_partitions", "subscribed_topic_names", "v3_and_below_topics",
)  # fmt: skip
PARTITIONS: Final = ("partitions", "partition_data", "partition_indexes")
NUMBERS: Final = ("index", "partition", "partition_index")
GROUPS: Final = ("group_id", "groups", "group_ids", "groups_names")
TRANSACTIONAL_IDS: Final = ("transactional_id", "transactional_ids", "v3_and_below_transactional_id", "transactions")
INNER: Final = ("groups", "transactions", "markers")
"""The fields whose elements have topics inside, in some versions."""

NameOf = Callable[[bytes], str | None]
"""Returns the name of the topic with an id; None for an unknown id."""


def names_in(controller: Controller) -> NameOf:
    """Return the function that finds the names of topics in the cluster as it is at each call."""

    return lambda topic_id: controller.image.topic_name(TopicId(topic_id))


class About(NamedTuple):
    """The names in a request. One that names a topic without partitions is about all of them."""

    topics: tuple[str, ...]
    partitions: frozenset[tuple[str, int]]
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]


def about(request: object, name_of: NameOf) -> About:
    """Return what a request names, without duplicates, in its order."""
    topics: dict[str, None] = {}
    partitions: set[tuple[str, int]] = set()
    parts = [request, *(one for field in INNER for one in _elements(request, field) if not isinstance(one, str))]
    for part in parts:
        for element in (one for field in TOPICS for one in _elements(part, field)):
            if (name := _name(element, name_of)) is not None:
                topics[name] = None
                partitions.update((name, number) for number in _numbers(element))
    groups = _texts(request, GROUPS, GROUPS[0])
    transactional_ids = _texts(request, TRANSACTIONAL_IDS, TRANSACTIONAL_IDS[0])
    if (kind := getattr(request, "key_type", None)) is not None:
        keys = tuple(dict.fromkeys(key for key in (getattr(request, "key", ""), *_elements(request, "coordinator_keys")) if key))
        groups, transactional_ids = (keys if kind == number else () for number in (0, 1))
    return About(tuple(topics), frozenset(partitions), groups, transactional_ids)


def _elements(message: object, field: str) -> Iterable[Any]:
    value = getattr(message, field, None)
    return value if isinstance(value, list) else ()


def _name(element: Any, name_of: NameOf) -> str | None:
    if isinstance(element, str):
        return element
    for field in ("name", "topic"):
        if name := getattr(element, field, None):
            return str(name)
    topic_id = getattr(element, "topic_id", None)
    return None if topic_id is None else name_of(topic_id)


def _numbers(element: object) -> Iterable[int]:
    for one in (one for field in PARTITIONS for one in _elements(element, field)):
        if isinstance(one, int):
            yield one
        else:
            yield from (getattr(one, field) for field in NUMBERS if hasattr(one, field))


def _texts(request: object, fields: Iterable[str], inner: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for field in fields:
        value = getattr(request, field, None)
        for one in value if isinstance(value, list) else [value]:
            text = one if isinstance(one, str) else getattr(one, inner, None)
            if text:
                found[text] = None
    return tuple(found)
