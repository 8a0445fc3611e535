"""Adoption of directories with KRaft's metadata: what is taken over, what is refused, and what is reported about the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.adoption import from_kafka, lost_metadata
from pybroker.adoption.from_kafka import Plan
from pybroker.adoption.topic_configs_file import ConfigsFileError, parse
from pybroker.config.broker import BrokerConfig
from pybroker.log.checkpoints import checkpoint
from pybroker.log.files.filesystem import Filesystem
from pybroker.metadata.kraft.frames import to_bytes
from pybroker.model import BrokerId, Offset, TopicId, TopicPartition, topic_id_text
from pybroker.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from testing.scenes.logs import batch

FS = Filesystem()
ORDERS, USERS = (TopicId(name.encode().ljust(16)) for name in ("orders", "users"))


def topic(name: str, topic_id: TopicId, count: int = 1, replicas: tuple[int, ...] = (1,)) -> list[object]:
    parts = [
        PartitionRecord(
            partition_id=n, topic_id=topic_id, replicas=list(replicas), isr=[1], leader=1, leader_epoch=0, partition_epoch=0
        )
        for n in range(count)
    ]
    return [TopicRecord(name=name, topic_id=topic_id), *parts]


class KraftScene:
    """A log directory of a Kafka that is stopped; its metadata has the records that a test gives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "kafka"
        self.metadata = self.folder / "__cluster_metadata-0"
        self.metadata.mkdir(parents=True)
        (self.folder / "meta.properties").write_text("version=1\ncluster.id=theirs\nnode.id=1\ndirectory.id=abc\n")
        (self.folder / ".kafka_cleanshutdown").write_text("")
        self.config = BrokerConfig(node_id=BrokerId(1), log_dirs=(str(self.folder),))

    def records(self, *messages: object, file: str = "00000000000000000000.log", base_offset: int = 0) -> KraftScene:
        data = bytearray()
        for offset, message in enumerate(messages, start=base_offset):
            version = int(isinstance(message, PartitionRecord | PartitionChangeRecord))  # 1 has the log directories
            data += build_batch([Record(Offset(offset), 0, None, to_bytes(message, version))])
        (self.metadata / file).write_bytes(data)
        return self

    def log(self, name: str, topic_id: TopicId | None, **options: object) -> Path:
        path = self.folder / name
        path.mkdir()
        (path / "00000000000000000000.log").write_bytes(batch(3, **options))  # type: ignore[arg-type]  # the builder's own options
        if topic_id is not None:
            checkpoint.write_partition_metadata(FS, str(path), topic_id)
        return path

    def plan(self, configs: dict[str, dict[str, str]] | None = None, *, is_partial: bool = False) -> Plan:
        with lost_metadata.locked(self.config, FS, is_dry=True) as directories:
            found = lost_metadata.survey(directories)
            state = from_kafka.read_kraft(directories, was_clean=found.is_clean)
            return from_kafka.plan_of(found, state, self.config, configs or {}, is_partial=is_partial)


@pytest.fixture
def scene(tmp_path: Path) -> KraftScene:
    return KraftScene(tmp_path)


def test_topics_settings_and_epochs_come_from_the_metadata(scene: KraftScene) -> None:
    scene.records(
        FeatureLevelRecord(name="metadata.version", feature_level=20),
        *topic("orders", ORDERS, 2),
        PartitionChangeRecord(partition_id=1, topic_id=ORDERS, leader=1),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="-1"),
        ConfigRecord(resource_type=2, resource_name="orders", name="segment.bytes", value="5000"),
        ConfigRecord(resource_type=2, resource_name="orders", name="segment.bytes", value=None),
        ConfigRecord(resource_type=2, resource_name="orders", name="made.up", value="x"),
        ConfigRecord(resource_type=32, resource_name="g", name="consumer.session.timeout.ms", value="50000"),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        ProducerIdsRecord(broker_id=1, next_producer_id=3000),
        *topic("gone", USERS),
        RemoveTopicRecord(topic_id=USERS),
        BeginTransactionRecord(),
        *topic("never", USERS),
        AbortTransactionRecord(),
        BeginTransactionRecord(),
        *topic("users", USERS),
        EndTransactionRecord(),
    )
    for name, topic_id in (("orders-0", ORDERS), ("orders-1", ORDERS), ("users-0", USERS)):
        scene.log(name, topic_id)
    plan = scene.plan({"users": {"cleanup.policy": "compact"}})
    assert {(one.name, one.topic_id, len(one.partitions)) for one in plan.topics} == {("orders", ORDERS, 2), ("users", USERS, 1)}
    orders, users = plan.topics
    assert (dict(orders.configs), dict(users.configs)) == ({"retention.ms": "-1"}, {"cleanup.policy": "compact"})
    assert {part.leader_epoch for part in orders.partitions} == {2}, "above the epoch of each partition"
    assert list(plan.others) == ["configs/group/g"]
    assert any(note.startswith("orders: a setting is not taken over: made.up=x") for note in plan.notes)
    settings = "Settings of all brokers are not taken over: min.insync.replicas; put those that you need into the configuration"
    assert any(note.startswith(settings) for note in plan.notes)


