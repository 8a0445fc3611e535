"""The rules of topic names: which names are valid, which names collide, and which topics are the broker's own.

Source: Topic, Uuid (Kafka's clients).
"""

from __future__ import annotations

import re
import uuid
from typing import Final

from pybroker.model import ZERO_TOPIC_ID, TopicId

NAME_CHARACTERS_MAX: Final = 249
"""A partition's directory is `name-number` and `-delete` with a UUID is appended: it must stay within 255 bytes."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC})

_VALID = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)
_CLUSTER_METADATA_TOPIC_ID: Final = TopicId(bytes(15) + b"\x01")


def invalid_name_reason(name: str) -> str | None:
    """Return why `name` cannot be a topic's; None if it can."""
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > NAME_CHARACTERS_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_CHARACTERS_MAX}"
    if not _VALID.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def has_collision_characters(name: str) -> bool:
    """Return whether `name` may collide with another: metric names do not distinguish '.' from '_'."""
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    """Return a key that colliding names share; two topics with the same key may not exist together."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Return whether the topic is one of the coordinators'."""
    return name in INTERNAL_TOPICS


def random_topic_id() -> TopicId:
    """Return a version 4 UUID that Kafka would make: not a reserved id, and its text does not begin like a command line
    option.
    """
    while True:
        candidate = TopicId(uuid.uuid4().bytes)
        if candidate not in {ZERO_TOPIC_ID, _CLUSTER_METADATA_TOPIC_ID} and candidate[0] >> 2 != 62:  # 62 is "-" in base64
            return candidate
