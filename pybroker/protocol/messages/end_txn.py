"""EndTxn (key 26): commit or abort a transaction."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, field
from pybroker.protocol.wire import Bool, Int16, Int32, Int64


class EndTxnRequest(Request, api_key=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    """A transaction and how it ends."""

    transactional_id: str = field()
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    committed: Bool = field()  # False: abort


class EndTxnResponse(Response, api_key=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    """The result, and from v5 on the id and epoch for the producer's next transaction (KIP-890)."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    producer_id: Int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: Int16 = field("5+", default=-1, ignorable=True)
