"""Log directories that older releases of Apache Kafka have filled, and what Kafka served of them before it ended.

For each of `NAMES`, `golden/directories/NAME.tar.xz` has the log directories, `served.json` and the output of `kafka-configs`.
This makes them again with the real releases, and compares what they serve with what the files in the repository have:

    python -m integration.adoption.old_directories [--write]

Without `--write`, the files stay as they are. Timestamps that Kafka itself gave are not compared.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from integration.adoption.kafka_directory import KafkaDirectory, consume_and_commit, kafka_directory, transaction
from integration.adoption.zookeeper_kafka import ZooKeeperKafka, zookeeper_kafka
from testing.waiting import until

FOLDER: Final = Path(__file__).parent / "golden" / "directories"
NAMES: Final = {
    "kafka-2.0.1-format-0.10.2-stopped": "2.0.1",
    "kafka-2.0.1-killed": "2.0.1",
    "kafka-2.8.2-stopped": "2.8.2",
    "kafka-3.3.2-killed": "3.3.2",
    "kafka-4.3.1-stopped": "4.3.1",
}
TIMEOUT_S: Final = 60
START_MS: Final = 1_600_000_000_000
SMALL: Final = {"segment.bytes": "1500", "retention.ms": "-1"}
COMPACT: Final = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
OLD_TOPICS: Final[dict[str, dict[str, str]]] = {
    "magic0": SMALL | {"message.format.version": "0.9.0"},
    "magic1": SMALL | {"message.format.version": "0.10.2"},
    "stamped1": SMALL | {"message.format.version": "0.10.2", "message.timestamp.type": "LogAppendTime"},
    "compacted0": COMPACT | {"message.format.version": "0.9.0"},
    "compacted1": COMPACT | {"message.format.version": "0.10.2"},
    "mixed": SMALL | {"message.format.version": "0.9.0"},
}
TOPICS: Final[dict[str, dict[str, str]]] = {
    "plain": SMALL,
    "stamped": SMALL | {"message.timestamp.type": "LogAppendTime"},
    "compacted": COMPACT,
    "shortened": SMALL,
}
SPARING: Final = {
    "log.index.size.max.bytes": "4096",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
FORMAT: Final = {"log.message.format.version": "0.10.2", "inter.broker.protocol.version": "0.10.2"}
SHORTENED_TO: Final = 23
PARTITIONS: Final = 2
MODERN: Final = "modern"
"""A KIP-848 group."""
GROUPS: Final = ("readers", "by-hand", "by-transaction")
Kafka = KafkaDirectory | ZooKeeperKafka


def codecs_of(release: str) -> tuple[str, ...]:
    return ("none", "gzip", "snappy", "lz4") if release == "2.0.1" else ("none", "gzip", "snappy", "lz4", "zstd")


def of_release(config: Mapping[str, str], release: str) -> dict[str, str]:
    """Return settings that give small segments: Kafka 4 refuses a small size."""
    if not release.startswith("4"):
        return dict(config)
    return {"segment.ms": "50", **{name: value for name, value in config.items() if name != "segment.bytes"}}


# --- filling ---


def fill(kafka: Kafka, name: str) -> None:
    """Write to every topic in every codec, delete records, wait for the cleaner, commit offsets."""
    release = NAMES[name]
    is_old_format = "-format-" in name
    topics = {topic: of_release(config, release) for topic, config in TOPICS.items()}
    if not is_old_format and isinstance(kafka, ZooKeeperKafka):
        topics |= OLD_TOPICS
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    new = [NewTopic(one, PARTITIONS, 1, config=config) for one, config in {**topics, "gone": {}}.items()]
    for future in admin.create_topics(new).values():
        future.result(TIMEOUT_S)
    formats = ["0.9.0", "0.10.2", "2.0"]
    for turn in range(3):
        for codec in codecs_of(release):
            for one in [*topics, *(["gone"] if not turn else [])]:
                is_old = is_old_format or "message.format.version" in topics.get(one, {})
                if not is_old or codec != "zstd":  # which Kafka refuses for them
                    write(kafka.bootstrap, one, codec, turn=turn, has_headers=not is_old)
        if "mixed" in topics and turn < 2:
            set_config(kafka, "mixed", topics["mixed"] | {"message.format.version": formats[turn + 1]})
    deletions = admin.delete_records([TopicPartition("shortened", 0, SHORTENED_TO)])
    for deletion in deletions.values():
        deletion.result(TIMEOUT_S)
    for future in admin.delete_topics(["gone"]).values():
        future.result(TIMEOUT_S)
    consume_and_commit(kafka.bootstrap, "readers", "plain", 20, protocol="classic")
    if release.startswith("4"):
        consume_and_commit(kafka.bootstrap, MODERN, "plain", 20, protocol="consumer")
    commit(kafka.bootstrap, "by-hand", "shortened", {0: 25, 1: 3})
    compacted = [one for one, config in topics.items() if "cleanup.policy" in config]
    until(lambda: all(is_cleaned(kafka, one) for one in compacted), "the cleaner has worked", TIMEOUT_S)


def write(bootstrap: str, topic: str, codec: str, *, turn: int, has_headers: bool) -> None:
    """Write batches of three records to both partitions."""
    errors: list[KafkaError] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 500, "batch.num.messages": 3})
    for batch in range(2):
        for number in range(3):
            for partition in range(PARTITIONS):
                producer.produce(
                    topic,
                    None if number == 1 and batch and "compacted" in topic else f"{codec} {turn} {batch} {number} ".encode() * 9,
                    key=f"key {batch + number}".encode(),
                    partition=partition,
                    timestamp=START_MS + 1000 * turn + 100 * batch - number,
                    headers=[("name", codec.encode()), ("empty", None)] if has_headers else None,
                    on_delivery=note,
                )
        assert producer.flush(TIMEOUT_S) == 0
        assert not errors, (topic, codec, turn, errors)


def set_config(kafka: Kafka, topic: str, config: Mapping[str, str]) -> None:
    """Set all settings of a topic; brokers before 2.3 cannot set one alone."""
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    if kafka.release.startswith("2.0"):
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config=dict(config))
        futures = admin.alter_configs([resource])
    else:
        futures = admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)])
    for future in futures.values():
        future.result(TIMEOUT_S)


def is_cleaned(kafka: Kafka, topic: str) -> bool:
    texts = [path.read_text() for folder in kafka.log_dirs for path in folder.glob("cleaner-offset-checkpoint")]
    lines = [line.split() for text in texts for line in text.splitlines()]
    found = {line[1]: int(line[2]) for line in lines if line[0] == topic}
    bases = {
        path.name.rpartition("-")[2]: max(int(one.stem) for one in path.glob("*.log"))
        for folder in kafka.log_dirs
        for path in folder.glob(f"{topic}-?")
    }
    return bases == found


def commit(bootstrap: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(
        offsets=[TopicPartition(topic, partition, offset, metadata="by hand") for partition, offset in offsets.items()],
        asynchronous=False,
    )
    consumer.close()


# --- what a broker serves ---


def served(bootstrap: str, groups: Sequence[str]) -> dict[str, Any]:
    """Return everything that clients see: records by partition, the ends, committed offsets of the groups."""
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=TIMEOUT_S).topics
    places = [
        TopicPartition(name, number)
        for name in sorted(topics)
        if not name.startswith("__")
        for number in sorted(topics[name].partitions)
    ]
    everything, stable = (read_all(bootstrap, places, isolation) for isolation in ("read_uncommitted", "read_committed"))
    found = {
        name: {
            "low": low,
            "high": high,
            "records": records,
            "stable": stable[name][1],
            "committed": [one[0] for one in stable[name][2]],
        }
        for name, (low, high, records) in everything.items()
    }
    return {"partitions": found, "groups": {group: committed(bootstrap, group) for group in groups}}


def read_all(bootstrap: str, places: Sequence[TopicPartition], isolation: str) -> dict[str, tuple[int, int, list[list[Any]]]]:
    """Return of each partition the offsets where it begins and ends, and the records that a consumer gets."""
    options = {"enable.partition.eof": True, "isolation.level": isolation, "enable.auto.commit": False, "check.crcs": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "served", **options})
    found: dict[str, tuple[int, int, list[list[Any]]]] = {}
    for one in places:
        low, high = consumer.get_watermark_offsets(one, TIMEOUT_S)
        found[f"{one.topic}-{one.partition}"] = (low, high, [])
    consumer.assign([TopicPartition(one.topic, one.partition, found[f"{one.topic}-{one.partition}"][0]) for one in places])
    unread = set(found)
    while unread:
        message: Message | None = consumer.poll(TIMEOUT_S)
        assert message is not None, f"{sorted(unread)} have no more records, and no end"
        name, error = f"{message.topic()}-{message.partition()}", message.error()
        if error is None:
            found[name][2].append(fields_of(message))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            unread.discard(name)
    consumer.close()
    return found


def fields_of(message: Message) -> list[Any]:
    """Return offset, kind of timestamp, timestamp, key, value and headers. Old formats and their conversion have no timestamp."""
    kind, timestamp = message.timestamp()
    names = {TIMESTAMP_CREATE_TIME: "CreateTime", TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime"}
    time = [names[kind], timestamp] if kind in names and timestamp >= 0 else [None, None]
    headers = [[name, text(value)] for name, value in message.headers() or []]
    return [message.offset(), *time, text(message.key()), text(message.value()), headers]


def text(data: bytes | str | None) -> str | None:
    return data if data is None or isinstance(data, str) else data.decode("latin-1")


def committed(bootstrap: str, group: str) -> dict[str, list[Any]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    wanted = [TopicPartition(topic, number) for topic in ("plain", "shortened", "orders") for number in range(PARTITIONS)]
    found = consumer.committed(wanted, TIMEOUT_S)
    consumer.close()
    return {f"{one.topic}-{one.partition}": [one.offset, one.metadata or ""] for one in found}


def without_times(contents: dict[str, Any]) -> dict[str, Any]:
    """Return what a broker serves without the times that differ with every run."""
    contents = json.loads(json.dumps(contents))
    for name, partition in contents["partitions"].items():
        for one in partition["records"]:
            if one[1] == "LogAppendTime" or name.startswith(("tx-", "orders-")):
                one[2] = 0
    for group in {"readers", MODERN} & contents["groups"].keys():  # which partition a consumer reads first differs, too
        contents["groups"][group] = sum(max(offset, 0) for offset, _ in contents["groups"][group].values())
    return contents


# --- making ---


def make(name: str, folder: Path) -> tuple[Kafka, dict[str, Any]]:
    """Fill the log directories `name` below `folder` with the real release; return what it served, and the settings' text."""
    release = NAMES[name]
    if release.startswith("2"):
        with zookeeper_kafka(folder, release, FORMAT if "-format-" in name else None) as kafka:
            return kafka, work(kafka, name)
    with kafka_directory(folder, release, SPARING) as kraft:
        return kraft, work(kraft, name)


