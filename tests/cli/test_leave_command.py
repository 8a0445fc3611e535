"""`pybroker leave` as a command: what it prints, and that the directories are Kafka's afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pybroker.adoption.leaving import DEFAULT_RELEASE, RELEASES
from pybroker.cli import adopt_command, directories_command, leave_command
from pybroker.log.checkpoints import checkpoint
from pybroker.log.files.filesystem import Filesystem
from pybroker.metadata.entries import CLUSTER_ID_KEY, encode_topic, topic_key
from pybroker.metadata.image import PartitionImage, TopicImage
from pybroker.metadata.store.sqlite import SqliteStore
from pybroker.model import BrokerId, LeaderEpoch, TopicId
from testing.scenes.logs import batch

FS = Filesystem()
ORDERS = TopicId(b"orders".ljust(16))
DIRECTORY_ID = "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a directory that a broker has left by a clean stop, with the topic `orders`."""
    path = tmp_path / "data"
    log = path / "orders-0"
    log.mkdir(parents=True)
    (log / "00000000000000000000.log").write_bytes(batch(3))
    checkpoint.write_partition_metadata(FS, str(log), ORDERS)
    (path / "meta.properties").write_text(f"version=1\ncluster.id=ours\nnode.id=7\ndirectory.id={DIRECTORY_ID}\n")
    checkpoint.write_clean_shutdown(FS, str(path))
    partition = PartitionImage(
        leader=BrokerId(7), leader_epoch=LeaderEpoch(3), replicas=(BrokerId(7),), isr=(BrokerId(7),), partition_epoch=0
    )
    topic = TopicImage(
        name="orders",
        topic_id=ORDERS,
        partitions=(partition,),
        configs={"retention.ms": "-1", "retention.granularity": "segment"},
    )

    async def fill() -> None:
        store = SqliteStore.open(path / "metadata.sqlite")
        await store.commit(puts={CLUSTER_ID_KEY: b"ours", topic_key("orders"): encode_topic(topic)})
        await store.close()

    asyncio.run(fill())
    return path


def leave(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(leave_command.command, [str(folder), *options])


def test_the_report_names_what_kafka_gets_and_what_it_does_not(folder: Path) -> None:
    dry = leave(folder, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert not (folder / "__cluster_metadata-0").exists()
    real = leave(folder)
    assert real.output == dry.output.replace("would be given back; nothing was changed", "given back")
    topic, note, done, start, *properties = real.output.splitlines()
    assert topic == "orders: id=b3JkZXJzICAgICAgICAgIA partitions=1 retention.granularity=segment retention.ms=-1"
    assert note.startswith(
        "Note: orders: a setting is not carried over, because Kafka does not have it: retention.granularity=segment"
    )
    assert done == (
        "1 topics given back; Kafka 3.9 or newer reads them (metadata.version has the level 21); the next producer id is 0"
    )
    assert start.startswith("Start Kafka with these properties")
    assert [line.strip() for line in properties] == [
        "process.roles=broker,controller",
        "node.id=7",
        "controller.quorum.voters=7@localhost:9093",
        f"log.dirs={folder}",
        f"metadata.log.dir={folder}",
    ]


def test_paths_in_the_properties_are_absolute(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    result = leave(Path(folder.name), "--dry-run")
    assert result.exit_code == 0, result.output
    assert {f"log.dirs={folder}", f"metadata.log.dir={folder}"} <= {line.strip() for line in result.output.splitlines()}


def test_only_adopt_takes_the_directories_back(folder: Path) -> None:
    assert leave(folder).exit_code == 0
    again = leave(folder)
    assert again.exit_code == 1
    assert "has no cluster" in again.output
    by_names = CliRunner().invoke(directories_command.command, ["adopt", "--data-dir", str(folder), "--override", "node.id=7"])
    assert by_names.exit_code == 1
    assert "use 'pybroker adopt'" in by_names.output
    adopted = CliRunner().invoke(adopt_command.command, [str(folder)])
    assert adopted.exit_code == 0, adopted.output
    assert "orders: id=b3JkZXJzICAgICAgICAgIA partitions=1 retention.granularity=segment retention.ms=-1" in adopted.output


def test_kafka_is_locked_out_from_the_adoption_to_the_next_leave(folder: Path) -> None:
    metadata = folder / "__cluster_metadata-0"
    assert leave(folder).exit_code == 0
    theirs = sorted(path.name for path in metadata.iterdir())
    dry = CliRunner().invoke(adopt_command.command, [str(folder), "--dry-run"])
    assert metadata.is_dir()
    adopted = CliRunner().invoke(adopt_command.command, [str(folder)])
    assert adopted.output == dry.output.replace("would be adopted; nothing was changed", "adopted")
    assert f"{metadata} gets the name {metadata}.<32 hex digits>-stray, and no KRaft Kafka starts" in adopted.output
    (kept,) = folder.glob("__cluster_metadata-0.*-stray")
    assert sorted(path.name for path in kept.iterdir()) == theirs
    assert "pybroker has taken over" in metadata.read_text()
    again = CliRunner().invoke(adopt_command.command, [str(folder)])
    assert (again.exit_code, "already has a cluster" in again.output) == (1, True)

    kept.rename(metadata.with_name("copy"))  # an adoption that ended before its last steps
    metadata.unlink()
    metadata.with_name("copy").rename(metadata)
    completed = CliRunner().invoke(adopt_command.command, [str(folder)])
    assert completed.exit_code == 0, completed.output
    assert metadata.is_file()

    checkpoint.write_clean_shutdown(FS, str(folder))
    left = leave(folder)
    assert left.exit_code == 0, left.output
    assert "kept in" not in left.output, "the file is no metadata of Kafka's"
    assert metadata.is_dir()
    assert len([*folder.glob("__cluster_metadata-0.*")]) == 1


def test_the_releases_are_those_that_have_a_level() -> None:
    (option,) = [one for one in leave_command.command.params if one.name == "release"]
    assert tuple(option.type.choices) == RELEASES  # type: ignore[attr-defined]
    assert option.default == DEFAULT_RELEASE
