"""The first fetches after a start see all that was acknowledged, however long the disk takes for the rest of its work."""

from __future__ import annotations

import functools

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.log.log import Log
from pybroker.metadata.config_changes import TOPIC_KIND, ConfigChange, Edit, Operation
from pybroker.metadata.image import ConfigResource
from pybroker.metadata.new_topic import NewTopic
from pybroker.model import BrokerId, TopicPartition
from testing.scenes.logs import append, batch
from testing.simulation.broker import Process, World
from testing.simulation.loop import SimulatedDiskThread

DIRECTORIES = ("/a", "/b")
PARTITIONS = 4
MANY = 500


@functools.cache
def config() -> BrokerConfig:
    return BrokerConfig(node_id=BrokerId(1), listeners="PLAINTEXT://127.0.0.1:0", log_dirs=DIRECTORIES)


def world() -> World:
    made = World(seed=1)
    for path in DIRECTORIES:
        made.disk.make_directory(path)
    made.disk.sync_all()
    return made


def high_watermarks(process: Process) -> dict[TopicPartition, int | None]:
    replicas = process.broker.replica_manager
    return {log.topic_partition: replicas.high_watermark(log.topic_partition) for log in process.broker.log_manager.all_logs()}


def ends(process: Process) -> dict[TopicPartition, int | None]:
    return {log.topic_partition: log.log_end_offset for log in process.broker.log_manager.all_logs()}


def set_flush_messages(process: Process, topic: str) -> None:
    edits = [Edit("flush.messages", Operation.SET, "1")]
    changes = [ConfigChange(resource=ConfigResource(TOPIC_KIND, topic), edits=edits)]
    assert list(process.run(process.broker.controller.alter_configs(changes))) == [None]


def create(process: Process, topic: str, count: int, **configs: str) -> None:
    dotted = {name.replace("_", "."): value for name, value in configs.items()}
    (outcome,) = process.run(
        process.broker.controller.create_topics([NewTopic(name=topic, partition_count=count, configs=dotted)])
    )
    assert outcome.error is None


@pytest.mark.parametrize("flush_messages", ["1", "3", str(2**63 - 1)])
@pytest.mark.parametrize("is_kill", [True, False], ids=["kill", "stop"])
def test_a_fetch_right_after_a_start_sees_every_record(
    flush_messages: str, is_kill: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk does nothing any more from the moment on at which the sockets open."""
    made = world()
    with made.process(config()) as process:
        process.run(process.broker.start())
        create(process, "t", PARTITIONS, flush_messages=flush_messages)
        for log in process.broker.log_manager.all_logs():
            for _ in range(4):
                append(log, batch(1))
        if not is_kill:
            process.run(process.broker.stop())
    with made.process(config()) as process:
        monkeypatch.setattr(SimulatedDiskThread, "work", lambda _: None)
        process.run(process.broker.start())
        assert set(ends(process).values()) == {4}
        assert high_watermarks(process) == ends(process)
        monkeypatch.undo()
        if flush_messages == "1":
            made.disk.crash()
    with made.process(config()) as process:
        process.run(process.broker.start())
        if flush_messages == "1" or not is_kill:
            assert set(ends(process).values()) == {4}, "what a fetch has seen is durable"
        process.run(process.broker.stop())


def test_a_setting_is_in_force_in_every_partition_when_its_change_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The change of many partitions is followed in slices, of which each is one step here."""
    monkeypatch.setattr("pybroker.sharing.work.SLICE_S", -1.0)
    made = world()
    with made.process(config()) as process:
        process.run(process.broker.start())
        create(process, "t", MANY)
        set_flush_messages(process, "t")
        logs: list[Log] = list(process.broker.log_manager.all_logs())
        assert len(logs) == MANY
        assert {log.config.flush_messages for log in logs} == {1}
        process.run(process.broker.stop())
