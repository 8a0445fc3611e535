"""Giving directories back to a Kafka: what its metadata gets, what is named, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pybroker.adoption import leaving, lost_metadata
from pybroker.adoption.leaving import Departure, LeavingError
from pybroker.broker.joining import StartError
from pybroker.clock import ManualClock
from pybroker.config.broker import BrokerConfig
from pybroker.log.checkpoints import checkpoint
from pybroker.metadata.config_changes import ConfigChange, Edit, Operation
from pybroker.metadata.directories import directories_key
from pybroker.metadata.entries import CLUSTER_ID_KEY, LEFT_PREFIX
from pybroker.metadata.image import BROKER_KIND, CLIENT_METRICS_KIND, GROUP_KIND, NO_LEADER, ConfigResource
from pybroker.metadata.kraft.reading import metadata_records
from pybroker.metadata.kraft.state import KraftState, state_of
from pybroker.metadata.new_topic import NewTopic
from pybroker.model import BrokerId, TopicId, topic_id_text
from pybroker.protocol.messages.metadata_records import PartitionRecord
from testing.simulation.broker import START_MS, World
from testing.simulation.disk import SimulatedDisk
from testing.simulation.store import StoreContents

DIRECTORIES = ("/a", "/b")
SETTINGS = {
    ConfigResource("topic", "orders"): {"retention.ms": "-1", "retention.granularity": "segment"},
    ConfigResource(BROKER_KIND, "1"): {"log.cleaner.threads": "2", "log.retention.granularity": "segment"},
    ConfigResource(BROKER_KIND, ""): {"log.retention.ms": "5000"},
    ConfigResource(GROUP_KIND, "g"): {"consumer.session.timeout.ms": "50000"},
    ConfigResource(CLIENT_METRICS_KIND, "m"): {"interval.ms": "1000"},
}


class LeavingScene:
    """A broker that has stopped: two topics, and settings of every kind."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(ManualClock(START_MS))
        self.contents = StoreContents()
        for path in DIRECTORIES:
            self.disk.make_directory(path)
        self.config = self.configured()
        self.topics: dict[str, TopicId] = {}
        self.next_producer_id = 0
        self.live(self._fill)

    def configured(self, *log_dirs: str) -> BrokerConfig:
        return BrokerConfig(node_id=BrokerId(1), listeners="PLAINTEXT://127.0.0.1:0", log_dirs=log_dirs or DIRECTORIES)

    def live(self, work: Callable[[Any], None], *, is_stopped: bool = True) -> None:
        world = World(seed=1, disk=self.disk, contents=self.contents)
        with world.process(self.config) as process:
            process.run(process.broker.start())
            work(process)
            if is_stopped:
                process.run(process.broker.stop())

    def _fill(self, process: Any) -> None:
        controller = process.broker.controller
        wanted = [
            NewTopic(name=name, partition_count=count, replication_factor=1, configs={})
            for name, count in (("orders", 3), ("users", 1))
        ]
        process.run(controller.create_topics(wanted))
        changes = [
            ConfigChange(resource=resource, edits=[Edit(name, Operation.SET, value) for name, value in values.items()])
            for resource, values in SETTINGS.items()
        ]
        assert [*process.run(controller.alter_configs(changes))] == [None] * len(changes)
        self.topics = {name: topic.topic_id for name, topic in controller.image.topics.items()}
        self.next_producer_id = process.run(controller.producer_ids.next()) + 1000

    def leave(self, release: str = "3.9", *, is_dry: bool = False) -> Departure:
        with lost_metadata.locked(self.config, self.disk, is_dry=is_dry) as directories:
            return asyncio.run(
                leaving.leave(
                    self.contents.open(), self.config, directories, release=release, clock=ManualClock(START_MS), is_dry=is_dry
                )
            )

    def kraft(self) -> KraftState:
        return state_of(metadata_records(self.disk, "/a/__cluster_metadata-0", was_clean=True))


@pytest.fixture
def scene() -> LeavingScene:
    return LeavingScene()


