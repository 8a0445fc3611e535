"""Transactions: those that coordinators know, those that are open in partitions, and the end of one that hangs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pybroker.listed import did_you_mean
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pybroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
from pybroker.protocol.messages.list_transactions import ListTransactionsRequest
from pybroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pybroker.terminal import topics as topics_room
from pybroker.terminal.session import TIMEOUT_MS, Cluster, FailedError, check

if TYPE_CHECKING:
    from pybroker.terminal.output import Row

ONGOING: Final = "Ongoing"
ENDING_S: Final = 30.0
PAUSE_S: Final = 0.05


def listed(cluster: Cluster, states: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return a row for each transactional id. Raises FailedError."""
    rows = []
    for broker_id in tuple(cluster.brokers):
        response = cluster.call(ListTransactionsRequest(state_filters=list(states)), broker_id=broker_id)
        check("transactions", response.error_code)
        if response.unknown_state_filters:
            raise FailedError(f"there is no state {', '.join(response.unknown_state_filters)} of transactions")
        rows += [
            {
                "transactional_id": one.transactional_id,
                "state": one.transaction_state,
                "producer_id": one.producer_id,
                "coordinator": broker_id,
            }
            for one in response.transaction_states
        ]
    return sorted(rows, key=lambda row: str(row["transactional_id"]))


def described(cluster: Cluster, transactional_id: str) -> dict[str, Any]:
    """Return what its coordinator knows of a transactional id. Raises FailedError."""
    broker_id = cluster.transaction_coordinator(transactional_id)
    response = cluster.call(DescribeTransactionsRequest(transactional_ids=[transactional_id]), broker_id=broker_id)
    (one,) = response.transaction_states
    check(
        f"transactional id {transactional_id}",
        one.error_code,
        meant=lambda: did_you_mean(transactional_id, (row["transactional_id"] for row in listed(cluster))),
    )
    return {
        "transactional_id": transactional_id,
        "state": one.transaction_state,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator": broker_id,
        "timeout_ms": one.transaction_timeout_ms,
        "start_ms": one.transaction_start_time_ms if one.transaction_start_time_ms >= 0 else None,
        "partitions": sorted(f"{topic.topic}-{index}" for topic in one.topics for index in topic.partitions),
    }


def open_in_partitions(cluster: Cluster, names: Sequence[str], *, now_ms: int, older_than_ms: int) -> list[dict[str, Any]]:
    """Return a row for each transaction that is open in a partition since a time, with what its coordinator knows of it.

    It hangs when no coordinator has it open: then no client and no timeout ends it. Raises FailedError.
    """
    known = {row["producer_id"]: row for row in listed(cluster)}
    rows = []
    for topic in topics_room.found(cluster, names):
        by_leader: dict[int, list[int]] = {}
        for one in topic.partitions:
            by_leader.setdefault(one.leader_id, []).append(one.partition_index)
        for leader, indexes in by_leader.items():
            if leader < 0:
                continue
            asked = DescribeProducersRequest(topics=[TopicRequest(name=topic.name, partition_indexes=indexes)])
            for partition in cluster.call(asked, broker_id=leader).topics[0].partitions:
                check(f"{topic.name}-{partition.partition_index}", partition.error_code, partition.error_message)
                for producer in partition.active_producers:
                    age_ms = now_ms - producer.last_timestamp
                    if producer.current_txn_start_offset >= 0 and age_ms >= older_than_ms:
                        rows.append(_open(topic.name, partition.partition_index, producer, known.get(producer.producer_id)))
    return rows


def _open(topic: str, index: int, producer: Any, known: Row | None) -> dict[str, Any]:
    is_of_partition = known is not None and known["state"] not in ("Empty", "CompleteCommit", "CompleteAbort")
    return {
        "topic": topic,
        "partition": index,
        "start_offset": producer.current_txn_start_offset,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "last_ms": producer.last_timestamp,
        "transactional_id": None if known is None else known["transactional_id"],
        "state": None if known is None else known["state"],
        "hangs": not is_of_partition,
    }


def abort(cluster: Cluster, transactional_id: str) -> None:
    """Abort the open transaction of a transactional id, and fence its producer. Raises FailedError."""
    state = described(cluster, transactional_id)["state"]
    if state != ONGOING:
        raise FailedError(f"transactional id {transactional_id} has no open transaction: it is {state}")
    broker_id = cluster.transaction_coordinator(transactional_id)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)
    end = time.monotonic() + ENDING_S
    while True:  # the first request begins the abort, and the markers of other partitions may take a while
        found = cluster.patiently(lambda: cluster.call(request, broker_id=broker_id))
        if found.error_code != ErrorCode.CONCURRENT_TRANSACTIONS or time.monotonic() > end:
            break
        time.sleep(PAUSE_S)
    check(f"transactional id {transactional_id}", found.error_code)


def abort_in_partition(cluster: Cluster, topic: str, index: int, *, start_offset: int) -> dict[str, Any]:
    """Write the abort marker of a transaction that hangs in a partition. Raises FailedError."""
    found = [
        row
        for row in open_in_partitions(cluster, [topic], now_ms=0, older_than_ms=-(1 << 62))
        if (row["partition"], row["start_offset"]) == (index, start_offset)
    ]
    if not found:
        raise FailedError(f"{topic}-{index} has no open transaction that starts at offset {start_offset}")
    row = found[0]
    marker = WritableTxnMarker(
        producer_id=row["producer_id"],
        producer_epoch=row["producer_epoch"],
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
        coordinator_epoch=max(0, row["coordinator_epoch"]),
    )
    (leader,) = (one.leader_id for one in topics_room.found(cluster, [topic])[0].partitions if one.partition_index == index)
    response = cluster.call(WriteTxnMarkersRequest(markers=[marker]), broker_id=leader)
    for result in response.markers[0].topics:
        for partition in result.partitions:
            check(f"{topic}-{index}", partition.error_code)
    return row
