"""Consumers of one partition each that report what they read and whether they noticed lost records: librdkafka and Java.

A watcher has one consumer per topic, in a group with the name of the topic and with an `auto.offset.reset` of its own. The
consumer begins at the group's committed offset and leader epoch, or at the beginning of the partition.
"""

from __future__ import annotations

import contextlib
import copy
import json
import queue
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import confluent_kafka

from testing.places import JAVA_SOURCES
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath
from testing.waiting import WAIT_S, joined

PROGRAM = JAVA_SOURCES / "EpochWatcher.java"
TIMEOUT_S = 60
JAVA_RELEASE = "3.9.2"


class Event(NamedTuple):
    """An event of a consumer. `what` is read, truncated (reported under a reset policy of none), invalid (another error of the
    offset) or committed."""

    topic: str
    what: str
    offset: int
    value: str


class Watcher(ABC):
    """A set of consumers. `policies` has the reset policy of each topic: earliest, latest or none. The test closes it."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    @abstractmethod
    def _step(self) -> None:
        """Take in what comes within a short time."""

    @abstractmethod
    def another(self) -> Watcher:
        """Return a new watcher with the same groups and policies, which begins now, at the committed offsets."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the position of each consumer."""

    @abstractmethod
    def close(self) -> None:
        """Leave the groups."""

    def until(self, is_done: Callable[[], object]) -> None:
        """Consume until `is_done`. Raises AssertionError with the last events when that takes too long."""
        deadline = time.monotonic() + TIMEOUT_S
        while not is_done():
            assert time.monotonic() < deadline, f"after {len(self.events)} events, the last of which are {self.events[-5:]}"
            self._step()

    def until_last(self, value: str, topics: Iterable[str]) -> None:
        """Consume until `value` is the last value read from each of the topics."""
        self.until(lambda: all(self.values(topic)[-1:] == [value] for topic in topics))

    def values(self, topic: str) -> list[str]:
        """Return the values read from the topic, in order."""
        return [event.value for event in self.events if (event.topic, event.what) == (topic, "read")]

    def troubles(self, topic: str) -> list[str]:
        """Return the topic's events that are errors of the offset."""
        return [event.what for event in self.events if event.topic == topic and event.what in ("truncated", "invalid")]


class LibrdkafkaWatcher(Watcher):
    """A watcher of confluent-kafka consumers in this process."""

    def __init__(self, bootstrap: str, policies: Mapping[str, str]) -> None:
        super().__init__()
        self._bootstrap, self._policies = bootstrap, policies
        self._consumers: dict[str, confluent_kafka.Consumer] = {}
        for topic, policy in policies.items():
            consumer = confluent_kafka.Consumer(
                {
                    "bootstrap.servers": bootstrap,
                    "group.id": topic,
                    "auto.offset.reset": "error" if policy == "none" else policy,
                    "enable.auto.commit": False,
                    "reconnect.backoff.max.ms": 200,
                    "log_level": 2,  # otherwise it reports each broken connection
                }
            )
            committed = _committed(consumer, topic)
            if committed.offset < 0:
                committed.offset = 0
            consumer.assign([committed])
            self._consumers[topic] = consumer

    def _step(self) -> None:
        for topic, consumer in self._consumers.items():
            for message in consumer.consume(1000, timeout=0.05):
                error = message.error()
                if error is None:
                    self.events.append(Event(topic, "read", message.offset(), message.value().decode()))
                elif error.code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET:  # only the text has the reason
                    what = "truncated" if "truncation detected" in error.str() else "invalid"
                    self.events.append(Event(topic, what, -1, error.str()))

    def another(self) -> LibrdkafkaWatcher:
        return LibrdkafkaWatcher(self._bootstrap, self._policies)

    def commit(self) -> None:
        for consumer in self._consumers.values():
            consumer.commit(asynchronous=False)

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()


def _committed(consumer: confluent_kafka.Consumer, topic: str) -> confluent_kafka.TopicPartition:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=TIMEOUT_S)[0]
        except confluent_kafka.KafkaException:  # for a moment after its start, Kafka's broker is no coordinator
            if time.monotonic() > deadline:
                raise


class JavaWatcher(Watcher):
    """A watcher of Kafka's own consumers, in a JVM (EpochWatcher.java) that it shares with the watchers made by `another`."""

    def __init__(self, bootstrap: str, policies: Mapping[str, str]) -> None:
        super().__init__()
        asked = [f"{topic}={policy}" for topic, policy in policies.items()]
        self._process = subprocess.Popen(
            [*quick_java(classpath(JAVA_RELEASE), PROGRAM), "-Xmx256m", PROGRAM.stem, bootstrap, *asked],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._lines: queue.Queue[str] = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self._sets: list[list[Event]] = [self.events]
        self._is_first = True

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def another(self) -> JavaWatcher:
        """Return one more set of consumers, which begin now."""
        assert self._is_first
        made = copy.copy(self)
        made._is_first, made.events = False, []
        self._sets.append(made.events)
        self._send("n")
        return made

    def _step(self) -> None:
        assert self._process.poll() is None, "the JVM has ended"
        with contextlib.suppress(queue.Empty):
            line = self._lines.get(timeout=0.1)
            while True:  # takes everything that is there, because `until` looks through all events after each step
                number, *fields = json.loads(line)
                self._sets[number].append(Event(*fields))
                line = self._lines.get_nowait()

    def _send(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command)
        self._process.stdin.flush()

    def commit(self) -> None:
        assert self._is_first
        expected = self._commits() + len({event.topic for event in self.events})
        self._send("c")
        self.until(lambda: self._commits() == expected)

    def _commits(self) -> int:
        return sum(event.what == "committed" for event in self.events)

    def close(self) -> None:
        if not self._is_first:
            return
        try:
            if self._process.poll() is None:
                self._send("q")
                self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(WAIT_S)
        joined(self._thread, "the end of a JVM's output")
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
