"""Clusters of three brokers whose processes a run kills, pauses and starts again."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka.admin import AdminClient

from testing.process import etcd_peer
from testing.process.broker import BrokerProcess
from testing.process.several import SeveralBrokers
from testing.waiting import until

if TYPE_CHECKING:
    from testing.process.etcd_peer import EtcdPeer, Member

NUMBERS: Final = (1, 2, 3)
TIMEOUT_S: Final = 60
SETTINGS: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
}


class Cluster(ABC):
    """Three brokers in a `with` block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """The addresses of all brokers."""

    @abstractmethod
    def pid(self, number: int) -> int: ...

    @abstractmethod
    def data_dir(self, number: int) -> Path: ...

    @abstractmethod
    def kill(self, number: int) -> None:
        """End a broker at once."""

    @abstractmethod
    def start(self, *numbers: int) -> None:
        """Start brokers that were killed."""

    @abstractmethod
    def stop(self) -> None:
        """Stop all brokers. Raises if one ends with an error."""

    @abstractmethod
    def log_text(self) -> str: ...

    def pause(self, number: int) -> None:
        """Stop the time of a broker, until `resume`."""
        os.kill(self.pid(number), signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Let a paused broker run."""
        os.kill(self.pid(number), signal.SIGCONT)

    def is_whole(self) -> bool:
        """Return whether all brokers are there, and all replicas in sync, for a new client."""
        found = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2}).list_topics(timeout=TIMEOUT_S)
        partitions = [one for topic in found.topics.values() for one in topic.partitions.values()]
        return len(found.brokers) == len(NUMBERS) and all(len(one.isrs) == len(NUMBERS) and one.leader > 0 for one in partitions)

    def become_whole(self) -> None:
        """Wait until all brokers are there, and all replicas in sync."""
        until(self.is_whole, "all replicas are in sync", TIMEOUT_S, pause_s=0.2)


class Several(Cluster):
    """`pybroker start --brokers 3`, whose parent starts killed brokers again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._brokers = SeveralBrokers(folder, len(NUMBERS), SETTINGS)

    def __enter__(self) -> Self:
        self._brokers.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._brokers.close()

    @property
    def bootstrap(self) -> str:
        return self._brokers.bootstrap

    def pid(self, number: int) -> int:
        return self._brokers.pids()[number]

    def data_dir(self, number: int) -> Path:
        return self._brokers.data_dir / f"broker_{number}"

    def kill(self, number: int) -> None:
        pid = self.pid(number)
        self._brokers.kill(number)
        until(lambda: self.pid(number) != pid, f"broker {number} is started again", TIMEOUT_S)

    def start(self, *numbers: int) -> None:
        """Do nothing, because the parent has started them."""

    def stop(self) -> None:
        code = self._brokers.stop()
        assert code == 0, f"the brokers ended with {code}"

    def log_text(self) -> str:
        return self._brokers.log_text


class WithEtcd(Cluster):
    """Three brokers that share an etcd of three members."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._stack = ExitStack()
        self._brokers: dict[int, BrokerProcess] = {}

    def __enter__(self) -> Self:
        with self._stack as stack:
            self.etcd = self._started_etcd(stack)
            for number in NUMBERS:
                settings = {"metadata.store": f"etcd:{self.etcd.urls}/cluster", "node.id": str(number)}
                self._brokers[number] = self._broker(number, SETTINGS | settings)
                stack.callback(self._brokers[number].close)
            self.start(*NUMBERS)
            self._stack = stack.pop_all()
        return self

    def _started_etcd(self, stack: ExitStack) -> EtcdPeer:
        return stack.enter_context(etcd_peer.running(len(NUMBERS)))

    def _broker(self, number: int, settings: dict[str, str]) -> BrokerProcess:
        return BrokerProcess(self.folder / str(number), settings)

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self._brokers.values())

    def pid(self, number: int) -> int:
        return self._brokers[number].pid

    def data_dir(self, number: int) -> Path:
        return self._brokers[number].data_dir

    def kill(self, number: int) -> None:
        self._brokers[number].kill()

    def start(self, *numbers: int) -> None:
        with ThreadPoolExecutor() as pool:
            for started in [pool.submit(self._brokers[number].start) for number in numbers]:
                started.result(TIMEOUT_S)

    def stop_one(self, number: int) -> None:
        """Stop a broker, which moves its leaders away first."""
        self._brokers[number].stop()

    def stop(self) -> None:
        for broker in self._brokers.values():
            broker.stop()

    def log_text(self) -> str:
        return "".join(broker.log_text for broker in self._brokers.values())

    def etcd_leader(self) -> Member:
        """Return the member that leads etcd, when there is one."""
        found: list[Member] = []
        until(lambda: found.extend(filter(_leads, self.etcd.members)) or found, "etcd has a leader", TIMEOUT_S)
        return found[0]


def _leads(member: Member) -> bool:
    request = urllib.request.Request(f"{member.url}/v3/maintenance/status", data=b"{}")
    try:
        with urllib.request.urlopen(request, timeout=2) as response:
            status = json.load(response)
    except OSError:
        return False
    return bool(status.get("leader") == status["header"]["member_id"])
