"""The changes of the store that an operation computes from one image; the controller commits them as a whole, or none of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pybroker.metadata.entries import configs_key, encode_configs, encode_topic, topic_key
from pybroker.metadata.store.base import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pybroker.metadata.image import ClusterImage, ConfigResource, TopicImage
    from pybroker.protocol.error_codes import KafkaError


@dataclass(slots=True)
class Plan:
    """Entries to put or to delete (None), the revisions they were computed from, and the present entries, to restore
    them.

    `topics` are the changed topics, by the values that encode them. `errors` has one element for each requested change,
    None for a change that can be made; `notes` are lines for the log.
    """

    errors: list[KafkaError | None] = field(default_factory=list)
    entries: dict[str, bytes | None] = field(default_factory=dict)
    compare: dict[str, int] = field(default_factory=dict)
    before: dict[str, bytes | None] = field(default_factory=dict)
    topics: dict[bytes, TopicImage] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def change_topic(self, old: TopicImage, new: TopicImage) -> None:
        """Put `new` in the place of `old`, the topic of the same name and id."""
        key = topic_key(old.name)
        value = encode_topic(new)
        self.entries[key], self.before[key], self.compare[key] = value, encode_topic(old), old.revision
        self.topics[value] = new

    def change_configs(self, image: ClusterImage, resource: ConfigResource, values: Mapping[str, str]) -> None:
        """Replace all settings of a resource other than a topic by `values`."""
        key, old = configs_key(resource), image.configs.get(resource)
        self.entries[key] = encode_configs(values) if values else None
        self.before[key] = None if old is None else encode_configs(old.values)
        self.compare[key] = ABSENT if old is None else old.revision
