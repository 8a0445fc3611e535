"""Appends the records of a request and waits until they are settled, without a handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pybroker.api.produce.appends import Appends

if TYPE_CHECKING:
    from pybroker.model import TopicPartition
    from pybroker.replication.produce_data import ProduceResults
    from pybroker.replication.replica_manager import ReplicaManager


def append_records(
    manager: ReplicaManager,
    *,
    timeout_ms: int,
    acks: int,
    entries: dict[TopicPartition, memoryview],
    on_complete: Callable[[ProduceResults], None],
    **options: Any,
) -> None:
    """Append `entries`, and call `on_complete` when they are settled or the time is over. `options` are those of `Appends`."""
    appends = Appends(manager, acks, entries, **options)
    assert appends.run()
    if appends.unsettled:
        manager.await_settled(
            timeout_ms=timeout_ms, acks=acks, results=appends.results, unsettled=appends.unsettled, on_complete=on_complete
        )
    else:
        on_complete(appends.results)
