"""The records that make a KRaft Kafka know a cluster: its features, topics, partitions, settings and producer ids.

Levels
    metadata.version decides which records Kafka may write. A Kafka starts with every level from its own down to 3.3's, so the
    level of 3.9 fits 3.9 and 4.x; only an administrator raises it (`kafka-features.sh upgrade`). group.version is there only
    where the release has it for good, since 4.0.
Leaders
    No partition has a leader, as in a cluster that has stopped: Kafka's controller elects the replica in sync when the broker has
    registered. With a leader, a coordinator would begin to load its partition before the broker may lead it, and log errors.
Leader epochs
    Each partition is one above its epoch here, and each election adds one: no record of Kafka has the epoch of a record of ours.

Source: MetadataImage.write and what it calls; PartitionRegistration.toRecord; MetadataVersion.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pybroker.metadata.features import GROUP_VERSION, METADATA_VERSION, levels_in_force
from pybroker.metadata.image import BROKER_KIND, CLIENT_METRICS_KIND, GROUP_KIND, NO_LEADER
from pybroker.metadata.kraft.state import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from pybroker.model import ProducerId, TopicPartition
from pybroker.protocol.messages.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.metadata.image import ClusterImage, TopicImage

METADATA_VERSIONS: Final[Mapping[str, int]] = {"3.9": 21, "4.0": 25, "4.1": 27, "4.2": 29, "4.3": 30}
"""The level of metadata.version by the release for which it is the newest."""
_GROUP_VERSION_SINCE: Final = METADATA_VERSIONS["4.0"]
OWN_TOPIC_SETTINGS: Final = frozenset({"retention.granularity"})
OWN_BROKER_SETTINGS: Final = frozenset(
    {
        "cluster.id",
        "log.retention.granularity",
        "metadata.memory.set.logs.aside",
        "metadata.store",
        "metadata.store.password",
        "metadata.store.password.file",
        "metadata.store.ssl.ca.file",
        "metadata.store.ssl.certificate.file",
        "metadata.store.ssl.key.file",
        "metadata.store.user",
        "metrics.listener",
    }
)
OWN_PREFIX: Final = "pybroker."
_RESOURCES: Final = {
    BROKER_KIND: BROKER_RESOURCE,
    CLIENT_METRICS_KIND: CLIENT_METRICS_RESOURCE,
    GROUP_KIND: GROUP_RESOURCE,
}
_NO_BROKER: Final = -1


def is_own_setting(resource_type: int, name: str) -> bool:
    """Return whether Kafka does not have the setting, so that no record may carry it."""
    if resource_type == TOPIC_RESOURCE:
        return name in OWN_TOPIC_SETTINGS
    return resource_type == BROKER_RESOURCE and (name in OWN_BROKER_SETTINGS or name.startswith(OWN_PREFIX))


def feature_records(image: ClusterImage, release: str) -> list[object]:
    """Return the levels of the features for `release`, a key of METADATA_VERSIONS; metadata.version comes first."""
    level = METADATA_VERSIONS[release]
    records: list[object] = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)]
    group_version = levels_in_force(image)[GROUP_VERSION]
    if level >= _GROUP_VERSION_SINCE and group_version:
        records.append(FeatureLevelRecord(name=GROUP_VERSION, feature_level=group_version))
    return records


def cluster_records(
    image: ClusterImage,
    directory_ids: Mapping[TopicPartition, str],
    next_producer_id: ProducerId,
    release: str,
) -> list[object]:
    """Return the records of a whole cluster, in the order in which Kafka writes a snapshot.

    `directory_ids` has, for every partition, the text form of the id of the log directory that holds its log.
    """
    records = feature_records(image, release)
    for _, topic in sorted(image.topics.items()):
        records += _topic_records(topic, directory_ids)
    for _, topic in sorted(image.topics.items()):
        records += _config_records(TOPIC_RESOURCE, topic.name, topic.configs)
    for (kind, name), configs in sorted(image.configs.items()):
        if kind in _RESOURCES:
            records += _config_records(_RESOURCES[kind], name, configs.values)
    if next_producer_id > 0:
        records.append(ProducerIdsRecord(broker_id=_NO_BROKER, next_producer_id=next_producer_id))
    return records


def own_settings(image: ClusterImage) -> Iterator[tuple[str, str, str]]:
    """Yield what `cluster_records` leaves out because Kafka does not have it: the resource for a person, the name, the value."""
    for _, topic in sorted(image.topics.items()):
        for name, value in sorted(topic.configs.items()):
            if is_own_setting(TOPIC_RESOURCE, name):
                yield topic.name, name, value
    for (kind, resource), configs in sorted(image.configs.items()):
        for name, value in sorted(configs.values.items()):
            if kind in _RESOURCES and is_own_setting(_RESOURCES[kind], name):
                yield f"{kind} {resource}" if resource else f"all {kind}s", name, value


def _topic_records(topic: TopicImage, directory_ids: Mapping[TopicPartition, str]) -> Iterator[object]:
    yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for number, partition in enumerate(topic.partitions):
        directory_id = directory_ids[TopicPartition(topic.name, number)]
        yield PartitionRecord(
            partition_id=number,
            topic_id=topic.topic_id,
            replicas=list(partition.replicas),
            isr=list(partition.replicas),
            removing_replicas=[],
            adding_replicas=[],
            leader=NO_LEADER,
            leader_epoch=partition.leader_epoch + 1,
            partition_epoch=partition.partition_epoch + 1,
            directories=[base64.urlsafe_b64decode(directory_id + "==")],
        )


def _config_records(resource_type: int, resource_name: str, values: Mapping[str, str]) -> Iterator[object]:
    for name, value in sorted(values.items()):
        if not is_own_setting(resource_type, name):
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
