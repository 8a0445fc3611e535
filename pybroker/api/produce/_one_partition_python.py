# cython: annotation_typing=False, wraparound=False
"""The way of a Produce of one partition, in Python; `_one_partition_native` is this same text, compiled with the types of
`_one_partition_native.pxd`.

So every rule is written once, and both builds follow it. After a change here the extension must be built again.
`handlers/produce.py` has the ways of all other requests.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, cast

import pybroker.api.produce.repeats as repeats  # noqa: PLR0402  (the compiled text takes it from the part that it names)
import pybroker.model as model  # noqa: PLR0402  (as above)
from pybroker.api.context import ADMIN_CLIENT_ID
from pybroker.api.deferred import Deferred
from pybroker.api.produce.makers import new_partition, new_response, new_topic
from pybroker.log.results import AppendOrigin
from pybroker.model import ZERO_TOPIC_ID, Offset, TopicPartition
from pybroker.protocol.codec import encode_response
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.forms import form_of as request_form_of
from pybroker.protocol.messages.produce import BatchIndexAndErrorMessage, PartitionProduceData, ProduceRequest
from pybroker.protocol.schema import schema_of
from pybroker.records import kernels
from pybroker.records.work import ONE_BATCH_ON_LOOP, LongWorkError
from pybroker.replication.produce_data import REFUSED, PartitionProduceResult

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.forms import RequestForm
    from pybroker.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
    from pybroker.replication.produce_data import ProduceResults

__all__ = ["RepeatedProduce", "ResponseForm", "only", "partition_response", "produce_one", "repeated"]

NONE = ErrorCode.NONE
CLIENT = AppendOrigin.CLIENT
TOPIC_ID_VERSION = 13
ACKS_ALL = -1
ACKS_LEADER = 1
FLEXIBLE = schema_of(ProduceRequest).flexible
# So the number in front of the records is that of the partition, for the form of a request.
assert [one.name for one in schema_of(PartitionProduceData).fields] == ["index", "records"]


def produce_one(
    broker: Services, context: RequestContext, request: ProduceRequest
) -> bytes | ProduceResponse | Deferred[ProduceResults, bytes | ProduceResponse] | None:
    """Append to the only partition of a usual request, and return its response. Returns None for any other, with nothing done.

    A usual request has a response, names its topic, and has records that are there and belong to no transaction. Its client
    may not write internal topics. This saves the dicts and lists that several partitions need.

    Raises LongWorkError, with nothing done.
    """
    _, version, correlation_id, client_id = context
    acks = request.acks
    if acks not in {ACKS_LEADER, ACKS_ALL} or version >= TOPIC_ID_VERSION or client_id == ADMIN_CLIENT_ID:
        return None
    topics = request.topic_data
    if len(topics) != 1:
        return None
    topic = topics[0]
    partitions = topic.partition_data
    if len(partitions) != 1:
        return None
    partition = partitions[0]
    records: Any = partition.records  # the decoder makes a memoryview or None
    if records is None or kernels.is_of_transaction(records):
        return None
    name, index = topic.name, partition.index
    encoded_name = name.encode()
    return append_only(
        broker,
        model.new_tuple(TopicPartition, (name, index)),
        index,
        records,
        acks,
        version,
        request.timeout_ms,
        correlation_id,
        encoded_name,
        form_of(version, len(encoded_name)),
    )


def append_only(  # noqa: PLR0917  (a call by position is a third of a call by name)
    broker: Services,
    topic_partition: TopicPartition,
    index: int,
    records: memoryview,
    acks: int,
    version: int,
    timeout_ms: int,
    correlation_id: int,
    encoded_name: bytes,
    form: ResponseForm,
) -> bytes | ProduceResponse | Deferred[ProduceResults, bytes | ProduceResponse]:
    """Append to the only partition of a usual request, and return its response. Raises LongWorkError, with nothing done."""
    manager = broker.replica_manager
    result, required_offset = manager.append_one(
        topic_partition, records, acks, broker.clock.time_ms(), version, CLIENT, False, ONE_BATCH_ON_LOOP
    )
    if required_offset != REFUSED:
        manager.wake(topic_partition)
    if required_offset < 0:
        return response_of(topic_partition, index, correlation_id, encoded_name, form, result)
    deferred = Deferred(functools.partial(settled, topic_partition, index, correlation_id, encoded_name, form))
    manager.await_settled(
        timeout_ms=timeout_ms,
        acks=acks,
        results={topic_partition: result},
        unsettled={topic_partition: required_offset},
        on_complete=deferred.complete,
    )
    return deferred.later()


class RepeatedProduce(repeats.Repeated):
    """A usual request that was handled, for those that only have another partition of the topic or other records."""

    __slots__ = ("_acks", "_encoded_name", "_index", "_name", "_response_form", "_timeout_ms", "_topic_partition")

    def __init__(self, form: RequestForm, context: RequestContext, request: ProduceRequest) -> None:
        super().__init__(form, context)
        (topic,) = request.topic_data
        (partition,) = topic.partition_data
        self._acks = request.acks
        self._timeout_ms = request.timeout_ms
        self._name = topic.name
        self._encoded_name = topic.name.encode()
        self._index = partition.index
        self._topic_partition = TopicPartition(topic.name, partition.index)
        self._response_form = form_of(context.api_version, len(self._encoded_name))

    def handle(
        self, broker: Services, records: memoryview
    ) -> bytes | ProduceResponse | Deferred[ProduceResults, bytes | ProduceResponse] | None:
        """Append to the only partition of a request, and return its response. Returns None as `Repeated.handle`."""
        if kernels.is_of_transaction(records):
            return None
        form = self.form
        if form.number != self._index:
            self._index = form.number
            self._topic_partition = model.new_tuple(TopicPartition, (self._name, self._index))
        try:
            response = append_only(
                broker,
                self._topic_partition,
                self._index,
                records,
                self._acks,
                self.version,
                self._timeout_ms,
                form.correlation_id,
                self._encoded_name,
                self._response_form,
            )
        except LongWorkError:
            return None
        self.uses += 1
        return response

    def forget_records(self, request: ProduceRequest) -> None:
        """Let go of the records of the only partition."""
        request.topic_data[0].partition_data[0].records = None


def repeated(context: RequestContext, request: ProduceRequest, frame: memoryview) -> RepeatedProduce | None:
    """Return what to keep of a request that `produce_one` has encoded a response to; None if nothing. `frame` is borrowed."""
    partition = request.topic_data[0].partition_data[0]
    records = cast("memoryview", partition.records)
    form = request_form_of(frame, partition.index, records, is_flexible=FLEXIBLE.has(context.api_version))
    return None if form is None else RepeatedProduce(form, context, request)


def settled(  # noqa: PLR0917  (as `append_only`)
    topic_partition: TopicPartition,
    index: int,
    correlation_id: int,
    encoded_name: bytes,
    form: ResponseForm,
    results: ProduceResults,
) -> bytes | ProduceResponse:
    """Return the response about one partition from its result among `results`."""
    return response_of(topic_partition, index, correlation_id, encoded_name, form, results[topic_partition])


def response_of(  # noqa: PLR0917  (as `append_only`)
    topic_partition: TopicPartition,
    index: int,
    correlation_id: int,
    encoded_name: bytes,
    form: ResponseForm,
    result: PartitionProduceResult,
) -> bytes | ProduceResponse:
    """Return the response about one partition, encoded if it has no error."""
    code, base_offset, log_append_time_ms, log_start_offset, _, _ = result
    if code is not NONE:
        return only(topic_partition, result)
    return form.filled(correlation_id, encoded_name, index, base_offset, log_append_time_ms, log_start_offset)


def only(topic_partition: TopicPartition, result: PartitionProduceResult) -> ProduceResponse:
    """Return the response about one partition, whose topic is known by its name."""
    return new_response([new_topic(topic_partition[0], ZERO_TOPIC_ID, [partition_response(topic_partition, result)])])


def partition_response(topic_partition: TopicPartition, result: PartitionProduceResult) -> PartitionProduceResponse:
    """Return a partition's part of a response."""
    error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message = result
    response = new_partition(topic_partition[1], error_code, base_offset, log_append_time_ms, log_start_offset, error_message)
    if record_errors:
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message) for index, message in record_errors
        ]
    return response