def test_a_snapshot_stands_for_the_records_before_it(scene: KraftScene) -> None:
    footer = build_batch([Record(Offset(9), 0, b"\0\0\0\x04", b"\0\0")], is_control=True)
    snapshot = "00000000000000000003-0000000001.checkpoint"
    scene.records(*topic("orders", ORDERS), file=snapshot)
    scene.records(*topic("users", USERS), base_offset=3, file="00000000000000000003.log")
    scene.log("orders-0", ORDERS)
    scene.log("users-0", USERS)
    with pytest.raises(lost_metadata.AdoptionError, match=f"{snapshot} is not a whole snapshot"):
        scene.plan()
    with (scene.metadata / snapshot).open("ab") as file:
        file.write(footer)
    assert [one.name for one in scene.plan().topics] == ["orders", "users"]
    scene.records(*topic("users", USERS), base_offset=5, file="00000000000000000005.log")
    (scene.metadata / "00000000000000000003.log").unlink()
    with pytest.raises(lost_metadata.AdoptionError, match="has no record from offset 3 to 4"):
        scene.plan()


@pytest.mark.parametrize("was_clean", [True, False])
def test_damaged_metadata_is_refused_and_a_torn_end_after_a_kill_is_not(scene: KraftScene, *, was_clean: bool) -> None:
    scene.records(*topic("orders", ORDERS), *topic("users", USERS))
    scene.log("orders-0", ORDERS)
    if not was_clean:
        (scene.folder / ".kafka_cleanshutdown").unlink()
    file = scene.metadata / "00000000000000000000.log"
    whole = file.read_bytes()
    first = len(whole) // 4
    file.write_bytes(whole[:first] + bytes([whole[first] ^ 0x55]) + whole[first + 1 :])
    with pytest.raises(
        lost_metadata.AdoptionError, match=r"00000000000000000000\.log is damaged at byte \d+.*Put __cluster_metadata-0 back"
    ):
        scene.plan()
    scene.records(*topic("orders", ORDERS))
    file.write_bytes(file.read_bytes() + whole[:50])
    if was_clean:
        with pytest.raises(lost_metadata.AdoptionError, match="is damaged at byte"):
            scene.plan()
    else:
        assert [one.name for one in scene.plan().topics] == ["orders"]


def test_one_broker_of_several_is_refused_unless_it_is_partial(scene: KraftScene) -> None:
    scene.records(*topic("orders", ORDERS, 2, replicas=(1, 2)), *topic("users", USERS, 2))
    for name, topic_id in (("orders-0", ORDERS), ("orders-1", ORDERS), ("users-0", USERS)):
        scene.log(name, topic_id)
    with pytest.raises(
        lost_metadata.AdoptionError, match=r"orders-0 \(replicas 1,2\), orders-1 \(replicas 1,2\) have replicas on other"
    ):
        scene.plan()
    plan = scene.plan(is_partial=True)
    assert [(one.name, len(one.partitions), one.partitions[0].replicas) for one in plan.topics] == [
        ("orders", 2, (1,)),
        ("users", 2, (1,)),
    ]
    assert any(note.startswith("users-1 are in no directory") for note in plan.notes)


