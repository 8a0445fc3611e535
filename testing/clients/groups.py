"""Members of a group as processes, and the check of everything that they did."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from testing.places import JAVA_SOURCES
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath

CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka")
JAVA_MEMBER = JAVA_SOURCES / "GroupMember.java"
WAIT_S = 90


class Event(NamedTuple):
    time_ns: int
    what: str
    partition: int
    offset: int
    member: int


class Member:
    """One process, whose events are read as they come.

    A client such as `java-consumer` is that of Java, 4.3.1, with that protocol.
    """

    def __init__(self, where: tuple[str, str, str, str], number: int, log: Path, instance: str | None) -> None:
        """Start the process. `where` is the client, the broker, the group and the topic."""
        client, *rest = where
        if client.startswith("java-"):
            java = [*quick_java(classpath("4.3.1"), JAVA_MEMBER), "-Xmx256m"]
            command = [*java, JAVA_MEMBER.stem, client.removeprefix("java-"), *rest]
        else:
            command = [sys.executable, "-m", "testing.clients.group_member", *where]
        self.number = number
        self.events: list[Event] = []
        self._log = log.open("wb")
        self.process = subprocess.Popen(
            [*command, *([instance] if instance else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):  # a member that was killed may leave half a line
                time_ns, what, partition, offset = json.loads(line)
                if what == "forgot":
                    print(f"member {self.number}: kafka-python has forgotten its own join, and begins again")
                self.events.append(Event(time_ns, what, partition, offset, self.number))

    @property
    def owned(self) -> set[int]:
        owned: set[int] = set()
        for event in list(self.events):
            if event.what == "assigned":
                owned.add(event.partition)
            elif event.what == "revoked":
                owned.discard(event.partition)
        return owned

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.close()
        self.process.wait(WAIT_S)
        self._end()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_S)
        self._end()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT_S)
        self._end()

    def _end(self) -> None:
        self._reader.join(WAIT_S)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self._log.close()


class Group:
    """All members that a test has started, including the dead ones."""

    def __init__(self, client: str, bootstrap: str, name: str, topic: str, folder: Path) -> None:
        self._where = (client, bootstrap, name, topic)
        self._folder = folder
        self.members: list[Member] = []

    def start(self, instance: str | None = None, client: str | None = None) -> Member:
        """Start a member; `client` replaces the group's client."""
        number = len(self.members)
        where = (client or self._where[0], *self._where[1:])
        member = Member(where, number, self._folder / f"member{number}.log", instance)
        self.members.append(member)
        return member

    def close(self) -> None:
        for member in self.members:
            member.close()

    @property
    def events(self) -> list[Event]:
        return sorted(event for member in self.members for event in list(member.events))

    def has_read(self, count: int) -> bool:
        return len({(e.partition, e.offset) for e in self.events if e.what == "read"}) >= count

    def check(self, count: int) -> None:
        """Assert that every record was read, and that no record was read again after its commit was acknowledged."""
        read: set[tuple[int, int]] = set()
        committed: dict[int, int] = defaultdict(int)
        for event in self.events:
            if event.what == "committed":
                committed[event.partition] = max(committed[event.partition], event.offset)
            elif event.what == "read":
                assert event.offset >= committed[event.partition], f"read again after it was committed: {event}"
                read.add((event.partition, event.offset))
        assert len(read) == count