def work(kafka: Kafka, name: str) -> dict[str, Any]:
    fill(kafka, name)
    hanging = None
    if "-format-" not in name:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        new = [NewTopic(one, PARTITIONS, 1, config={"retention.ms": "-1"}) for one in ("tx", "orders")]
        for future in admin.create_topics(new).values():
            future.result(TIMEOUT_S)
        transaction(kafka.bootstrap, "committed", Producer.commit_transaction)
        transaction(kafka.bootstrap, "aborted", Producer.abort_transaction)
        hanging = transaction(kafka.bootstrap, "open", None)
    contents = served(kafka.bootstrap, [*GROUPS, *([MODERN] if NAMES[name].startswith("4") else [])])
    if isinstance(kafka, ZooKeeperKafka):
        (kafka.folder / "configs.txt").write_text(configs_of(kafka))
    kafka.kill() if name.endswith("killed") else kafka.stop()
    if hanging is not None:
        hanging.purge()
    (kafka.folder / "served.json").write_text(json.dumps(contents, separators=(",", ":")))
    return contents


def configs_of(kafka: ZooKeeperKafka) -> str:
    where = ["--zookeeper", kafka.zookeeper] if kafka.release.startswith("2.0") else ["--bootstrap-server", kafka.bootstrap]
    return kafka.tool("kafka.admin.ConfigCommand", *where, "--describe", "--entity-type", "topics")