def test_kafka_gets_topics_settings_levels_and_producer_ids(scene: LeavingScene) -> None:
    departure = scene.leave()
    state = scene.kraft()
    assert {topic.name: topic.topic_id for topic in state.topics.values()} == scene.topics
    assert {topic.name: len(topic.partitions) for topic in state.topics.values()} == {"orders": 3, "users": 1}
    assert {part.replicas for topic in state.topics.values() for part in topic.partitions.values()} == {(1,)}
    assert state.configs == {
        (2, "orders"): {"retention.ms": "-1"},
        (4, "1"): {"log.cleaner.threads": "2"},
        (4, ""): {"log.retention.ms": "5000"},
        (32, "g"): {"consumer.session.timeout.ms": "50000"},
        (16, "m"): {"interval.ms": "1000"},
    }
    assert state.features == {"metadata.version": 21}
    assert state.next_producer_id >= scene.next_producer_id - 1000 + 1, "above every id that was given"
    assert departure.next_producer_id == state.next_producer_id
    assert [note.partition(": a setting is not carried over")[0] for note in departure.notes] == ["orders", "broker 1"]


@pytest.mark.parametrize(
    ("release", "levels"),
    [("4.0", {"metadata.version": 25, "group.version": 1}), ("4.3", {"metadata.version": 30, "group.version": 1})],
)
def test_a_newer_release_gets_its_levels(scene: LeavingScene, release: str, levels: dict[str, int]) -> None:
    scene.leave(release)
    assert scene.kraft().features == levels


def test_partitions_are_in_the_directories_of_their_logs_one_epoch_later(scene: LeavingScene) -> None:
    departure = scene.leave()
    image = departure.image
    for record in departure.records:
        if isinstance(record, PartitionRecord):
            (name,) = [name for name, topic_id in scene.topics.items() if topic_id == record.topic_id]
            (path,) = [path for path in DIRECTORIES if scene.disk.exists(f"{path}/{name}-{record.partition_id}")]
            properties = checkpoint.read_meta_properties(scene.disk, path)
            assert properties is not None
            assert [topic_id_text(TopicId(one)) for one in record.directories] == [properties.directory_id]
            assert (record.leader, record.isr) == (NO_LEADER, [1]), "the controller elects it when the broker has registered"
            assert record.leader_epoch == image.topics[name].partitions[record.partition_id].leader_epoch + 1
    assert (
        len({path for path in DIRECTORIES if scene.disk.exists(f"{path}/orders-0") or scene.disk.exists(f"{path}/users-0")}) == 2
    )


def test_a_dry_run_changes_nothing_and_finds_the_same(scene: LeavingScene) -> None:
    disk, entries = scene.disk.fork(), dict(scene.contents.entries)
    dry = scene.leave(is_dry=True)
    assert [entry.name for entry in scene.disk.list("/a")] == [entry.name for entry in disk.list("/a")]
    assert scene.contents.entries == entries
    assert scene.leave().records == dry.records


def test_the_store_is_new_afterwards_and_keeps_its_entries_aside(scene: LeavingScene) -> None:
    before = dict(scene.contents.entries)
    scene.leave()
    assert {LEFT_PREFIX + key: entry.value for key, entry in before.items()} == {
        key: entry.value for key, entry in scene.contents.entries.items()
    }
    assert not [entry.name for entry in scene.disk.list("/a") if entry.name.endswith(".topic-ids")]
    with pytest.raises(LeavingError, match="has no cluster"):
        scene.leave()
    with pytest.raises(StartError, match="'pybroker leave' gave /a, /b to a Kafka: run 'pybroker adopt' with them"):
        scene.live(lambda _: None)


