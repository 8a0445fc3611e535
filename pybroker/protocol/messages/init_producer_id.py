"""InitProducerId (key 22): a producer id and epoch, for idempotent and transactional producers."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, field
from pybroker.protocol.wire import Bool, Int16, Int32, Int64


class InitProducerIdRequest(Request, api_key=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+"):
    """A request from a new producer, or from a producer whose epoch must be raised."""

    transactional_id: str | None = field()  # null: idempotent only
    transaction_timeout_ms: Int32 = field()
    producer_id: Int64 = field("3+", default=-1)  # -1: none yet
    producer_epoch: Int16 = field("3+", default=-1)
    enable2_pc: Bool = field("6+")  # two-phase commit (KIP-939)
    keep_prepared_txn: Bool = field("6+")


class InitProducerIdResponse(Response, api_key=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+"):
    """The producer's id and epoch."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    producer_id: Int64 = field(default=-1)
    producer_epoch: Int16 = field()
    ongoing_txn_producer_id: Int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: Int16 = field("6+", default=-1)
