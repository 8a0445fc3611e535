"""The image as entries of the store: the keys, and the values behind them.

    cluster/id           the cluster's id, text
    brokers/<id>         JSON: endpoints {listener: [host, port]}, rack; a broker of the cluster, live or not
    sessions/<id>        JSON: directory, host, started_ms, is_stopping; a life of broker <id>, which the store deletes when the
                         broker's session ends. The entry's revision is the broker epoch
    controller           the id of the elected controller, decimal; an entry of that broker's session
    topics/<name>        JSON: id (base64), partitions [{replicas, isr, leader, leader_epoch, partition_epoch}], configs.
                         A partition with eligible leader replicas has elr, too
    partitions/<topic id>/<number>
                         JSON: one partition as in `topics/<name>`, once it has changed. Of a partition's two entries the one with
                         the larger partition_epoch holds. What is left of a deleted topic is skipped
    configs/<kind>/<name>
                         JSON: {name: value}; the settings of brokers (an empty name: of all), groups and client metrics; of the
                         kind "feature", with an empty name, the levels of features; of the kind "scram" the credentials of a
                         user by mechanism, and with an empty name a secret; of the kind "token" a delegation token, by its id
    directories/<id>     JSON: the log directories that broker <id> has used; `directories` describes them
    acls/<id>            JSON: one ACL; its id follows from its content
    acls/                the id of the broker that changed the ACLs last: a change of ACLs compares this entry, and puts it
    quotas/<id>          JSON: the quotas of one entity; its id follows from the entity
    quotas/              the id of the broker that changed the quotas last: as that of the ACLs
    producer-ids/next    the first producer id that no broker has been given, decimal
    leader-epochs/last   the largest leader epoch that was ever given, decimal; 0 if there is no such entry
    leader-epochs/broker/<id>
                         the least leader epoch of every partition that the broker leads, decimal
    left/<key>           an entry of a store whose directories were given back to a Kafka; a person can read it

JSON, because a person can read it to repair a cluster, and because an old broker can skip what a newer one added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pybroker.metadata.image import (
    ClusterImage,
    ConfigResource,
    ConfigsImage,
    ImageDelta,
    PartitionChange,
    PartitionImage,
    TopicImage,
)
from pybroker.metadata.member_entries import MEMBER_KINDS, MemberChanges, dump
from pybroker.metadata.store.base import ABSENT, Change, StoreError
from pybroker.model import BrokerId, LeaderEpoch, topic_id_parse, topic_id_text
from pybroker.sharing.work import run_through

if TYPE_CHECKING:
    from pybroker.metadata.leader_epochs import LeaderEpochs
    from pybroker.model import TopicId
    from pybroker.security.acl.binding import Acl
    from pybroker.security.quotas.entity import Entity
    from pybroker.security.quotas.quotas import Values
    from pybroker.sharing.work import Pausing

CLUSTER_ID_KEY: Final = "cluster/id"
PRODUCER_IDS_KEY: Final = "producer-ids/next"
LEADER_EPOCH_KEY: Final = "leader-epochs/last"
LEADER_EPOCH_FLOOR_PREFIX: Final = "leader-epochs/broker/"
TOPIC_PREFIX: Final = "topics/"
PARTITION_PREFIX: Final = "partitions/"
CONFIG_PREFIX: Final = "configs/"
ACL_PREFIX: Final = "acls/"
"""The key of the entry that every change of ACLs puts, and the beginning of the keys of ACLs."""
QUOTA_PREFIX: Final = "quotas/"
"""The key of the entry that every change of quotas puts, and the beginning of the keys of entities."""
LEFT_PREFIX: Final = "left/"


def topic_key(name: str) -> str:
    """Return the key of a topic's entry."""
    return TOPIC_PREFIX + name


def partition_key(topic_id: TopicId, number: int) -> str:
    """Return the key of a partition's own entry."""
    return f"{PARTITION_PREFIX}{topic_id_text(topic_id)}/{number}"


