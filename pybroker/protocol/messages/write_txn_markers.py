"""WriteTxnMarkers (key 27): from a transaction coordinator to the leaders of partitions, which append the markers.

v0 is Kafka 3.9's.
"""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import field, request, response, struct
from pybroker.protocol.wire import Bool, Int8, Int16, Int32, Int64


@struct
class WritableTxnMarkerTopic:
    """Partitions of one topic."""

    name: str = field()
    partition_indexes: list[Int32] = field()


@struct
class WritableTxnMarker:
    """The end of one transaction, and the partitions that get a marker."""

    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    transaction_result: Bool = field()  # False: abort
    topics: list[WritableTxnMarkerTopic] = field()
    coordinator_epoch: Int32 = field()
    transaction_version: Int8 = field("2+", ignorable=True)  # 2: KIP-890's second part


@request(api_key=ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest:
    """Markers of any number of transactions."""

    markers: list[WritableTxnMarker] = field()


@struct
class WritableTxnMarkerPartitionResult:
    """The result for one partition."""

    partition_index: Int32 = field()
    error_code: Int16 = field()


@struct
class WritableTxnMarkerTopicResult:
    """The results for the partitions of one topic."""

    name: str = field()
    partitions: list[WritableTxnMarkerPartitionResult] = field()


@struct
class WritableTxnMarkerResult:
    """The results for the markers of one producer."""

    producer_id: Int64 = field()
    topics: list[WritableTxnMarkerTopicResult] = field()


@response(api_key=ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse:
    """One result per marker."""

    markers: list[WritableTxnMarkerResult] = field()