class ResponseForm:
    """The encoded response about one partition that has no error, in one version and for topic names of `name_size` bytes.

    The positions of what differs between such responses are found by encoding several that differ in one value. So only the
    codec knows how a response is encoded. A value that the version does not have has the position -1.
    """

    __slots__ = (
        "_base_offset_at",
        "_correlation_id_at",
        "_index_at",
        "_log_append_time_at",
        "_log_start_offset_at",
        "_made",
        "_name_at",
    )

    def __init__(self, version: int, name_size: int) -> None:
        def encoded(  # noqa: PLR0917  (as `filled`)
            correlation_id: int, name: str, index: int, base_offset: int, log_append_time_ms: int, log_start_offset: int
        ) -> bytes:
            result = PartitionProduceResult(NONE, Offset(base_offset), log_append_time_ms, Offset(log_start_offset))
            response = only(TopicPartition(name * name_size, index), result)
            return b"".join(cast("list[bytes]", encode_response(response, version, correlation_id)))

        first = encoded(0, "a", 0, 0, 0, 0)
        self._made = bytearray(first)  # what differs is written again for each response
        self._correlation_id_at = position_of_change(first, encoded(-1, "a", 0, 0, 0, 0))
        self._name_at = position_of_change(first, encoded(0, "b", 0, 0, 0, 0))
        self._index_at = position_of_change(first, encoded(0, "a", -1, 0, 0, 0))
        self._base_offset_at = position_of_change(first, encoded(0, "a", 0, -1, 0, 0))
        self._log_append_time_at = position_of_change(first, encoded(0, "a", 0, 0, -1, 0))
        self._log_start_offset_at = position_of_change(first, encoded(0, "a", 0, 0, 0, -1))

    def filled(  # noqa: PLR0917  (a call by position is a third of a call by name)
        self,
        correlation_id: int,
        name: bytes,
        index: int,
        base_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
    ) -> bytes:
        """Return a whole response. `name` has the size that the form is made for."""
        made = self._made
        place = self._name_at
        for byte in name:
            made[place] = byte
            place += 1
        put(made, self._correlation_id_at, 4, correlation_id)
        put(made, self._index_at, 4, index)
        put(made, self._base_offset_at, 8, base_offset)
        put(made, self._log_append_time_at, 8, log_append_time_ms)
        put(made, self._log_start_offset_at, 8, log_start_offset)
        return b"" + made  # a copy, for a fifth of the cost of calling `bytes`


def position_of_change(first: bytes, other: bytes) -> int:
    """Return where two responses of one size begin to differ, or -1."""
    pairs = zip(first, other, strict=True)
    return next((position for position, (byte, other_byte) in enumerate(pairs) if byte != other_byte), -1)


FORMS: dict[int, ResponseForm] = {}
"""The forms that were made so far. There are no more than versions and sizes of names that topics have."""


def form_of(version: int, name_size: int) -> ResponseForm:
    """Return the form of responses, made at the first need."""
    number = name_size * TOPIC_ID_VERSION + version
    form = FORMS.get(number)
    if form is None:
        form = FORMS[number] = ResponseForm(version, name_size)
    return form


def put(made: bytearray, position: int, size: int, number: int) -> None:
    """Write a number of `size` bytes as the wire has it, if it has a position."""
    place = position + size
    while place > position >= 0:
        place -= 1
        made[place] = number & 0xFF
        number >>= 8
