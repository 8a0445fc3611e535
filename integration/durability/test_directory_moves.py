"""Kafka's tool moves a partition between two data directories of a broker, which serves it meanwhile, through `kill -9` too."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from testing.clients.stock import create_topic
from testing.process.broker import BrokerProcess, is_kafka
from testing.process.tool_runner import ToolRunner

pytestmark = [
    pytest.mark.skipif(shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs Java, and Maven for the jars"),
    pytest.mark.skipif(is_kafka(), reason="looks into our data directories"),
]

TOPIC, TIMEOUT_S = "moving", 90
VALUE = bytes(10_000)


class MoveScene:
    """A broker with two directories, a producer that never stops, and the tools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.directories = [folder / "one", folder / "two"]
        self.broker = BrokerProcess(folder)
        self.broker.data_dir = Path(",".join(map(str, self.directories)))
        self.broker.start()
        self.tools = ToolRunner("3.9.2", folder)
        create_topic(self.broker.bootstrap, TOPIC)
        self.acknowledged: list[int] = []
        self.producer = Producer({"bootstrap.servers": self.broker.bootstrap, "acks": "all", "enable.idempotence": True})
        (self.source,) = [one for one in self.directories if (one / f"{TOPIC}-0").is_dir()]
        (self.target,) = [one for one in self.directories if one != self.source]

    def produce(self, count: int) -> None:
        def acknowledged(error: object, message: Any) -> None:
            assert error is None
            self.acknowledged.append(int(message.key()))

        first = len(self.acknowledged)
        for number in range(first, first + count):
            self.producer.produce(TOPIC, VALUE, str(number), on_delivery=acknowledged)
            self.producer.poll(0)
        assert self.producer.flush(TIMEOUT_S) == 0

    def move(self, verb: str) -> str:
        wanted = {"topic": TOPIC, "partition": 0, "replicas": [1], "log_dirs": [str(self.target)]}
        (self.folder / "move.json").write_text(json.dumps({"version": 1, "partitions": [wanted]}))
        server = ("--bootstrap-server", self.broker.bootstrap)
        ran = self.tools.run("reassign-partitions", *server, verb, "--reassignment-json-file", "move.json")
        assert ran.code == 0, ran.out + ran.err
        return ran.out

    def described(self) -> dict[str, list[dict[str, Any]]]:
        """Return what the tool prints about the topic in each directory."""
        ran = self.tools.run("log-dirs", "--bootstrap-server", self.broker.bootstrap, "--describe", "--topic-list", TOPIC)
        (broker,) = json.loads(ran.out.splitlines()[-1])["brokers"]
        return {one["logDir"]: one["partitions"] for one in broker["logDirs"]}

    def wait_until_moved(self) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while self.described()[str(self.source)]:
            assert time.monotonic() < deadline, self.broker.log_text[-2000:]
            self.produce(20)
        assert [one["isFuture"] for one in self.described()[str(self.target)]] == [False]

    def read(self) -> list[int]:
        """Return everything that a consumer gets."""
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "g", "enable.auto.commit": "false"})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        keys: list[int] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(keys) < len(self.acknowledged) and time.monotonic() < deadline:
            keys += [int(message.key()) for message in consumer.consume(500, 1) if message.error() is None]
        consumer.close()
        return keys

    def close(self) -> None:
        self.tools.close()
        self.broker.close()


@pytest.fixture
def scene(tmp_path: Path, start_broker: Callable[..., BrokerProcess]) -> Iterator[MoveScene]:
    scene = MoveScene(tmp_path)
    yield scene
    scene.close()


def test_a_partition_moves_while_clients_use_it(scene: MoveScene) -> None:
    scene.produce(3000)
    assert f"Successfully started partition reassignment for {TOPIC}-0" in scene.move("--execute")
    scene.wait_until_moved()
    assert f"Reassignment of replica {TOPIC}-0-1 completed successfully." in scene.move("--verify")
    assert scene.read() == scene.acknowledged
    assert not (scene.source / f"{TOPIC}-0").exists()
    scene.broker.stop()
    scene.broker.start()
    scene.produce(10)
    assert scene.read() == scene.acknowledged


@pytest.mark.parametrize("delay_s", [0.02, 0.15])
def test_kill_9_during_a_move_loses_nothing(scene: MoveScene, delay_s: float) -> None:
    scene.produce(3000)
    scene.move("--execute")
    time.sleep(delay_s)  # at some moment of the move, or just after it
    scene.broker.kill()
    scene.broker.start()
    assert scene.read() == scene.acknowledged
    scene.move("--execute")
    scene.wait_until_moved()
    assert scene.read() == scene.acknowledged
