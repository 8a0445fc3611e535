"""New metadata beside older data: refused, adopted or set aside; and what is known of directories, for administrators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.adoption import known_directories, lost_metadata
from pybroker.broker.old_data import is_in_container, old_data, refusal, why_not_by_names, why_not_start
from pybroker.clock import ManualClock
from pybroker.config.broker import BrokerConfig
from pybroker.config.topic import TopicConfig
from pybroker.log.checkpoints import checkpoint
from pybroker.log.directories.claims import Claims, KnownDirectory
from pybroker.log.directories.directory import LogDirectory
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.metadata.controller import Controller
from pybroker.metadata.directories import directories_key, read_directories, write_directories
from pybroker.metadata.names import OFFSETS_TOPIC
from pybroker.metadata.store.base import StoreError
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition, topic_id_text
from pybroker.records.batch import Record, set_offset_and_epoch
from pybroker.records.build import build_message_set
from testing.scenes.logs import START_MS, Producer, append, batch

FS = Filesystem()
CLUSTER = "the-cluster"
ORDERS, USERS, OFFSETS = (TopicId(name.encode().ljust(16)) for name in ("orders", "users", "offsets"))


class AdoptionScene:
    """Two directories with the logs of three topics, and no metadata."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.folders = [folder / "a", folder / "b"]
        self.config = BrokerConfig(node_id=1, **{"log_dirs": tuple(map(str, self.folders)), **config})
        self.store = MemoryStore()

    def fill(self) -> AdoptionScene:
        logs = self.manager()
        logs.start()
        for topic, topic_id, count in (("orders", ORDERS, 3), ("users", USERS, 1), (OFFSETS_TOPIC, OFFSETS, 2)):
            for number in range(count):
                log = logs.create(TopicPartition(topic, number), topic_id, TopicConfig())
                append(log, batch(5), leader_epoch=number)
        append(logs.create(TopicPartition("orders", 1), ORDERS, TopicConfig()), batch(1, producer=Producer(4711)), leader_epoch=6)
        logs.stop()
        return self

    def manager(self) -> LogManager:
        return LogManager(
            list(self.config.log_dirs),
            cluster_id=CLUSTER,
            node_id=BrokerId(1),
            services=LogServices(clock=ManualClock(START_MS)),
            config_of=lambda _: TopicConfig(),
        )

    async def adopt(self, *, are_gaps_allowed: bool = False, **settings: str) -> Controller:
        with lost_metadata.locked(self.config, FS) as directories:
            found = lost_metadata.survey(directories)
            topics = lost_metadata.topics_of(found, self.config, settings, are_gaps_allowed=are_gaps_allowed)
            await lost_metadata.adopt(self.store, self.config, found, topics)
        controller = Controller(self.store, self.config, broker_id=BrokerId(1))
        await controller.start("not this one")
        return controller

    def strays(self) -> list[str]:
        return sorted(str(stray) for folder in self.folders for stray in folder.glob("*-stray"))

    def folder_of(self, name: str) -> Path:
        (found,) = [one / name for one in self.folders if (one / name).exists()]
        return found