def leader_epoch_floor_key(broker_id: BrokerId) -> str:
    """Return the key of the least leader epoch of all partitions that the broker leads."""
    return f"{LEADER_EPOCH_FLOOR_PREFIX}{broker_id}"


def encode_leader_epoch(epoch: LeaderEpoch) -> bytes:
    """Return the value of LEADER_EPOCH_KEY, and of a broker's floor."""
    return b"%d" % epoch


def with_leader_epoch(epochs: LeaderEpochs, key: str, value: bytes | None, revision: int) -> LeaderEpochs:
    """Return `epochs` after one of their entries was put, or was deleted from outside, which lowers nothing.

    Raises StoreError if the value has another form.
    """
    try:
        if key == LEADER_EPOCH_KEY:
            return (
                epochs.counted(LeaderEpoch(0), revision=ABSENT)
                if value is None
                else epochs.counted(LeaderEpoch(int(value)), revision=revision)
            )
        if value is None:
            return epochs
        return epochs.with_floor(BrokerId(int(key.removeprefix(LEADER_EPOCH_FLOOR_PREFIX))), floor=LeaderEpoch(int(value)))
    except ValueError as error:
        raise StoreError(f"the store's entry {key} cannot be read: {error!r}") from error


def configs_key(resource: ConfigResource) -> str:
    """Return the key of the settings of a resource other than a topic."""
    return f"{CONFIG_PREFIX}{resource.kind}/{resource.name}"


def encode_configs(values: Mapping[str, str]) -> bytes:
    """Return the value of `configs_key`."""
    return dump(dict(values))


def decode_configs(key: str, value: bytes, revision: int) -> ConfigsImage:
    """Decode what `encode_configs` returns. Raises StoreError if the value has another form."""
    try:
        return ConfigsImage(values={str(name): str(text) for name, text in json.loads(value).items()}, revision=revision)
    except (ValueError, AttributeError) as error:
        raise StoreError(f"the store's entry {key} cannot be read: {error!r}") from error


def encode_topic(topic: TopicImage) -> bytes:
    """Return the value of `topic_key(topic.name)`. Equal partitions, which large topics have, are formatted once."""
    texts: dict[PartitionImage, bytes] = {}
    partitions = []
    for partition in topic.partitions:
        text = texts.get(partition)
        if text is None:
            text = texts[partition] = encode_partition(partition)
        partitions.append(text)
    topic_id, configs = dump(topic_id_text(topic.topic_id)), dump(dict(topic.configs))
    return b'{"id":%b,"partitions":[%b],"configs":%b}' % (topic_id, b",".join(partitions), configs)


def encode_partition(partition: PartitionImage) -> bytes:
    """Return the value of a partition's own entry."""
    fields = {
        "replicas": partition.replicas,
        "isr": partition.isr,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
    }
    return dump(fields | {"elr": partition.elr} if partition.elr else fields)


def decode_partition(key: str, value: bytes | None, revision: int) -> PartitionChange:
    """Decode the own entry of a partition; None: it was deleted. Raises StoreError if the key or the value has another form."""
    try:
        topic_id, number = key.removeprefix(PARTITION_PREFIX).split("/")
        partition = None if value is None else _partition_image(json.loads(value), revision)
        return PartitionChange(topic_id_parse(topic_id), int(number), partition)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the store's entry {key} cannot be read: {error!r}") from error


def _partition_image(fields: dict[str, Any], revision: int) -> PartitionImage:
    return PartitionImage(
        leader=fields["leader"],
        leader_epoch=fields["leader_epoch"],
        replicas=tuple(fields["replicas"]),
        isr=tuple(fields["isr"]),
        partition_epoch=fields["partition_epoch"],
        elr=tuple(fields.get("elr", ())),
        revision=revision,
    )


