"""Measures transactions: how many a second, what each costs the broker, and how long a start with many transactional ids takes.

    python -m benchmarks.transactions [--rounds 3] [--transactions 300] [--ids 100000] [--no-kafka]

One librdkafka producer commits one transaction after the other: of 1, 10 and 100 records of 100 bytes in one partition, and of
one record in each of 100 partitions. Brokers and rounds take turns, and the median round counts. CPU is that of the broker's
process.
Then each broker gets transactional ids by InitProducerId, and is started again. `ready` is the time from the begin of that start
until InitProducerId of one of the ids gets no error. `--ids 0` leaves this out.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Iterator
from itertools import count
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer

from benchmarks import peers
from benchmarks.peers import Peer
from pybroker.protocol.codec import decode_response, encode_request
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from testing.clients.stock import create_topic
from testing.process import procstat
from testing.waiting import Deadline

RECORDS: Final = (1, 10, 100)
PARTITIONS: Final = 100
TIMEOUT_S: Final = 60
WINDOW: Final = 200
_numbers = count()


class Round(NamedTuple):
    """The cost of a transaction."""

    per_second: float
    cpu_ms: float


def transact(peer: Peer, transactions: int, partitions: list[int]) -> Round:
    """Commit transactions, each with a record for each element of `partitions`."""
    producer = Producer(
        {"bootstrap.servers": peer.bootstrap, "transactional.id": f"benchmark-{next(_numbers)}", "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(TIMEOUT_S)
    value = b"v" * 100

    def once() -> None:
        producer.begin_transaction()
        for partition in partitions:
            producer.produce("transactions", value, partition=partition)
        producer.commit_transaction(TIMEOUT_S)

    for _ in range(transactions // 4):
        once()
    began, cpu_s = time.perf_counter(), procstat.cpu_s(peer.pid)
    for _ in range(transactions):
        once()
    return Round(transactions / (time.perf_counter() - began), 1000 * (procstat.cpu_s(peer.pid) - cpu_s) / transactions)


class Raw:
    """A connection that sends requests without waiting for each response."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._stream = self._socket.makefile("rb")

    def ask(self, requests: list[object], version: int, response: type[Any]) -> Iterator[Any]:
        """Send requests at once, and yield their responses."""
        frames = (b"".join(map(bytes, encode_request(one, version, correlation_id=1, client_id=""))) for one in requests)  # type: ignore[arg-type]
        self._socket.sendall(b"".join(frames))
        for _ in requests:
            size = int.from_bytes(self._stream.read(4))
            yield decode_response(response, version, memoryview(self._stream.read(size)))[1]

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()
        self._socket.close()


def _init(number: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=f"id-{number}", transaction_timeout_ms=60_000)


def _await_id(bootstrap: str) -> None:
    """Wait until a transactional id can be initialized."""
    deadline, connection = Deadline("the coordinator", TIMEOUT_S), Raw(bootstrap)
    while True:
        deadline.check()
        (found,) = connection.ask([FindCoordinatorRequest(key="id-0", key_type=1)], 1, FindCoordinatorResponse)
        if not found.error_code:
            (response,) = connection.ask([_init(0)], 1, InitProducerIdResponse)
            if not response.error_code:
                connection.close()
                return
        time.sleep(0.005)


def fill(bootstrap: str, ids: int) -> None:
    """Let the broker know this many transactional ids."""
    _await_id(bootstrap)
    connection = Raw(bootstrap)
    left = list(range(ids))
    while left:
        again = []
        for numbers in (left[first : first + WINDOW] for first in range(0, len(left), WINDOW)):
            responses = connection.ask([_init(number) for number in numbers], 1, InitProducerIdResponse)
            again += [number for number, response in zip(numbers, responses, strict=True) if response.error_code]
        left = again
    connection.close()


def restart(peer: Peer) -> float:
    """Start the broker again, and return the seconds until its coordinator serves."""
    peer.close()
    began = time.perf_counter()
    peer.start()
    _await_id(peer.bootstrap)
    return time.perf_counter() - began


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transactions", type=int, default=300, help="in each round")
    parser.add_argument("--ids", type=int, default=100_000, help="transactional ids that a start loads; 0: none")
    options = peers.parsed(parser)
    shapes = {f"{records} records": [0] * records for records in RECORDS}
    shapes[f"{PARTITIONS} partitions"] = list(range(PARTITIONS))
    with peers.started(options) as brokers:
        peers_rounds: dict[tuple[str, str], list[Round]] = {}
        for peer in brokers:
            create_topic(peer.bootstrap, "transactions", PARTITIONS)
        for _ in range(options.rounds):
            for shape, partitions in shapes.items():
                for peer in brokers:
                    peers_rounds.setdefault((shape, peer.name), []).append(transact(peer, options.transactions, partitions))
        peers.table(
            "Transactions with",
            ("each", "broker", "transactions/s", "CPU ms each"),
            (
                (
                    shape,
                    name,
                    statistics.median(one.per_second for one in rounds),
                    statistics.median(one.cpu_ms for one in rounds),
                )
                for (shape, name), rounds in peers_rounds.items()
            ),
        )
        if options.ids:
            for peer in brokers:
                fill(peer.bootstrap, options.ids)
            rows = [(peer.name, options.ids, restart(peer)) for peer in brokers]
            peers.table("A start with transactional ids", ("broker", "ids", "ready s"), rows)


if __name__ == "__main__":
    main()
