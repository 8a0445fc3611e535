"""AddOffsetsToTxn (key 25): the group whose offsets a transaction commits."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, field
from pybroker.protocol.wire import Int16, Int32, Int64


class AddOffsetsToTxnRequest(Request, api_key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"):
    """A transaction and a group."""

    transactional_id: str = field()
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    group_id: str = field()


class AddOffsetsToTxnResponse(Response, api_key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"):
    """Whether the group's partition of `__consumer_offsets` was added."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
