"""The whole cluster on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pybroker.client.errors import ClientError
from pybroker.protocol.messages.list_transactions import ListTransactionsRequest
from pybroker.terminal import brokers, topics
from pybroker.terminal.groups import lag_of
from pybroker.tools.groups_admin import LATEST

if TYPE_CHECKING:
    from pybroker.terminal.output import Row
    from pybroker.terminal.session import Cluster


def overview(cluster: Cluster) -> Row:
    """Return what there is, and what is wrong with it. Raises ClientError, RefusedError."""
    metadata = cluster.metadata()
    rows = topics.listing(cluster)
    members = brokers.brokers(cluster)
    groups = lags(cluster)
    return {
        "cluster": metadata.cluster_id,
        "software": sorted({str(one["software"]) for one in members}),
        "brokers": [one["broker"] for one in members],
        "controller": metadata.controller_id if metadata.controller_id >= 0 else None,
        "topics": sum(not one["internal"] for one in rows),
        "internal_topics": sum(bool(one["internal"]) for one in rows),
        "partitions": sum(one["partitions"] for one in rows),
        "under_replicated": sum(one["under_replicated"] for one in rows),
        "offline": sum(one["offline"] for one in rows),
        "failed_directories": [path for one in members for path in one["failed_directories"]],
        "records": sum(one["records"] or 0 for one in rows if not one["internal"]),
        "bytes": sum(one["bytes"] or 0 for one in members),
        "groups": len(groups),
        "groups_behind": sorted((one for one in groups if one["lag"]), key=lambda one: -int(one["lag"])),
        "groups_without_lag": sorted(one["group"] for one in groups if one["lag"] is None),
        "open_transactions": open_transactions(cluster),
    }


def lags(cluster: Cluster) -> list[dict[str, Any]]:
    """Return a row for each group, with how many records it is behind in all partitions in which it has committed."""
    found, committed = cluster.listed(), {}
    for group in found:
        committed[group.group_id] = cluster.committed(group.group_id)
    partitions: dict[str, list[int]] = {}
    for topic, index in sorted({partition for offsets in committed.values() for partition in offsets}):
        partitions.setdefault(topic, []).append(index)
    ends = cluster.ends(partitions, LATEST)
    return [
        {
            "group": group.group_id,
            "state": group.group_state,
            "type": (group.group_type or "classic").lower(),
            "topics": sorted({partition.topic for partition in committed[group.group_id]}),
            "partitions": len(committed[group.group_id]),
            "lag": lag_of(max(0, ends[at] - offset) for at, offset in committed[group.group_id].items() if at in ends),
        }
        for group in found
    ]


def open_transactions(cluster: Cluster) -> int | None:
    """Return how many transactions are open; None when the brokers do not report that."""
    count = 0
    for broker_id in tuple(cluster.brokers):
        try:
            response = cluster.call(ListTransactionsRequest(state_filters=["Ongoing"]), broker_id=broker_id)
        except ClientError:
            return None
        count += len(response.transaction_states)
    return count