async def test_topics_ids_partitions_and_the_cluster_come_out_of_the_directories(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    retention: dict[str, Any] = {"retention.ms": "-1"}
    controller = await scene.adopt(**retention)
    image = controller.image
    assert image.cluster_id == CLUSTER
    assert {name: (topic.topic_id, len(topic.partitions)) for name, topic in image.topics.items()} == {
        "orders": (ORDERS, 3),
        "users": (USERS, 1),
        OFFSETS_TOPIC: (OFFSETS, 2),
    }
    assert image.topics["orders"].configs == {"retention.ms": "-1"}
    assert image.topics[OFFSETS_TOPIC].configs["cleanup.policy"] == "compact"
    assert "retention.ms" not in image.topics[OFFSETS_TOPIC].configs
    assert await controller.producer_ids.next() == 4712
    epochs = {partition.leader_epoch for topic in image.topics.values() for partition in topic.partitions}
    assert epochs == {7}, "above every epoch of every log"
    assert image.leader_epochs.counter == 7, "and so are those of topics that are made later"
    assert {one.path for one in await read_directories(scene.store, BrokerId(1))} == {str(one) for one in scene.folders}
    assert await why_not_start(scene.store, scene.config, FS) is None


async def test_the_logs_are_taken_as_they_are(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    controller = await scene.adopt()
    logs = scene.manager()
    logs.claim(await read_directories(scene.store, BrokerId(1)))

    def topic_id_of(tp: TopicPartition) -> TopicId | None:
        topic = controller.image.topics.get(tp.topic)
        return None if topic is None else topic.topic_id

    logs.start(topic_id_of)
    assert {str(log.topic_partition): log.log_end_offset for log in logs.all_logs()} == {
        "orders-0": 5,
        "orders-1": 6,
        "orders-2": 5,
        "users-0": 5,
        f"{OFFSETS_TOPIC}-0": 5,
        f"{OFFSETS_TOPIC}-1": 5,
    }
    logs.stop()


async def test_ids_and_epochs_are_found_in_batches_where_snapshots_and_checkpoints_are_damaged(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    for folder in scene.folders:
        for path in [*folder.rglob("*.snapshot"), *folder.rglob("leader-epoch-checkpoint")]:
            path.write_bytes(b"damaged")
    controller = await scene.adopt()
    assert await controller.producer_ids.next() == 4712
    assert controller.image.topics["users"].partitions[0].leader_epoch == 7


async def test_epochs_and_ids_that_no_broker_has_given_do_not_use_up_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The leader epoch is not under the checksum, and a client may send any producer id."""
    scene = AdoptionScene(tmp_path).fill()
    (path,) = scene.folder_of("orders-0").glob("*.log")
    data = bytearray(path.read_bytes())
    set_offset_and_epoch(data, base_offset=Offset(0), leader_epoch=LeaderEpoch(0x7FFFFFFF))
    own = batch(1, producer=Producer(2**63 - 1))
    set_offset_and_epoch(own, base_offset=Offset(5), leader_epoch=LeaderEpoch(0))
    path.write_bytes(data + own)
    epochs = scene.folder_of("users-0") / "leader-epoch-checkpoint"
    epochs.write_text("0\n1\n2147483647 0\n")
    controller = await scene.adopt()
    assert await controller.producer_ids.next() == 4712
    assert controller.image.topics["users"].partitions[0].leader_epoch == 7
    for warning in (
        f"{path}: the batch at offset 0 has the leader epoch 2147483647",
        f"{path}: the batch at offset 5 has the producer id 9223372036854775807",
        f"{epochs}: no election has reached the epoch 2147483647",
    ):
        assert warning in caplog.text


async def test_logs_without_an_id_get_that_of_their_topic(tmp_path: Path) -> None:
    """Adopt such logs of a Kafka before 2.8 that was killed before its first checkpoint: only the name gives their topic."""
    scene = AdoptionScene(tmp_path).fill()
    for name in ("orders-0", "users-0"):
        (scene.folder_of(name) / "partition.metadata").unlink()
    for folder in scene.folders:
        (folder / "recovery-point-offset-checkpoint").unlink()
    controller = await scene.adopt()
    image = controller.image
    assert image.topics["orders"].topic_id == ORDERS
    for name, topic in (("orders-0", "orders"), ("users-0", "users")):
        found = checkpoint.read_partition_metadata(FS, str(scene.folder_of(name)))
        assert found == image.topics[topic].topic_id


async def test_a_topic_that_was_compacted_stays_so(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    checkpoint.write_offsets(FS, f"{scene.folders[0]}/{checkpoint.CLEANER_OFFSET_FILE}", {TopicPartition("users", 0): Offset(3)})
    for folder in scene.folders[1:]:
        checkpoint.write_offsets(FS, f"{folder}/{checkpoint.CLEANER_OFFSET_FILE}", {TopicPartition("users", 0): Offset(3)})
    controller = await scene.adopt()
    assert controller.image.topics["users"].configs == {"cleanup.policy": "compact"}
    assert controller.image.topics["orders"].configs == {}


async def test_missing_partitions_are_refused_unless_they_are_allowed(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    scene.folder_of("orders-1").rename(tmp_path / "elsewhere")
    with pytest.raises(lost_metadata.AdoptionError, match="orders-1 is in no directory, and orders has 3 partitions"):
        await scene.adopt()
    assert (await scene.store.list()).entries == (), "nothing was done"
    controller = await scene.adopt(are_gaps_allowed=True)
    assert len(controller.image.topics["orders"].partitions) == 3


async def test_a_directory_without_meta_properties_beside_others_may_be_a_missing_mount(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    with_logs = next(folder for folder in scene.folders if list(folder.glob("*-*")))
    empty = next(folder for folder in scene.folders if folder is not with_logs)
    empty.rename(tmp_path / "elsewhere")
    empty.mkdir()
    with pytest.raises(lost_metadata.AdoptionError, match=f"{empty} has no meta.properties, like an empty mount point"):
        await scene.adopt()
    await scene.adopt(are_gaps_allowed=True)


async def test_a_kafka_before_2_4_has_noted_no_cluster_id(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    for folder in scene.folders:
        (folder / "meta.properties").write_text("#\nbroker.id=1\nversion=0\n")
    controller = await scene.adopt()
    cluster_id = controller.image.cluster_id
    assert cluster_id != CLUSTER
    assert await why_not_start(scene.store, scene.config, FS) is None
    directories = [LogDirectory(str(folder), FS) for folder in scene.folders]
    Claims([], cluster_id=cluster_id, node_id=BrokerId(1)).claim_all(directories)
    owners = {(one.properties.cluster_id, one.properties.is_complete) for one in directories if one.properties}
    assert owners == {(cluster_id, True)}
    for directory in directories:
        directory.unlock()
    texts = [(folder / "meta.properties").read_text() for folder in scene.folders]
    assert all(f"cluster.id={cluster_id}\n" in text and "version=1\n" in text for text in texts)


async def test_one_directory_without_a_cluster_id_belongs_to_that_of_the_others(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    (scene.folders[1] / "meta.properties").write_text("#\nbroker.id=1\nversion=0\n")
    assert (await scene.adopt()).image.cluster_id == CLUSTER


async def test_of_two_ids_of_a_name_most_logs_decide(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scene = AdoptionScene(tmp_path).fill()
    checkpoint.write_partition_metadata(FS, str(scene.folder_of("orders-2")), USERS)
    with pytest.raises(lost_metadata.AdoptionError, match=r"orders-2 is in no directory with the topic id .*, and orders has 3"):
        await scene.adopt()
    controller = await scene.adopt(are_gaps_allowed=True)
    assert controller.image.topics["orders"].topic_id == ORDERS
    assert f"1 have {topic_id_text(USERS)}; the latter become strays" in caplog.text


async def test_a_copy_that_was_being_moved_is_no_log(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    for name in ("orders-2", "users-0"):
        log = scene.folder_of(name)
        log.rename(log.with_name(f"{name}.{'a' * 32}-future"))
        with pytest.raises(lost_metadata.AdoptionError, match=f"{name} is in no directory"):
            await scene.adopt()
        log.with_name(f"{name}.{'a' * 32}-future").rename(log)
    controller = await scene.adopt()
    assert {name: len(topic.partitions) for name, topic in controller.image.topics.items()} == {
        "orders": 3,
        "users": 1,
        OFFSETS_TOPIC: 2,
    }


async def test_a_directory_that_only_looks_like_a_log_is_refused_in_one_line(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    other = scene.folders[0] / "backup-99999999999"
    other.mkdir()
    for are_gaps_allowed in (False, True):
        with pytest.raises(
            lost_metadata.AdoptionError, match="of which 1 have a log: if that directory is no log of Kafka's, move it"
        ):
            await scene.adopt(are_gaps_allowed=are_gaps_allowed)
    other.rename(other.with_name("backup-200"))
    with pytest.raises(lost_metadata.AdoptionError, match="backup-3, backup-4 and 195 more is in no directory") as refused:
        await scene.adopt()
    assert len(str(refused.value)) < 300


async def test_a_store_that_has_a_cluster_is_not_touched(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    await Controller(scene.store, scene.config, broker_id=BrokerId(1)).start("a-cluster")
    before = (await scene.store.list()).revision
    with pytest.raises(lost_metadata.AdoptionError, match="not new"):
        await scene.adopt()
    with lost_metadata.locked(scene.config, FS) as directories, pytest.raises(lost_metadata.AdoptionError, match="not new"):
        await lost_metadata.set_aside(scene.store, scene.config, directories)
    assert (await scene.store.list()).revision == before
    assert scene.strays() == []


@pytest.mark.parametrize(
    ("properties", "match"),
    [
        ("version=1\ncluster.id=the-cluster\nnode.id=7\n", "different brokers or clusters"),
        ("version=1\ncluster.id=another\nnode.id=1\n", "different brokers or clusters"),
        ("rubbish", "repair or remove that file"),
    ],
)
def test_directories_that_do_not_belong_together_are_refused(tmp_path: Path, properties: str, match: str) -> None:
    scene = AdoptionScene(tmp_path).fill()
    (scene.folders[1] / "meta.properties").write_text(properties)
    with pytest.raises(lost_metadata.AdoptionError, match=match), lost_metadata.locked(scene.config, FS):
        pass


def test_another_broker_s_directories_are_refused_with_its_number(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    scene.config = BrokerConfig(node_id=5, log_dirs=scene.config.log_dirs)
    with (
        pytest.raises(lost_metadata.AdoptionError, match=r"belong to broker 1, but node.id is 5: set node\.id=1"),
        lost_metadata.locked(scene.config, FS),
    ):
        pass


def test_a_running_broker_s_directories_are_refused(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    logs = scene.manager()
    logs.start()
    with pytest.raises(lost_metadata.AdoptionError, match="stop it first"), lost_metadata.locked(scene.config, FS):
        pass
    logs.stop()


async def test_logs_set_aside_leave_a_store_that_starts(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    with lost_metadata.locked(scene.config, FS) as directories:
        kept = await lost_metadata.set_aside(scene.store, scene.config, directories)
    assert len(kept) == 6
    assert sorted(kept) == scene.strays()
    assert await why_not_start(scene.store, scene.config, FS) is None
    controller = Controller(scene.store, scene.config, broker_id=BrokerId(1))
    await controller.start("not this one")
    assert (controller.image.cluster_id, dict(controller.image.topics)) == (CLUSTER, {})
    logs = scene.manager()
    logs.claim(await read_directories(scene.store, BrokerId(1)))
    logs.start(lambda _: None)
    assert list(logs.all_logs()) == []
    logs.stop()


# --- refusing ---


async def test_a_new_store_beside_older_data_is_refused_in_one_line(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path)
    assert await why_not_start(scene.store, scene.config, FS) is None
    scene.fill()
    reason = await why_not_start(scene.store, scene.config, FS)
    assert reason is not None
    assert "\n" not in reason
    assert f"{scene.folders[0]}/metadata.sqlite is new" in reason
    assert f"{scene.folders[1]} has 3 logs of cluster {CLUSTER}" in reason
    assert "pybroker directories adopt" in reason


def test_in_a_container_the_refusal_names_the_volume(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    text = refusal("/metadata/metadata.sqlite", old_data(scene.config.log_dirs, FS), {"PYBROKER_READY_FILE": "/tmp/ready"})
    assert "Mount the volume that had it (this container expects it at /metadata)" in text


def test_a_host_that_ran_kafka_is_no_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pybroker.broker.old_data.CONTAINER_MARKS", (f"{tmp_path}/mark",))
    assert not is_in_container({"KAFKA_HOME": "/opt/kafka", "KAFKA_OPTS": "-Xmx1g"})
    (tmp_path / "mark").touch()
    assert is_in_container({})


@pytest.mark.parametrize("sign", ["metadata", "unused", "old format"])
async def test_the_directories_of_a_kafka_are_refused_with_the_command_that_takes_its_settings(tmp_path: Path, sign: str) -> None:
    scene = AdoptionScene(tmp_path).fill()
    assert await why_not_by_names(scene.store, scene.config, FS) is None, "they are this broker's"
    if sign == "metadata":
        (scene.folders[1] / "__cluster_metadata-0").mkdir()
        why = f"Kafka's metadata lies in {scene.folders[1]}/__cluster_metadata-0"
    elif sign == "unused":
        for path in [one for folder in scene.folders for one in (*folder.glob("*.topic-ids"), *folder.glob(".reserve"))]:
            path.unlink()
        why = "no file there is one that only pybroker writes"
    else:
        path = scene.folder_of("users-0") / "00000000000000000000.log"
        path.write_bytes(build_message_set([Record(Offset(0), 0, b"k", b"v")], magic=1))
        why = f"{path} has messages of format 1 at byte 0"
    refused = await why_not_by_names(scene.store, scene.config, FS)
    reason = await why_not_start(scene.store, scene.config, FS)
    assert reason is not None
    assert refused is not None
    assert f"{scene.folders[1]} has 3 logs of cluster {CLUSTER}" in reason
    for text in (reason, refused):
        assert "\n" not in text
        assert f"These are the directories of an Apache Kafka: {why}." in text
        assert f"'pybroker adopt {' '.join(scene.config.log_dirs)}'" in text
        assert "directories adopt" not in text


def test_a_start_names_messages_of_an_old_format_in_one_line_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scene = AdoptionScene(tmp_path).fill()
    path = scene.folder_of("users-0") / "00000000000000000000.log"
    path.write_bytes(build_message_set([Record(Offset(0), 0, b"k", b"v")], magic=1))
    for folder in scene.folders:
        (folder / checkpoint.CLEAN_SHUTDOWN_FILE).unlink()
    logs = scene.manager()
    logs.start()
    (record,) = [one for one in caplog.records if "cannot be opened" in one.getMessage()]
    assert f"{path} has messages of format 1 at byte 0" in record.getMessage()
    assert "run 'pybroker adopt'" in record.getMessage()
    assert not record.exc_info
    logs.stop()


async def test_meta_properties_alone_are_older_data_and_strays_are_not(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path)
    scene.folders[0].mkdir()
    (scene.folders[0] / "orders-0.0123456789abcdef0123456789abcdef-stray").mkdir()
    (scene.folders[0] / "__cluster_metadata-0").mkdir()
    assert await why_not_start(scene.store, scene.config, FS) is None
    (scene.folders[0] / "meta.properties").write_text("damaged")
    assert await why_not_start(scene.store, scene.config, FS) is not None


@pytest.mark.parametrize("is_asked", [True, False])
async def test_memory_beside_logs_is_refused_unless_it_was_asked_for(tmp_path: Path, *, is_asked: bool) -> None:
    scene = AdoptionScene(tmp_path, metadata_store="memory:", metadata_memory_set_logs_aside=is_asked)
    scene.manager().start()
    assert await why_not_start(scene.store, scene.config, FS) is None, "no logs"
    scene = AdoptionScene(tmp_path / "filled", metadata_store="memory:", metadata_memory_set_logs_aside=is_asked).fill()
    reason = await why_not_start(scene.store, scene.config, FS)
    assert (reason is None) is is_asked
    assert reason is None or "KAFKA_METADATA_MEMORY_SET_LOGS_ASIDE=true" in reason


# --- the store's entry ---


async def test_what_is_known_of_directories_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = MemoryStore()
    known = [
        KnownDirectory(directory_id="b", path="/b", is_away=True),
        KnownDirectory(directory_id="a", path=str(tmp_path), is_forgotten=True),
    ]
    assert await read_directories(store, BrokerId(1)) == []
    await write_directories(store, BrokerId(1), known)
    revision = (await store.list()).revision
    await write_directories(store, BrokerId(1), reversed(known))
    assert (await store.list()).revision == revision, "no change is no commit"
    assert await read_directories(store, BrokerId(1)) == sorted(known, key=lambda one: one.directory_id)
    assert await read_directories(store, BrokerId(2)) == []
    for damage in (b"", b"[]", b'{"directories": {"a": {}}}', b'{"directories": 1}'):
        await store.commit(puts={directories_key(BrokerId(1)): damage})
        with pytest.raises(StoreError, match="directories/1 cannot be read"):
            await read_directories(store, BrokerId(1))


async def test_directories_are_described_and_given_up(tmp_path: Path) -> None:
    scene = AdoptionScene(tmp_path).fill()
    (a, b) = (checkpoint.read_meta_properties(FS, str(one)) for one in scene.folders)
    assert a is not None
    assert b is not None
    known = [
        KnownDirectory(directory_id=a.directory_id, path="/where/it/was"),
        KnownDirectory(directory_id="gone", path=str(tmp_path / "c")),
        KnownDirectory(directory_id="left", path="/elsewhere"),
    ]
    await write_directories(scene.store, BrokerId(1), known)
    config = BrokerConfig(node_id=1, log_dirs=(*scene.config.log_dirs, str(tmp_path / "c")))
    described = await known_directories.described(scene.store, config, FS)
    assert sorted(described) == sorted(
        [
            (a.directory_id, str(scene.folders[0]), "present", "3"),
            ("gone", str(tmp_path / "c"), "missing", "-"),
            ("left", "/elsewhere", "away", "-"),
            (b.directory_id, str(scene.folders[1]), "new", "3"),
        ]
    )
    with pytest.raises(known_directories.ForgetError, match="is not lost"):
        await known_directories.forget(scene.store, config, FS, a.directory_id)
    with pytest.raises(known_directories.ForgetError, match="Directory nobody is not known"):
        await known_directories.forget(scene.store, config, FS, "nobody")
    await known_directories.forget(scene.store, config, FS, "gone")
    assert ("gone", str(tmp_path / "c"), "forgotten", "-") in await known_directories.described(scene.store, config, FS)
