"""Produce (key 0), v0-13: append records to the leaders of partitions.

Behaviour
    Each partition has a result of its own: its base offset, or why its records were refused. With acks 1 the broker responds when
    the records are in the leader's log, with acks -1 when every in-sync replica has them; in both cases when they are durable
    where `flush.messages` wants that, at the latest after the request's timeout. acks 0 has no response; when any partition
    fails, the connection is closed, so that the client learns that something is wrong.
    The records are checked in the receive buffer, and their base offset and leader epoch are written there; no records are
    copied. A request that takes longer than a slice is parked, and a long batch is checked in a thread (`api/appending.py`).
    `api/transactional_append.py` decides about batches of transactions; such a batch in a request without a transactional id
    makes every partition TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
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

import asyncio
import functools
import logging
from typing import TYPE_CHECKING, Final, TypeVar, cast

from pybroker.api.appending import append_after, append_in_turns, hold
from pybroker.api.context import ADMIN_CLIENT_ID
from pybroker.api.one_partition import only_of, produce_one, repeated
from pybroker.api.produce_layout import ProduceLayout, forget_records, is_large
from pybroker.api.produce_response import failures, response_in_steps, response_of
from pybroker.api.produce_settling import settle, settle_large
from pybroker.api.slices import complete
from pybroker.api.transactional_append import verify
from pybroker.listed import listed
from pybroker.model import TopicPartition
from pybroker.network.context import ProtocolViolation
from pybroker.records.work import LongWorkError
from pybroker.replication.appends import Appends
from pybroker.slicing import emptied, run_through

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Awaitable, Callable, Generator

    from pybroker.api.context import RequestContext, Services
    from pybroker.api.transactional_append import Guard
    from pybroker.network.context import RequestHolder
    from pybroker.protocol.error_codes import ErrorCode
    from pybroker.protocol.messages.produce import ProduceRequest, ProduceResponse
    from pybroker.records.work import Work
    from pybroker.replication.produce_data import ProduceResults

Response = TypeVar("Response")

logger = logging.getLogger(__name__)

_TOPIC_ID_VERSION: Final = 13
REPEATS: Final = repeated


def handle(
    broker: Services, context: RequestContext, request: ProduceRequest
) -> bytes | ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append the records of each partition, and wait until they are settled where `acks` wants that."""
    try:
        response = produce_one(broker, context, request)
        if response is not None:
            if type(response) is not bytes and isinstance(response, asyncio.Future):
                run_through(forget_records(request))
            return response
    except LongWorkError as long:
        return _append_long(broker, context, request, long)
    laid_out = ProduceLayout()
    steps = laid_out.steps(broker.controller.image, request, has_topic_ids=context.api_version >= _TOPIC_ID_VERSION)
    if is_large(request):
        return _handle_large(broker, context, request, laid_out, steps, hold(context.connection, {}))
    run_through(steps)
    return _append_all(broker, context, request, laid_out)


def _append_all(
    broker: Services, context: RequestContext, request: ProduceRequest, laid_out: ProduceLayout
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append the entries; the coordinator of the transaction first verifies those that are transactional."""
    work = broker.validations.work(context.connection)
    build = functools.partial(_respond, request.acks, laid_out)
    appends = functools.partial(_appends, broker, context, request.acks, laid_out, work)
    guard: Guard | Future[Guard] | None = None
    if laid_out.transactional:
        guard = verify(broker, context.api_version, request.transactional_id or "", laid_out)
    if not isinstance(guard, asyncio.Future):
        return _append_in_turns(broker, context, request, appends(guard), work, build, laid_out)
    holder = hold(context.connection, laid_out.entries)
    return append_after(
        broker.validations, holder, guard, appends, work, lambda done: settle(broker, request, done, build, laid_out)
    )


def _appends(  # noqa: PLR0917  (each is of another kind)
    broker: Services, context: RequestContext, acks: int, laid_out: ProduceLayout, work: Work, guard: Guard | None
) -> Appends:
    return Appends(
        broker.replica_manager,
        acks,
        laid_out.entries,
        request_version=context.api_version,
        is_internal_allowed=context.client_id == ADMIN_CLIENT_ID,
        work=work,
        guard=guard,
    )


async def _handle_large(  # noqa: PLR0917  (each is of another kind)
    broker: Services,
    context: RequestContext,
    request: ProduceRequest,
    laid_out: ProduceLayout,
    steps: Generator[None, None, None],
    holder: RequestHolder | None,
) -> ProduceResponse | None:
    """Handle a request of many partitions in steps, between which the loop serves others."""
    acks, asked = request.acks, [request]
    work = broker.validations.work(context.connection)
    appends = functools.partial(_appends, broker, context, acks, laid_out, work)
    ready = asyncio.ensure_future(_verified(broker, context, request, laid_out, steps))
    del request, steps
    results: ProduceResults = await append_after(
        broker.validations, holder, ready, appends, work, lambda done: settle_large(broker, asked, done, laid_out)
    )
    response = refusal = None
    if acks == 0:
        failed = await complete(failures(laid_out.topics, results, laid_out.refused))
        refusal = _silent_refusal(failed)
        await complete(emptied(failed))
    else:
        response = await complete(response_in_steps(laid_out.topics, results, laid_out.refused))
    await complete(laid_out.discard(results))
    if refusal is not None:
        raise refusal
    return response


async def _verified(
    broker: Services,
    context: RequestContext,
    request: ProduceRequest,
    laid_out: ProduceLayout,
    steps: Generator[None, None, None],
) -> Guard | None:
    """Lay a large request out, and let the coordinator verify what is transactional."""
    await complete(steps)
    if not laid_out.transactional:
        return None
    guard = verify(broker, context.api_version, request.transactional_id or "", laid_out)
    return await guard if isinstance(guard, asyncio.Future) else guard


def _append_in_turns(  # noqa: PLR0917  (each is of another kind)
    broker: Services,
    context: RequestContext,
    request: ProduceRequest,
    appends: Appends,
    work: Work,
    build: Callable[[ProduceResults], ProduceResponse | None],
    laid_out: ProduceLayout | None = None,
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Run `appends`, which may take long, and wait until the records are settled where `acks` wants that."""

    return append_in_turns(
        broker.validations, context.connection, appends, work, lambda: settle(broker, request, appends, build, laid_out)
    )


def _append_long(
    broker: Services, context: RequestContext, request: ProduceRequest, long: LongWorkError
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append to the only partition of a request, whose batch `produce_one` found to be long."""
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    topic_partition, records = TopicPartition(topic.name, partition.index), cast("memoryview", partition.records)
    work = broker.validations.work(context.connection)
    appends = Appends(
        broker.replica_manager,
        request.acks,
        {topic_partition: records},
        request_version=context.api_version,
        work=work,
        long=long,
    )
    return _append_in_turns(broker, context, request, appends, work, functools.partial(only_of, topic_partition))


def _respond(acks: int, laid_out: ProduceLayout, results: ProduceResults) -> ProduceResponse | None:
    if acks == 0:
        refusal = _silent_refusal(run_through(failures(laid_out.topics, results, laid_out.refused)))
        if refusal is not None:
            raise refusal
        return None
    if laid_out.refused:
        results.update(laid_out.refused)
    return response_of(laid_out.topics, results)


def _silent_refusal(failed: list[tuple[TopicPartition, ErrorCode]]) -> ProtocolViolation | None:
    """Return what closes the connection of a request with acks 0, which has no response; None if nothing failed."""
    if not failed:
        return None
    what = listed(failed, lambda one: f"{one[0]}: {one[1].name}")
    return ProtocolViolation(f"a produce request with acks 0 failed: {what}")
