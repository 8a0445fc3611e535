"""Produce (key 0), v0-13: append records to the leaders of partitions.

Behaviour
    Each partition has a result of its own: its base offset, or why its records were refused. With acks 1 the broker responds when
    the records are in the leader's log, with acks -1 when every in-sync replica has them; in both cases when they are durable
    where `flush.messages` wants that, at the latest after the request's timeout. acks 0 has no response; when any partition
    fails, the connection is closed, so that the client learns that something is wrong.
    The records are checked in the receive buffer, and their base offset and leader epoch are written there; no records are
    copied. A request that takes longer than a slice is parked, and a long batch is checked in a thread
    (`api/produce/operation.py`).
    `api/produce/transactional_append.py` decides about batches of transactions; such a batch in a request without a transactional
    id makes every partition TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
    Internal topics take records only from the client id `__admin_client`, as in Kafka.
Versions
    v0-1 message sets of magic 0 and 1 with codecs of that time, v2 log append time, v3 transactions, and magic 2 only: one batch
    for each partition. v5 log start offset. v7 zstd. v8 record errors. v9 flexible. v10 the current leader, where it is another.
    v12 adds partitions to the transaction (KIP-890). v13 topic ids in place of names.
Not done
    Nothing.
Source: KafkaApis.handleProduceRequest, ProduceRequest.validateRecords; KIP-98, KIP-467, KIP-516, KIP-951.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.deferred import Deferred
from pybroker.api.produce.layout import forget_records
from pybroker.api.produce.one_partition import produce_one, repeated
from pybroker.api.produce.operation import ProduceOperation
from pybroker.records.work import LongWorkError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection

    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.messages.produce import ProduceRequest, ProduceResponse
    from pybroker.replication.produce_data import ProduceResults

REPEATS: Final = repeated


def handle(
    broker: Services, context: RequestContext, request: ProduceRequest
) -> bytes | ProduceResponse | Awaitable[ProduceResponse | None] | Deferred[ProduceResults, bytes | ProduceResponse] | None:
    """Append the records of each partition, and wait until they are settled where `acks` wants that."""
    check = None
    try:
        response = produce_one(broker, context, request)
    except LongWorkError as long:
        check = long.check
    else:
        if response is not None:
            if type(response) is Deferred:
                forget_records(request)
                context.connection.is_in_order = True
            return response
    return ProduceOperation(broker, context, request, check).response()


def handle_except(
    broker: Services, context: RequestContext, request: ProduceRequest, refused: Collection[str]
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Handle a request whose client may not write to the topics `refused`: TOPIC_AUTHORIZATION_FAILED."""
    operation = ProduceOperation(broker, context, request)
    operation.refuse_topics(refused)
    return operation.response()