def pack(kafka: Kafka, target: Path) -> None:
    """Write what belongs to the directories into an archive. Folders of topics that are being deleted are left out."""
    target.parent.mkdir(parents=True, exist_ok=True)

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(target, "w:xz", preset=9) as archive:
        for path in (*kafka.log_dirs, kafka.folder / "served.json", kafka.folder / "configs.txt"):
            if path.exists():
                archive.add(path, path.name, filter=plain)


def unpack(name: str, folder: Path) -> dict[str, Any]:
    """Unpack the archive `name` into `folder`, and return what Kafka served."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    contents: dict[str, Any] = json.loads((folder / "served.json").read_text())
    return contents


def main() -> None:
    """Make all directories again, and compare them."""
    is_writing, differing = "--write" in sys.argv[1:], []
    chosen = [one for one in sys.argv[1:] if not one.startswith("--")] or NAMES
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            kafka, contents = make(name, Path(folder) / "made")
            if is_writing:
                pack(kafka, FOLDER / f"{name}.tar.xz")
                print(f"{name}: written, {(FOLDER / f'{name}.tar.xz').stat().st_size} bytes")
            elif without_times(contents) != without_times(unpack(name, Path(folder) / "golden")):
                differing.append(name)
                print(f"{name}: differs")
            else:
                print(f"{name}: the same")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
