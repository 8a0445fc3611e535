"""The general way of a Produce: work in slices, whose long batches are checked in threads.

The usual request is done within its first slice. One that takes longer is parked, and the connection keeps its memory, which
stays counted, until its records are in the logs. A request that then waits for replicas or for the disk keeps none of its bytes:
its records are let go, because they are views into these bytes. The connection works on one request at a time, so the order of a
producer's requests remains.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pybroker.api.context import ADMIN_CLIENT_ID
from pybroker.api.produce.appends import Appends
from pybroker.api.produce.layout import ProduceLayout, forget_records
from pybroker.api.produce.response import failures, response_of
from pybroker.api.produce.transactional_append import verify
from pybroker.listed import listed
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.sharing import work as sharing
from pybroker.sharing.loop import SlicedResponse, in_slices

if TYPE_CHECKING:
    from collections.abc import Collection

    from pybroker.api.context import RequestContext, Services
    from pybroker.api.produce.transactional_append import Guard
    from pybroker.network.context import RequestHolder
    from pybroker.protocol.messages.produce import ProduceRequest, ProduceResponse
    from pybroker.records.work import LongCheck
    from pybroker.sharing.work import Work

_TOPIC_ID_VERSION: Final = 13


class ProduceOperation:
    """One request, from its layout to its response. `check` is what a thread must do first with its only batch."""

    __slots__ = ("_broker", "_check", "_context", "_has_records", "_holder", "_is_kept", "_laid_out", "_request", "_work")

    def __init__(
        self, broker: Services, context: RequestContext, request: ProduceRequest, check: LongCheck | None = None
    ) -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self._check = check
        self._laid_out = ProduceLayout(broker.controller.image, request, has_topic_ids=context.api_version >= _TOPIC_ID_VERSION)
        self._work = broker.validations.work(context.connection)
        self._holder: RequestHolder | None = None
        self._is_kept = False
        self._has_records = True

    def refuse_topics(self, names: Collection[str]) -> None:
        """Refuse what is for topics that the client may not write to. Call it before `response`."""
        self._laid_out.refuse_topics(names)

    def response(self) -> ProduceResponse | SlicedResponse[ProduceResponse | None] | None:
        """Return the response, or a Future of it; None if `acks` wants none. Raises ProtocolViolation."""
        response = in_slices(self._run())
        if isinstance(response, SlicedResponse):
            if self._has_records:
                self._keep()
            else:
                self._context.connection.is_in_order = True
        return response

    def _run(self) -> Work[ProduceResponse | None]:
        try:
            appends = yield from self._append()
        finally:
            self._release()
        results, topics, acks = appends.results, self._laid_out.topics, self._request.acks
        if appends.unsettled:
            yield from self._settle(appends)
        results.update(self._laid_out.refused)
        if acks:
            return (yield from response_of(topics, results))
        failed = failures(topics, results)
        if failed:
            what = listed(failed, lambda one: f"{one[0]}: {one[1].name}")
            raise ProtocolViolation(f"a produce request with acks 0 failed: {what}")
        return None

    def _append(self) -> Work[Appends]:
        """Append what may be appended; the coordinator of the transaction first verifies the entries that are transactional."""
        broker, context, laid_out, validations = self._broker, self._context, self._laid_out, self._broker.validations
        guard: Guard | None = None
        if laid_out.transactional:
            verified = verify(broker, context.api_version, self._request.transactional_id or "", laid_out)
            if isinstance(verified, asyncio.Future):
                self._keep()
                yield verified
                verified = verified.result()
            guard = verified
        appends = Appends(
            broker.replica_manager,
            self._request.acks,
            laid_out.entries,
            request_version=context.api_version,
            is_internal_allowed=context.client_id == ADMIN_CLIENT_ID,
            work=self._work,
            check=self._check,
            guard=guard,
        )
        while appends.check is not None or not appends.run(sharing.SLICE_S):
            if appends.check is None:
                yield None
            else:
                yield from self._checked(appends)
            if validations.is_closed:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker stops")
        return appends

    def _checked(self, appends: Appends) -> Work[None]:
        """Have the next batch checked in a thread, and append it."""
        assert appends.check is not None
        self._keep()
        checking = asyncio.ensure_future(self._broker.validations.run(appends.check, appends.records, self._work))
        yield checking
        try:
            checked = checking.result()
        except Exception as error:
            appends.checked(error)
        else:
            appends.checked(checked)
        finally:
            del checking  # else its error and this frame keep each other

    def _settle(self, appends: Appends) -> Work[None]:
        """Wait until the records are replicated and durable, as `acks` wants that, or the request's time is over."""
        request = self._request
        settled = self._broker.replica_manager.await_settled(
            timeout_ms=request.timeout_ms,
            acks=request.acks,
            results=appends.results,
            unsettled=appends.unsettled,
        )
        self._laid_out.forget_records()
        forget_records(request)
        del request
        if not settled.is_completed:
            yield settled

    def _keep(self) -> None:
        """Keep the memory of the records that are left, or copy them. The first call comes before the handler returns."""
        if self._is_kept:
            return
        self._is_kept = True
        entries = self._laid_out.entries
        self._holder = self._context.connection.holder
        if self._holder is None or not self._holder.hold_request(sum(map(len, entries.values()))):
            for topic_partition, records in entries.items():
                entries[topic_partition] = memoryview(bytearray(records))

    def _release(self) -> None:
        self._has_records = False
        if self._holder is not None:
            self._holder.release_request()
