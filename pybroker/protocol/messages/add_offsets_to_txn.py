"""AddOffsetsToTxn (key 25): the group whose offsets a transaction commits."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import field, request, response
from pybroker.protocol.wire import Int16, Int32, Int64


@request(api_key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """A transaction and a group."""

    transactional_id: str = field()
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    group_id: str = field()


@response(api_key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """Whether the group's partition of `__consumer_offsets` was added."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
