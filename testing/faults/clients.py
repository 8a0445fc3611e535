"""The clients of a run: processes of `testing.clients.sequences` and `Sequences.java`, and what they have reported so far."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from testing.places import JAVA_SOURCES, ROOT
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath
from testing.waiting import WAIT_S, until

PYTHON_CLIENTS: Final = ("confluent-kafka", "aiokafka", "kafka-python")
MAY_NOT_TRANSACT: Final = ("kafka-python",)
"""Clients whose transactions may stand still during a fault: a new KafkaProducer may wait for a paused broker until that runs."""
PARTITIONS: Final = 3
TRANSACTION_TOPICS: Final = ("left", "right")
RELEASE: Final = "3.9.2"
Where = tuple[str, int]
"""A topic and a partition."""


@dataclass(slots=True)
class Seen:
    """The reports of a client. `name` is the topic of its numbers."""

    name: str
    acked: dict[int, int] = field(default_factory=dict)
    """The offset of each number that was acknowledged."""
    failed: dict[int, str] = field(default_factory=dict)
    outcomes: dict[int, str] = field(default_factory=dict)
    """How each transaction ended: committed, aborted or unknown."""
    reads: dict[Where, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """Offsets and values that the group has read, in this order."""
    stored: dict[Where, int] = field(default_factory=dict)
    """The last committed offset that was confirmed."""
    last: dict[Where, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """Offsets and values that a new reader found in the end."""
    broken: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """The reasons why the ends of transactions are not known."""
    sent: int = -1
    is_done: bool = False
    _acked_by_partition: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))

    def note(self, line: str) -> None:
        """Take in a line of the client's output. Raises ValueError for any other line."""
        word, _, rest = line.partition(" ")
        first, _, more = rest.partition(" ")
        if word == "acked":
            self.acked[int(first)] = int(more)
            self._acked_by_partition[int(first) % PARTITIONS] += 1
        elif word in {"read", "last"}:
            topic, number, offset, value = rest.split(" ")
            (self.reads if word == "read" else self.last)[topic, int(number)].append((int(offset), value))
        elif word == "stored":
            topic, number, offset = rest.split(" ")
            self.stored[topic, int(number)] = int(offset)
        elif word in {"committed", "aborted", "unknown"}:
            self.outcomes[int(first)] = word
            if more:
                self.errors.append(more)
        elif word == "failed":
            self.failed[int(first)] = more
        elif word == "stopped":
            self.sent = int(first)
        elif word == "broken":
            self.broken.append(rest)
        elif word == "done":
            self.is_done = True
        else:
            raise ValueError(f"{self.name} reports {line!r}")

    @property
    def progress(self) -> list[int]:
        """The numbers that were acknowledged in each partition, and the transactions that ended with certainty."""
        return [*self._acked_by_partition.values(), sum(end != "unknown" for end in self.outcomes.values())]


class Client:
    """The process of a client. `kind` may end with `-consumer`, for the consumer protocol of its group."""

    def __init__(self, kind: str, bootstrap: str, rate: float, folder: Path) -> None:
        self.kind = kind
        self.seen = Seen("-".join(kind.split("-")[: 1 if kind.startswith("java") else 2]))
        self._output, self._errors = folder / f"{kind}.out", folder / f"{kind}.err"
        self._position = 0
        arguments = [kind, bootstrap, str(PARTITIONS), str(rate)]
        self._command = command(kind) + arguments

    def start(self, topics: list[str]) -> None:
        """Start the process."""
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                self._command + topics, stdin=subprocess.PIPE, stdout=output, stderr=errors, cwd=ROOT, text=True
            )

    def look(self) -> Seen:
        """Take in what the client has reported since then. Raises AssertionError if a role of it has ended by an error."""
        has_ended = self._process.poll() is not None
        with self._output.open("rb") as output:
            output.seek(self._position)
            new = output.read()
        whole = new.rfind(b"\n") + 1
        self._position += whole
        for line in new[:whole].decode().splitlines():
            self.seen.note(line)
        assert not self.seen.broken, f"{self.kind}: {self.seen.broken}\n{self.errors}"
        assert self.seen.is_done or not has_ended, f"{self.kind} has ended\n{self.errors}"
        return self.seen

    @property
    def errors(self) -> str:
        """The end of what the client wrote to stderr."""
        return self._errors.read_text(errors="replace")[-3000:]

    def instruct(self, line: str) -> None:
        """Write a line to the client's stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def stacks(self) -> str:
        """Return where the client's threads are."""
        before = len(self.errors)
        self._process.send_signal(signal.SIGQUIT if self.kind.startswith("java") else signal.SIGUSR1)
        time.sleep(0.5)  # it writes them to a file, without a mark at the end
        return (self._output.read_text(errors="replace")[-6000:] if self.kind.startswith("java") else "") + self.errors[-before:]

    def close(self) -> None:
        """End the process, whatever its state."""
        if hasattr(self, "_process"):
            self._process.kill()
            self._process.communicate(timeout=WAIT_S)


def command(kind: str) -> list[str]:
    """Return how the command of a client begins."""
    if kind.startswith("java"):
        program = JAVA_SOURCES / "Sequences.java"
        return [*quick_java(classpath(RELEASE), program), "-Xmx256m", program.stem]
    return [sys.executable, "-m", "testing.clients.sequences"]


class Clients:
    """All clients of a run."""

    def __init__(self, kinds: list[str], bootstrap: str, rate: float, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.all = [Client(kind, bootstrap, rate, folder) for kind in kinds]
        self.topics = [*(client.seen.name for client in self.all), *TRANSACTION_TOPICS]

    def start(self) -> None:
        """Start all of them."""
        for client in self.all:
            client.start(self.topics)

    def advance(self, numbers: int, timeout_s: float, what: str) -> None:
        """Wait until each client has that many more acknowledgements in each partition, and most have ended a transaction."""
        goals = {}
        for client in self.all:
            *acked, ended = client.look().progress
            goals[client.kind] = [*(one + numbers for one in acked), ended + (client.kind not in MAY_NOT_TRANSACT)]
        self._until(lambda client: all(map(int.__ge__, client.look().progress, goals[client.kind])), what, timeout_s)

    def stop_writing(self, timeout_s: float) -> None:
        """Let all end their writing."""
        for client in self.all:
            client.instruct("stop")
        self._until(lambda client: client.look().sent >= 0, "the writing has ended", timeout_s)

    def read_all(self, timeout_s: float) -> list[Seen]:
        """Let all read until the end of every partition, and return what they saw."""
        for client in self.all:
            client.instruct("last")
        self._until(lambda client: client.look().is_done, "everything is read", timeout_s)
        return [client.seen for client in self.all]

    def close(self) -> None:
        """End all of them."""
        for client in self.all:
            client.close()

    def _until(self, holds: Callable[[Client], bool], what: str, timeout_s: float) -> None:
        left = list(self.all)

        def all_hold() -> bool:
            left[:] = [client for client in left if not holds(client)]
            return not left

        try:
            until(all_hold, what, timeout_s)
        except AssertionError as error:
            hanging = [f"{client.kind} {client.seen.progress}:\n{client.stacks()}" for client in left]
            raise AssertionError(f"{error}\n" + "\n".join(hanging)) from error