def decode_topic(name: str, value: bytes, revision: int) -> TopicImage:
    """Decode what `encode_topic` returns. Equal partitions are one object. Raises StoreError if the value has another form."""
    known: dict[object, PartitionImage] = {}

    def partition_image(partition: dict[str, Any]) -> PartitionImage:
        replicas, isr, elr = tuple(partition["replicas"]), tuple(partition["isr"]), tuple(partition.get("elr", ()))
        leader, leader_epoch, partition_epoch = partition["leader"], partition["leader_epoch"], partition["partition_epoch"]
        key = (leader, leader_epoch, replicas, isr, elr, partition_epoch)
        found = known.get(key)
        if found is None:
            found = known[key] = PartitionImage(
                leader=leader, leader_epoch=leader_epoch, replicas=replicas, isr=isr, elr=elr, partition_epoch=partition_epoch
            )
        return found

    try:
        fields = json.loads(value)
        return TopicImage(
            name=name,
            topic_id=topic_id_parse(fields["id"]),
            partitions=tuple(map(partition_image, fields["partitions"])),
            configs=fields["configs"],
            revision=revision,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the store's entry of topic {name} cannot be read: {error!r}") from error


def apply_changes(image: ClusterImage, changes: Sequence[Change], revision: int) -> tuple[ClusterImage, ImageDelta]:
    """Return the image after `changes`, as `applied` makes it, at once."""
    return run_through(applied(image, changes, revision))


def applied(
    image: ClusterImage, changes: Sequence[Change], revision: int, planned: Mapping[bytes, TopicImage] | None = None
) -> Pausing[tuple[ClusterImage, ImageDelta]]:
    """Make the image after `changes`; an image follows the store only through this function, at the start and in each
    commit. It yields between entries, because a commit may have 10,000. `planned` has topics by the values that encode them, for
    which the values need not be decoded.

    Keys that this version does not know are skipped. Raises StoreError for an entry that cannot be read.
    """
    topics: list[TopicImage] = []
    removed_topics: list[str] = []
    partitions: list[PartitionChange] = []
    members = MemberChanges(image.members)
    cluster_id = None
    configs: dict[ConfigResource, ConfigsImage | None] = {}
    leader_epochs = image.leader_epochs
    acls: dict[str, Acl | None] = {}
    quotas: dict[str, tuple[Entity, Values] | None] = {}
    acls_revision = quotas_revision = None
    for key, value, at in changes:
        kind, _, name = key.partition("/")
        if kind == "topics" and value is not None:
            known = None if planned is None else planned.get(value)
            topics.append(decode_topic(name, value, at) if known is None else replace(known, revision=at))
        elif kind == "topics":
            removed_topics.append(name)
        elif kind == "partitions":
            partitions.append(decode_partition(key, value, at))
        elif kind in MEMBER_KINDS:
            members.add(kind, name, value, at)
        elif kind == "configs":
            of, _, resource = name.partition("/")
            configs[ConfigResource(of, resource)] = None if value is None else decode_configs(key, value, at)
        elif key == ACL_PREFIX:
            acls_revision = at if value is not None else ABSENT
        elif kind == "acls":
            acls[name] = None if value is None else _acl(key, value)
        elif key == QUOTA_PREFIX:
            quotas_revision = at if value is not None else ABSENT
        elif kind == "quotas":
            quotas[name] = None if value is None else _quotas(key, value)
        elif kind == "leader-epochs":
            leader_epochs = with_leader_epoch(leader_epochs, key, value, at)
        elif key == CLUSTER_ID_KEY and value is not None:
            cluster_id = value.decode()
        yield
    return image.changed(
        revision=revision,
        topics=topics,
        removed_topics=removed_topics,
        partitions=partitions,
        members=members.result(),
        cluster_id=cluster_id,
        configs=configs,
        leader_epochs=leader_epochs,
        acls=acls,
        acls_revision=acls_revision,
        quotas=quotas,
        quotas_revision=quotas_revision,
    )


def _acl(key: str, value: bytes) -> Acl:
    from pybroker.metadata.acl_entries import decode_acl  # noqa: PLC0415  only with ACLs

    return decode_acl(key, value)


def _quotas(key: str, value: bytes) -> tuple[Entity, Values]:
    from pybroker.metadata.quota_entries import decode_quotas  # noqa: PLC0415  only with quotas

    return decode_quotas(key, value)
