"""One Fetch request about partitions of one leader, and the batches of its response."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.admin.steps import Ask, check
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.records import batch as format_2
from pybroker.records.aborted import AbortedTransactions

if TYPE_CHECKING:
    from pybroker.admin.steps import Steps
    from pybroker.records.batch import BatchView

VERSION: Final = 11


class Fetched(NamedTuple):
    """A batch of a partition. `has_records`: a consumer gets its records, as it does not those of markers and aborted ones."""

    partition: int
    batch: BatchView
    has_records: bool


def fetched(
    topic: str,
    leader: int,
    partitions: Iterable[int],
    positions: Mapping[int, int],
    *,
    bytes_max: int,
    wait_ms: int = 0,
    committed: bool = False,
) -> Steps[list[Fetched]]:
    """Return the batches from `positions` on; where there is none, wait for one, at most `wait_ms`. Raises KafkaError.

    `bytes_max` is for all partitions; a first batch that is larger comes all the same (KIP-74).
    """
    asked = [FetchPartition(partition=one, fetch_offset=positions[one], partition_max_bytes=bytes_max) for one in partitions]
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1 if wait_ms else 0,
        max_bytes=bytes_max,
        isolation_level=int(committed),
        topics=[FetchTopic(topic=topic, partitions=asked)],
    )
    response = yield Ask(request, VERSION, leader)
    check(response.error_code)
    found = []
    for data in [one for each in response.responses for one in each.partitions]:
        check(data.error_code)
        aborted = AbortedTransactions((one.producer_id, one.first_offset) for one in data.aborted_transactions or ())
        for batch in format_2.batches(data.records or b""):
            has_records = not aborted.has(batch) and not batch.is_control
            found.append(Fetched(data.partition_index, batch, has_records))
    return found