@pytest.mark.parametrize("step", ["_remove_companions", "_retire"])
@pytest.mark.parametrize("is_started", [False, True], ids=["run again", "the broker ran meanwhile"])
def test_a_command_that_ended_before_a_step_is_finished_by_the_next(
    scene: LeavingScene, monkeypatch: pytest.MonkeyPatch, step: str, *, is_started: bool
) -> None:
    class Killed(BaseException):
        pass

    def end(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(leaving, step, end)
        with pytest.raises(Killed):
            scene.leave()
    if is_started:
        scene.live(lambda _: None)
    assert {topic.name: topic.topic_id for topic in scene.leave().image.topics.values()} == scene.topics
    assert not [entry.name for path in DIRECTORIES for entry in scene.disk.list(path) if entry.name.endswith(".topic-ids")]
    assert CLUSTER_ID_KEY not in scene.contents.entries


def test_metadata_that_was_there_is_kept_aside(scene: LeavingScene) -> None:
    scene.disk.make_directory("/b/__cluster_metadata-0")
    scene.disk.write_file("/b/__cluster_metadata-0/00000000000000000000.log", b"theirs", sync=True)
    (path,) = scene.leave().kept_aside
    assert scene.disk.read_file(f"{path}/00000000000000000000.log") == b"theirs"
    assert path.startswith("/b/__cluster_metadata-0.")
    assert path.endswith("-stray")
    assert not scene.disk.exists("/b/__cluster_metadata-0")


def unclean(scene: LeavingScene) -> None:
    scene.live(lambda _: None, is_stopped=False)


def one_directory(scene: LeavingScene) -> None:
    scene.config = scene.configured("/a")


def two_replicas(scene: LeavingScene) -> None:
    key = "topics/orders"
    entry = scene.contents.entries[key]
    scene.contents.entries[key] = entry._replace(value=entry.value.replace(b'"replicas":[1]', b'"replicas":[1,2]'))


def other_id(scene: LeavingScene) -> None:
    (path,) = [path for path in DIRECTORIES if scene.disk.exists(f"{path}/users-0")]
    checkpoint.write_partition_metadata(scene.disk, f"{path}/users-0", scene.topics["orders"])


def log_gone(scene: LeavingScene) -> None:
    (path,) = [path for path in DIRECTORIES if scene.disk.exists(f"{path}/users-0")]
    scene.disk.remove_tree(f"{path}/users-0")


def log_of_no_topic(scene: LeavingScene) -> None:
    scene.disk.make_directory("/b/what-0")


def moved(scene: LeavingScene) -> None:
    scene.disk.make_directory(f"/b/orders-0.{'0' * 32}-future")


def no_uuid(scene: LeavingScene) -> None:
    properties = checkpoint.read_meta_properties(scene.disk, "/b")
    assert properties is not None
    scene.disk.replace_file(
        "/b/meta.properties",
        scene.disk.read_file("/b/meta.properties").replace(properties.directory_id.encode(), b"abc"),
        sync=True,
    )
    key = directories_key(scene.config.node_id)
    entry = scene.contents.entries[key]
    value = entry.value.replace(properties.directory_id.encode(), b"abc")
    scene.contents.entries[key] = entry._replace(value=value)


def other_cluster(scene: LeavingScene) -> None:
    entry = scene.contents.entries[CLUSTER_ID_KEY]
    scene.contents.entries[CLUSTER_ID_KEY] = entry._replace(value=b"another")


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (unclean, "was not left by a clean stop: start this broker once, which recovers it, and stop it"),
        (one_directory, "^/b of this broker's log directories is not named, or not mounted"),
        (no_uuid, "^/b/meta.properties has directory.id=abc, which is no UUID of Kafka's"),
        (two_replicas, r"orders-0 \(replicas 1,2\).* have replicas on other brokers"),
        (other_id, "users-0 has the topic id .*, and users has"),
        (log_gone, "^users-0 are in no directory"),
        (log_of_no_topic, "^/b/what-0 belongs to no partition"),
        (moved, "-future is moved to another directory"),
        (other_cluster, "The metadata store is that of cluster another"),
    ],
)
def test_what_kafka_could_not_serve_is_refused_and_nothing_changes(
    scene: LeavingScene, spoil: Callable[[LeavingScene], None], match: str
) -> None:
    spoil(scene)
    names = [entry.name for entry in scene.disk.list("/a")]
    entries = dict(scene.contents.entries)
    for is_dry in (True, False):
        with pytest.raises(LeavingError, match=match):
            scene.leave(is_dry=is_dry)
    assert [entry.name for entry in scene.disk.list("/a")] == names
    assert scene.contents.entries == entries


def test_a_running_broker_is_refused(scene: LeavingScene) -> None:
    def work(_: Any) -> None:
        with pytest.raises(lost_metadata.AdoptionError, match="A broker uses the log directories"):
            scene.leave(is_dry=True)

    scene.live(work)