def test_a_partition_without_a_directory_is_refused(scene: KraftScene) -> None:
    scene.records(*topic("users", USERS, 2))
    scene.log("users-0", USERS)
    with pytest.raises(lost_metadata.AdoptionError, match="users-1 are in no directory: is a disk not mounted"):
        scene.plan()


def test_logs_of_another_topic_id_are_refused(scene: KraftScene) -> None:
    scene.records(*topic("orders", ORDERS))
    scene.log("orders-0", USERS)
    with pytest.raises(lost_metadata.AdoptionError, match="the metadata does not belong to these logs"):
        scene.plan()


def test_a_log_that_the_metadata_does_not_have_becomes_a_stray(scene: KraftScene) -> None:
    scene.records(*topic("orders", ORDERS))
    scene.log("orders-0", ORDERS)
    scene.log("users-0", USERS)
    scene.log("backup-99999999999", None)
    scene.log("orders-20241101", ORDERS)
    plan = scene.plan()
    assert [(one.name, one.topic_id, len(one.partitions)) for one in plan.topics] == [("orders", ORDERS, 1)]
    assert plan.notes == [
        "orders-20241101 belong to no partition of Kafka's metadata: the start keeps them aside, as -stray",
        "Kafka's metadata does not have backup, users: no topic is made, and the start keeps the logs aside, as -stray",
    ]


def test_a_log_of_another_topic_id_is_not_the_partition(scene: KraftScene) -> None:
    scene.records(*topic("orders", ORDERS, 2))
    scene.log("orders-0", ORDERS)
    other = scene.log("orders-1", USERS)
    with pytest.raises(lost_metadata.AdoptionError, match="orders-1 are in no directory"):
        scene.plan()
    plan = scene.plan(is_partial=True)
    assert len(plan.topics[0].partitions) == 2
    assert f"orders-1 (topic id {topic_id_text(USERS)}) belong to no partition" in plan.notes[-1]
    checkpoint.write_partition_metadata(FS, str(other), ORDERS)
    assert scene.plan().notes == []


def test_a_future_log_is_not_the_partition_and_the_missing_directory_is_named(scene: KraftScene) -> None:
    elsewhere = TopicId(b"another disk".ljust(16))
    scene.records(*topic("orders", ORDERS, 2), PartitionChangeRecord(partition_id=1, topic_id=ORDERS, directories=[elsewhere]))
    scene.log("orders-0", ORDERS)
    scene.log(f"orders-1.{'a' * 32}-future", ORDERS)
    missing = rf"orders-1 \(of the log directory with directory.id={topic_id_text(elsewhere)}\) are in no directory"
    with pytest.raises(lost_metadata.AdoptionError, match=missing):
        scene.plan()
    scene.log("orders-1", ORDERS)
    assert scene.plan().notes == []


def used_here(scene: KraftScene) -> None:
    (scene.folder / "recovery-point-offset-checkpoint.topic-ids").write_text("")


def test_settings_from_before_this_broker_used_the_directories_are_not_taken(scene: KraftScene) -> None:
    scene.records(
        *topic("orders", ORDERS),
        *topic("users", USERS),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1000"),
        ConfigRecord(resource_type=2, resource_name="users", name="retention.ms", value="1000"),
    )
    again = TopicId(b"made again".ljust(16))
    scene.log("orders-0", again)
    scene.log("users-0", USERS)
    scene.log("later-0", None)
    used_here(scene)
    with pytest.raises(lost_metadata.AdoptionError, match="so the settings of later, orders, users are unknown"):
        scene.plan()
    with pytest.raises(lost_metadata.AdoptionError, match="so the settings of later, users are unknown"):
        scene.plan({"orders": {"retention.ms": "-1"}})
    plan = scene.plan({"orders": {"retention.ms": "-1"}, "users": {}, "later": {}})
    found = {one.name: (one.topic_id, dict(one.configs)) for one in plan.topics}
    assert found["orders"] == (again, {"retention.ms": "-1"})
    assert found["users"] == (USERS, {})
    assert set(found) == {"orders", "users", "later"}


