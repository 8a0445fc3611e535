"""Three nodes as Kafka's own files configure them, each a broker and a controller; ours run an etcd each beside them.

with ThreeNodes(folder) as nodes:
    Producer({"bootstrap.servers": nodes.bootstrap})
    nodes[2].kill()                  its etcd ends with it
    nodes[2].start()
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from testing.process import etcd_peer
from testing.process.broker import START_TIMEOUT_S, BrokerProcess
from testing.process.kafka_peer import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

NUMBERS = (1, 2, 3)
SHARED = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class ThreeNodes:
    """The nodes 1 to 3. They share settings, and `overrides` go over these; `start_command` is that of another broker. Unless
    `is_started`, the test starts them.
    """

    def __init__(
        self,
        folder: Path,
        overrides: Mapping[str, str] | None = None,
        *,
        start_command: Sequence[str] | None = None,
        is_started: bool = True,
    ) -> None:
        self._is_started = is_started
        controllers = {number: free_port() for number in NUMBERS}
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in controllers.items())
        shared = SHARED | {"controller.quorum.voters": voters} | dict(overrides or {})
        self._path = os.environ["PATH"]
        self._nodes: dict[int, BrokerProcess] = {}
        for number, controller in controllers.items():
            port = free_port()
            addresses = {
                "node.id": str(number),
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            }
            self._nodes[number] = BrokerProcess(folder / str(number), shared | addresses, start_command=start_command)
            self._nodes[number].port = port

    def __getitem__(self, number: int) -> BrokerProcess:
        return self._nodes[number]

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, in their order."""
        return ",".join(node.bootstrap for node in self._nodes.values())

    def pids(self) -> dict[int, int]:
        """Return the process of each node, which is the parent of its etcd."""
        return {number: node.pid for number, node in self._nodes.items()}

    def start(self) -> None:
        """Start all nodes side by side, as none is ready before a majority runs."""
        with ThreadPoolExecutor() as pool:
            for started in [pool.submit(node.start) for node in self._nodes.values()]:
                started.result(START_TIMEOUT_S)

    def close(self) -> None:
        """End all processes, whatever their state."""
        os.environ["PATH"] = self._path
        for node in self._nodes.values():
            node.close()

    def __enter__(self) -> Self:
        os.environ["PATH"] = os.pathsep.join((str(etcd_peer.executable().parent), self._path))
        try:
            if self._is_started:
                self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
