"""Chooses the topics to mirror and the names of their copies, creates the copies, and checks copies that exist already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pybroker.spark.chosen import chosen
from pybroker.spark.errors import PipelineError
from pybroker.spark.mirror.partition import not_ours
from pybroker.spark.mirror.state import Identity, Pair
from pybroker.spark.wire.client import EARLIEST, LATEST

if TYPE_CHECKING:
    from pybroker.spark.wire.client import Topic, TopicSetting, WireClient

_COPIED: Final = (
    "cleanup.policy",
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
)
"""Settings that are copied if they are the topic's own."""
_RETENTION: Final = ("retention.ms", "retention.bytes")
_MADE: Final = {
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str((1 << 63) - 1),
    "message.timestamp.after.max.ms": str((1 << 63) - 1),
}
_MESSAGE_BYTES: Final = 1_048_588
SIZE: Final = "max.message.bytes"


def chosen_topics(source: WireClient, names: tuple[str, ...], pattern: str | None) -> dict[str, Topic]:
    """Return the topics of the source with these names, or with a pattern all that match.

    Raises PipelineError when a name is missing, or when the pattern is not a regular expression.
    """
    existing = source.topics(names if pattern is None else None)
    return chosen(existing, names, pattern, source.bootstrap, others=source.topics)


def target_names(names: Mapping[str, Topic], prefix: str, renamed: Mapping[str, str]) -> dict[str, str]:
    """Return the name of each topic in the target. Raises PipelineError when two topics would have the same name."""
    unknown = [name for name in renamed if name not in names]
    if unknown:
        raise PipelineError(f"topic {', '.join(unknown)} is renamed but not mirrored")
    found = {name: renamed.get(name, prefix + name) for name in names}
    for name, target in found.items():
        others = [other for other in found if found[other] == target and other != name]
        if others:
            raise PipelineError(f"topics {name} and {', '.join(others)} would both go to {target}")
    return found


def check_pair(name: str, topic: Topic, pair: Pair, target: str) -> None:
    """Check a topic against what earlier runs have written down about it. Raises PipelineError."""
    if pair.target != target:
        raise PipelineError(f"topic {name} already goes to {pair.target}, not to {target}: give another mirror a new folder")
    if pair.source_id != topic.topic_id.hex():
        raise PipelineError(f"topic {name} was deleted and created again since it was mirrored")


def prepared(
    source: WireClient, target: WireClient, identity: Identity, topic: Topic, name: str, *, copies_retention: bool
) -> tuple[Pair, int]:
    """Create the topic `name` in the target, or give it enough partitions. Return the pair and the largest batch it accepts.

    Raises PipelineError when it cannot be a copy of `topic`.
    """
    known = identity.topics.get(topic.name)
    existing = target.topics([name]).get(name)
    if existing is None:
        if known is not None:
            raise PipelineError(f"topic {name} at {target.bootstrap} is gone: mirror to another topic, with a new folder")
        settings = _settings(source.settings(topic.name), copies_retention=copies_retention)
        target.create_topic(name, len(topic.leaders), settings)
        existing = target.topic(name)
    if known is not None and known.target_id != existing.topic_id.hex():
        raise PipelineError(f"topic {name} at {target.bootstrap} was deleted and created again since the mirror wrote to it")
    if known is None:
        for number in range(len(existing.leaders)):
            count = target.list_offset(name, number, timestamp=LATEST) - target.list_offset(name, number, timestamp=EARLIEST)
            if count:
                raise not_ours(f"{name}-{number}", count)
    if len(existing.leaders) < len(topic.leaders):
        target.create_partitions(name, len(topic.leaders))
    target_settings = target.settings(name)
    for setting, wanted, why in (
        ("message.timestamp.type", "CreateTime", "would not keep timestamps"),
        ("compression.type", "producer", "would not keep batches as they are"),
    ):
        if target_settings[setting].value != wanted:
            raise PipelineError(f"topic {name} at {target.bootstrap} {why}: its {setting} is not {wanted}")
    return Pair(name, topic.topic_id.hex(), existing.topic_id.hex()), int(target_settings[SIZE].value or _MESSAGE_BYTES)


def _settings(source_settings: Mapping[str, TopicSetting], *, copies_retention: bool) -> dict[str, str]:
    """Return the settings for the copy of a topic with these settings."""
    found = dict(_MADE)
    for name in (*_COPIED, *(_RETENTION if copies_retention else ())):
        setting = source_settings.get(name)
        if setting is not None and setting.is_of_topic and setting.value is not None:
            found[name] = setting.value
    if not copies_retention:
        found |= dict.fromkeys(_RETENTION, "-1")
    size = source_settings.get(SIZE)
    found[SIZE] = str(max(_MESSAGE_BYTES, int(size.value) if size is not None and size.value else 0))
    return found