def test_a_topic_that_this_broker_has_compacted_is_not_deleted_by_age(scene: KraftScene) -> None:
    scene.records(*topic("orders", ORDERS))
    scene.log("orders-0", ORDERS)
    (scene.folder / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    assert dict(scene.plan().topics[0].configs) == {}, "a setting of Kafka's that is not out of date counts"
    used_here(scene)
    plan = scene.plan({"orders": {}})
    assert dict(plan.topics[0].configs) == {"cleanup.policy": "compact"}
    assert plan.notes == [
        "orders: cleanup.policy=compact, because the cleaner has worked on it; --configs can name another policy"
    ]
    chosen = scene.plan({"orders": {"cleanup.policy": "delete"}})
    assert dict(chosen.topics[0].configs) == {"cleanup.policy": "delete"}


def test_an_open_transaction_is_named(scene: KraftScene) -> None:
    scene.records(*topic("orders", ORDERS))
    scene.log("orders-0", ORDERS, is_transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    note, advice = scene.plan().notes
    assert advice.startswith("The coordinator of this broker aborts an open transaction")
    assert note.startswith("orders-0: the transaction of producer 7 from offset 0 on has no end")


def test_a_directory_of_the_time_of_zookeeper_gets_its_settings_from_a_file(scene: KraftScene) -> None:
    scene.metadata.rmdir()
    (scene.folder / "meta.properties").write_text("#\nversion=0\nbroker.id=1\ncluster.id=theirs\n")
    scene.log("orders-0", None)
    plan = scene.plan({"orders": {"retention.ms": "-1"}})
    assert [(one.name, dict(one.configs)) for one in plan.topics] == [("orders", {"retention.ms": "-1"})]
    assert not plan.has_kraft
    assert "retention.ms=604800000" in from_kafka.defaults_line(scene.config, plan.topics)
    with pytest.raises(lost_metadata.AdoptionError, match="names users, which the directories do not have"):
        scene.plan({"users": {}})


def test_found_transactions_are_by_partition(scene: KraftScene) -> None:
    scene.log("orders-0", ORDERS, is_transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    with lost_metadata.locked(scene.config, FS, is_dry=True) as directories:
        (one,) = lost_metadata.survey(directories).open_transactions
    assert (one.partition, one.first_offset) == (TopicPartition("orders", 0), Offset(0))


# --- the file of settings ---


DESCRIBED = """Dynamic configs for topic orders are:
  retention.ms=-1 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=-1}
  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:x=y}
  segment.bytes=1 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1}
Dynamic configs for topic users are:
"""
WANTED = {"orders": {"retention.ms": "-1", "cleanup.policy": "compact,delete"}, "users": {}}


@pytest.mark.parametrize(
    "text",
    [
        DESCRIBED,
        "Configs for topic 'orders' are retention.ms=-1,cleanup.policy=compact,delete\nConfigs for topic 'users' are \n",
        '{"orders": {"retention.ms": "-1", "cleanup.policy": "compact,delete"}, "users": {}}',
    ],
)
def test_settings_are_read_as_the_tool_prints_them_and_as_json(text: str) -> None:
    assert parse(text) == WANTED


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("orders=1", "line 1: 'orders=1' is no line"),
        ("{", "the JSON cannot be read"),
        ('{"a": {"b": 1}}', "topic a: its settings"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(text: str, match: str) -> None:
    with pytest.raises(ConfigsFileError, match=match):
        parse(text)


def test_logs_with_topic_ids_whose_metadata_lies_elsewhere_need_settings(scene: KraftScene) -> None:
    scene.metadata.rmdir()
    scene.log("orders-0", ORDERS)
    with pytest.raises(
        lost_metadata.AdoptionError, match=r"metadata.log.dir of Kafka\) too, or give the settings with --configs"
    ):
        scene.plan()
    assert scene.plan({"orders": {"retention.ms": "-1"}}).topics[0].topic_id == ORDERS
    (scene.folder / "recovery-point-offset-checkpoint.topic-ids").write_text("")
    assert scene.plan().topics, "this broker has served the directory: its own metadata is lost"


def test_logs_with_topic_ids_whose_metadata_was_in_zookeeper_need_none(scene: KraftScene) -> None:
    """Kafka from 2.8 to 3.9 writes topic ids with ZooKeeper too, and so does an adoption that was cut short."""
    scene.metadata.rmdir()
    (scene.folder / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=theirs\n")
    scene.log("orders-0", ORDERS)
    assert scene.plan().topics[0].topic_id == ORDERS
