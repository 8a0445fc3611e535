"""WriteTxnMarkers (key 27): from a transaction coordinator to the leaders of partitions, which append the markers.

v0 is Kafka 3.9's.
"""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int8, Int16, Int32, Int64


class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: str = field()
    partition_indexes: list[Int32] = field()


class WritableTxnMarker(Struct):
    """The end of one transaction, and the partitions that get a marker."""

    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    transaction_result: Bool = field()  # False: abort
    topics: list[WritableTxnMarkerTopic] = field()
    coordinator_epoch: Int32 = field()
    transaction_version: Int8 = field("2+", ignorable=True)  # 2: KIP-890's second part


class WriteTxnMarkersRequest(Request, api_key=ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+"):
    """Markers of any number of transactions."""

    markers: list[WritableTxnMarker] = field()


class WritableTxnMarkerPartitionResult(Struct):
    """The result for one partition."""

    partition_index: Int32 = field()
    error_code: Int16 = field()


class WritableTxnMarkerTopicResult(Struct):
    """The results for the partitions of one topic."""

    name: str = field()
    partitions: list[WritableTxnMarkerPartitionResult] = field()


class WritableTxnMarkerResult(Struct):
    """The results for the markers of one producer."""

    producer_id: Int64 = field()
    topics: list[WritableTxnMarkerTopicResult] = field()


class WriteTxnMarkersResponse(Response, api_key=ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+"):
    """One result per marker."""

    markers: list[WritableTxnMarkerResult] = field()
