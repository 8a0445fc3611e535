"""Measures how long the members of other groups wait while much changes in their partition of the offsets topic, beside Kafka.

    python -m benchmarks.held_groups [--rounds 3] [--no-kafka] [--before CHECKOUT] [--result FILE]

`__consumer_offsets` has one partition. In each round, GROUPS groups commit an offset for each of PARTITIONS partitions, and one
DeleteGroups deletes them all; then a transaction commits the same offsets and ends. Meanwhile a probe in another process sends a
Heartbeat and an OffsetCommit of a member of another group, and an OffsetFetch of a third group, every 5 ms each. The figures:
until the offsets are deleted, or count; and the longest time that a request of each kind waited from when it was due. Medians of
the rounds.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from benchmarks import peers, result_file
from benchmarks.peers import Peer, pin_client
from benchmarks.probe import Probe
from benchmarks.result_file import ResultFile
from benchmarks.transactions import Raw
from pybroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from pybroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pybroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from pybroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from testing.clients.stock import create_topic
from testing.wire import raw, raw_groups
from testing.wire.raw_groups import Committed, Identity

GROUPS: Final = 100
PARTITIONS: Final = 1_000
TOPIC: Final = "held"
REQUESTS: Final = ("heartbeat", "commit", "fetch")
INTERVAL_S: Final = 0.005
ALONE_S: Final = 0.5
RETRY_S: Final = 0.01
SESSION_MS: Final = 60_000
TRIES: Final = 3_000
RETRIABLE: Final = frozenset({14, 15, 16, 51})
OVERRIDES: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "message.max.bytes": "16000000",
}
_numbers = itertools.count()


class Outcome(NamedTuple):
    """The time that one operation took, and how long each kind of request waited beside it."""

    took_ms: float
    heartbeat_ms: float
    commit_ms: float
    fetch_ms: float


def ask(connection: Raw, request: Any, version: int, response: type[Any]) -> Any:
    """Send a request until the response is no error that passes, and return the response."""
    for _ in range(TRIES):
        (found,) = connection.ask([request], version, response)
        code = _code(found)
        if code == 0:
            return found
        assert code in RETRIABLE, f"error {code} of {type(request).__name__}"
        time.sleep(RETRY_S)
    raise TimeoutError(type(request).__name__)


def _code(response: Any) -> int:
    if hasattr(response, "topics"):
        return max((one.error_code for topic in response.topics for one in topic.partitions), default=0)
    if hasattr(response, "results"):
        return max(one.error_code for one in response.results)
    return int(response.error_code)


def deletion(connection: Raw, groups: list[str]) -> Callable[[], None]:
    """Commit the offsets of the groups, and return what deletes them."""
    partitions = [OffsetCommitRequestPartition(partition_index=one, committed_offset=5) for one in range(PARTITIONS)]
    for group in groups:
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
        ask(connection, OffsetCommitRequest(group_id=group, topics=topics), 7, OffsetCommitResponse)
    return lambda: ask(connection, DeleteGroupsRequest(groups_names=groups), 1, DeleteGroupsResponse)


def end_of_transaction(connection: Raw, groups: list[str]) -> Callable[[], None]:
    """Commit the offsets of the groups in a transaction, and return what ends it, and waits until they count."""
    transactional_id = groups[0]
    ask(connection, FindCoordinatorRequest(key=transactional_id, key_type=1), 2, FindCoordinatorResponse)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=SESSION_MS)
    found = ask(connection, request, 2, InitProducerIdResponse)
    producer = {
        "transactional_id": transactional_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
    }
    partitions = [TxnOffsetCommitRequestPartition(partition_index=one, committed_offset=5) for one in range(PARTITIONS)]
    for group in groups:
        ask(connection, AddOffsetsToTxnRequest(group_id=group, **producer), 2, AddOffsetsToTxnResponse)
        topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
        ask(connection, TxnOffsetCommitRequest(group_id=group, topics=topics, **producer), 2, TxnOffsetCommitResponse)

    def end() -> None:
        ask(connection, EndTxnRequest(committed=True, **producer), 2, EndTxnResponse)
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[PARTITIONS - 1])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=groups[-1], topics=topics)], require_stable=True)
        for _ in range(TRIES):
            (response,) = connection.ask([request], 8, OffsetFetchResponse)
            if response.groups[0].topics[0].partitions[0].committed_offset == 5:
                return
            time.sleep(RETRY_S)
        raise TimeoutError("the offsets of the transaction do not count")

    return end


CASES: Final = {
    f"DeleteGroups of {GROUPS} groups with {PARTITIONS:,} offsets each": deletion,
    f"EndTxn of a transaction with {PARTITIONS:,} offsets of {GROUPS} groups each": end_of_transaction,
}


def probed(member: Identity) -> dict[str, bytes]:
    """Return the requests of other groups."""
    bodies = {
        "heartbeat": (raw_groups.HEARTBEAT, raw_groups.heartbeat_body(member)),
        "commit": (raw_groups.OFFSET_COMMIT, raw_groups.commit_body(member, TOPIC, {0: Committed(5, "")})),
        "fetch": (raw_groups.OFFSET_FETCH, raw_groups.fetch_offsets_body("third", TOPIC, [0])),
    }
    return {name: raw.request(key, raw_groups.VERSIONS[key], body) for name, (key, body) in bodies.items()}


def measure(peer: Peer, case: Callable[[Raw, list[str]], Callable[[], None]]) -> Outcome:
    groups = [f"held-{next(_numbers)}" for _ in range(GROUPS)]
    connection = Raw(peer.bootstrap)
    run = case(connection, groups)
    with raw.Connection(peer.bootstrap) as members:
        member = raw_groups.join_alone(members, f"other-{next(_numbers)}", session_ms=SESSION_MS // 2)
        with Probe(peer.bootstrap, probed(member), INTERVAL_S) as probe:
            time.sleep(ALONE_S)
            began = time.monotonic()
            run()
            ended = time.monotonic()
            time.sleep(ALONE_S)
    connection.close()
    waits = (1000 * max(probe.between(name, began - ALONE_S / 2, ended + ALONE_S / 2)) for name in REQUESTS)
    return Outcome(1000 * (ended - began), *waits)


def main() -> None:
    parser = peers.arguments(__doc__)
    peers.add_before(parser)
    result_file.add_argument(parser, "held_groups")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, in which brokers take turns (default: %(default)s)")
    options: argparse.Namespace = peers.parsed(parser)
    pin_client()
    rows: list[tuple[object, ...]] = []
    with ResultFile(options) as results, peers.started(options, OVERRIDES) as running:
        for peer in running:
            create_topic(peer.bootstrap, TOPIC, PARTITIONS)
            raw_groups.find_coordinator(peer.bootstrap)
        for what, case in CASES.items():
            outcomes: dict[str, list[Outcome]] = {peer.name: [] for peer in running}
            for number, peer in itertools.product(range(options.rounds + 1), running):
                one = measure(peer, case)
                results.add(what="round", round=number, broker=peer.name, case=what, **one._asdict())
                if number:  # the first one warms the broker up
                    outcomes[peer.name].append(one)
            cells = (statistics.median(values) for peer in running for values in zip(*outcomes[peer.name], strict=True))
            rows.append((what, *cells))
            peers.row(rows[-1])
        print(f"\n{result_file.machine()}")
        names = ("took, ms", "heartbeat, ms", "commit, ms", "fetch, ms")
        header = ["beside", *(f"{peer.name}: {name}" for peer in running for name in names)]
        peers.table(f"The longest waits of other groups in the partition, medians of {options.rounds}", header, rows)


if __name__ == "__main__":
    main()
