# cython: boundscheck=False, wraparound=False, cdivision=True
"""What nearly every append is, in one call: the alone leader of a partition writes one batch to the end of a segment.

Nothing here decides anything. What is not usual is left to the Python path, which knows every case, before anything was changed;
an append that begins a segment or an index entry goes through the log's own functions. A test compares both ways.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport int64_t

from types import MemberDescriptorType

from pybroker.config import setting
from pybroker.config.topic import TopicConfig
from pybroker.log.append import append_accepted
from pybroker.log.append_rules import AppendRules
from pybroker.log.directory import LogDirectory
from pybroker.log.file_records import SegmentFile
from pybroker.log.leader_epoch_cache import LeaderEpochCache
from pybroker.log.log import Log
from pybroker.log.producer_state import ProducerState
from pybroker.log.results import LogAppendInfo, LogOffsetMetadata
from pybroker.log.segment import RECENT_BATCHES, RELATIVE_OFFSET_MAX, LogSegment
from pybroker.log.segments import Segments
from pybroker.log.time_index import TimeIndex, TimestampOffset
from pybroker.log.offset_index import OffsetIndex
from pybroker.log.entry_file import EntryFile
from pybroker.metadata.names import INTERNAL_TOPICS
from pybroker.metrics.broker_metrics import TopicMetrics
from pybroker.model import TopicPartition
from pybroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from pybroker.records import kernels
from pybroker.records.validate import ValidationRules
from pybroker.replication.partition import Partition


cdef extern from *:
    """
    #include <structmember.h>
    static inline Py_ssize_t pb_slot(PyObject *member) { return ((PyMemberDescrObject *)member)->d_member->offset; }
    static inline PyObject **pb_place(PyObject *object, Py_ssize_t offset) { return (PyObject **)((char *)object + offset); }
    static inline PyObject *pb_new_tuple(PyObject *cls, Py_ssize_t size) {
        return ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, size);
    }
    static inline PyObject *pb_clone(PyObject *prototype) {
        PyTypeObject *cls = Py_TYPE(prototype);
        PyObject *clone = cls->tp_alloc(cls, 0);
        if (clone) {
            PyObject **from = (PyObject **)(prototype + 1), **to = (PyObject **)(clone + 1);
            Py_ssize_t count = (cls->tp_basicsize - (Py_ssize_t)sizeof(PyObject)) / (Py_ssize_t)sizeof(PyObject *);
            for (Py_ssize_t index = 0; index < count; index++) { Py_XINCREF(from[index]); to[index] = from[index]; }
        }
        return clone;
    }
    """
    Py_ssize_t pb_slot(object member)
    PyObject **pb_place(object value, Py_ssize_t offset)
    object pb_new_tuple(object cls, Py_ssize_t size)
    object pb_clone(object prototype)  # of a declared message: its slots and nothing else


cdef extern from "Python.h":
    void PyTuple_SET_ITEM(object items, Py_ssize_t index, object item)


cdef class Slot:
    """One attribute, read and written where it lies in objects of exactly its class, and as any attribute in others."""

    cdef object cls
    cdef Py_ssize_t offset
    cdef str name

    def __cinit__(self, owner, str name, cls=None):
        member = vars(owner)[name]
        if type(member) is not MemberDescriptorType:
            raise TypeError(f"{owner.__name__}.{name} is no slot")
        self.cls = owner if cls is None else cls
        self.offset = pb_slot(member)
        self.name = name


cdef inline object get(Slot slot, object owner):
    cdef PyObject *value
    if type(owner) is slot.cls:
        value = pb_place(owner, slot.offset)[0]
        if value is not NULL:
            return <object>value
    return getattr(owner, slot.name)


cdef inline int64_t number(Slot slot, object owner) except? -1:
    return get(slot, owner)


cdef inline int put(Slot slot, object owner, object value) except -1:
    cdef PyObject **place
    cdef PyObject *old
    if type(owner) is not slot.cls:
        setattr(owner, slot.name, value)
        return 0
    place = pb_place(owner, slot.offset)
    old = place[0]
    Py_INCREF(value)
    place[0] = <PyObject *>value
    Py_XDECREF(old)
    return 0


cdef inline int add(Slot slot, object owner, int64_t count) except -1:
    return put(slot, owner, number(slot, owner) + count)


cdef Slot partition_log = Slot(Partition, "log")
cdef Slot partition_is_alone = Slot(Partition, "_is_alone")
cdef Slot partition_leader_epoch = Slot(Partition, "leader_epoch")
cdef Slot partition_high_watermark = Slot(Partition, "high_watermark_metadata")
cdef Slot log_is_closed = Slot(Log, "is_closed")
cdef Slot log_directory = Slot(Log, "log_directory")
cdef Slot log_config = Slot(Log, "config")
cdef Slot log_validator = Slot(Log, "validator")
cdef Slot log_epochs = Slot(Log, "epochs")
cdef Slot log_segments = Slot(Log, "segments")
cdef Slot log_producers = Slot(Log, "producers")
cdef Slot log_start = Slot(Log, "log_start_offset")
cdef Slot log_end = Slot(Log, "log_end_offset")
cdef Slot log_unflushed = Slot(Log, "unflushed_messages")
cdef Slot log_unsettled_upto = Slot(Log, "unsettled_upto")
cdef Slot log_recovery_point = Slot(Log, "recovery_point")
cdef Slot directory_failure = Slot(LogDirectory, "failure")
cdef Slot validator_config = Slot(AppendRules, "config")
cdef Slot validator_current = Slot(AppendRules, "current")
cdef Slot rules_keep = Slot(ValidationRules, "keeps_batches")
cdef Slot rules_bytes_max = Slot(ValidationRules, "max_message_bytes")
cdef Slot rules_before_ms = Slot(ValidationRules, "timestamp_before_max_ms")
cdef Slot rules_after_ms = Slot(ValidationRules, "timestamp_after_max_ms")
cdef Slot rules_is_compacted = Slot(ValidationRules, "is_compacted")
cdef Slot config_segment_bytes = Slot(TopicConfig, "segment_bytes")
cdef Slot config_segment_ms = Slot(TopicConfig, "segment_ms")
cdef Slot config_flush_messages = Slot(TopicConfig, "flush_messages")
cdef Slot epochs_entries = Slot(LeaderEpochCache, "entries")
cdef Slot producers_unreplicated = Slot(ProducerState, "unreplicated")
cdef Slot producers_end = Slot(ProducerState, "map_end_offset")
cdef Slot segments_active = Slot(Segments, "active")
cdef Slot segment_base = Slot(LogSegment, "base_offset")
cdef Slot segment_size = Slot(LogSegment, "size")
cdef Slot segment_file = Slot(LogSegment, "_file")
cdef Slot segment_since_entry = Slot(LogSegment, "_bytes_since_entry")
cdef Slot segment_interval = Slot(LogSegment, "_index_interval")
cdef Slot segment_max = Slot(LogSegment, "_max_timestamp")
cdef Slot segment_first_timestamp = Slot(LogSegment, "_rolling_timestamp")
cdef Slot segment_jitter_ms = Slot(LogSegment, "jitter_ms")
cdef Slot segment_recent = Slot(LogSegment, "_recent")
cdef Slot segment_offsets = Slot(LogSegment, "offset_index")
cdef Slot segment_times = Slot(LogSegment, "time_index")
cdef Slot offsets_count = Slot(EntryFile, "count", OffsetIndex)
cdef Slot offsets_max = Slot(EntryFile, "count_max", OffsetIndex)
cdef Slot times_count = Slot(EntryFile, "count", TimeIndex)
cdef Slot times_max = Slot(EntryFile, "count_max", TimeIndex)
cdef Slot file_size = Slot(SegmentFile, "size")
cdef Slot counted_requests = Slot(TopicMetrics, "produce_requests")
cdef Slot counted_bytes = Slot(TopicMetrics, "bytes_in")
cdef Slot counted_messages = Slot(TopicMetrics, "messages_in")
cdef Slot topic_name = Slot(TopicProduceData, "name")
cdef Slot topic_partitions = Slot(TopicProduceData, "partition_data")
cdef Slot asked_index = Slot(PartitionProduceData, "index")
cdef Slot asked_records = Slot(PartitionProduceData, "records")
cdef Slot answered_index = Slot(PartitionProduceResponse, "index")
cdef Slot answered_offset = Slot(PartitionProduceResponse, "base_offset")
cdef Slot answered_time = Slot(PartitionProduceResponse, "log_append_time_ms")
cdef Slot answered_start = Slot(PartitionProduceResponse, "log_start_offset")
cdef Slot answered_name = Slot(TopicProduceResponse, "name")
cdef Slot answered_partitions = Slot(TopicProduceResponse, "partition_responses")
cdef Slot answered_topics = Slot(ProduceResponse, "responses")

cdef int64_t LONG_MAX = setting.LONG_MAX
cdef int64_t offset_span_max = RELATIVE_OFFSET_MAX
cdef Py_ssize_t recent_max = RECENT_BATCHES


cdef inline object named(object cls, tuple values):
    """A NamedTuple of that class."""
    cdef Py_ssize_t index
    items = pb_new_tuple(cls, len(values))
    for index in range(len(values)):
        value = values[index]
        Py_INCREF(value)
        PyTuple_SET_ITEM(items, index, value)
    return items


cdef bint begins_nothing(object segment, object config, int64_t size, int64_t max_timestamp, int64_t last_offset) except -1:
    """Whether a batch of `size` bytes only lengthens the segment: no roll, no index entry, nothing to forget."""
    cdef int64_t position = number(segment_size, segment)
    offsets, times = get(segment_offsets, segment), get(segment_times, segment)
    first = get(segment_first_timestamp, segment)
    return (
        0 < position <= number(config_segment_bytes, config) - size
        and number(offsets_count, offsets) < number(offsets_max, offsets)
        and number(times_count, times) < number(times_max, times)
        and last_offset - number(segment_base, segment) <= offset_span_max
        and number(segment_since_entry, segment) <= number(segment_interval, segment)
        and len(<dict>get(segment_recent, segment)) < recent_max
        and first is not None
        and <int64_t>first >= 0
        and max_timestamp - <int64_t>first <= number(config_segment_ms, config) - number(segment_jitter_ms, segment)
    )


cdef object lengthen(object log, object segment, object records, tuple accepted, int64_t size, object continued):
    """Write a batch that begins nothing, as `LogSegment.append` and `append_accepted` do."""
    cdef int64_t position = number(segment_size, segment), record_count = <int64_t>accepted[0] + 1, max_timestamp = accepted[1]
    file, first_offset, producers = get(segment_file, segment), get(log_end, log), get(log_producers, log)
    last_offset, next_offset = <int64_t>first_offset + record_count - 1, <int64_t>first_offset + record_count
    file.append(records)
    put(segment_size, segment, get(file_size, file))
    if max_timestamp > <int64_t>(<tuple>get(segment_max, segment))[0]:
        put(segment_max, segment, named(TimestampOffset, (max_timestamp, last_offset)))
    add(segment_since_entry, segment, size)
    (<dict>get(segment_recent, segment))[first_offset] = (position, size)
    put(log_end, log, next_offset)
    put(producers_end, producers, next_offset)
    if continued is not None:
        continued.add(accepted[4], last_offset, accepted[0], accepted[1])
    add(log_unflushed, log, record_count)
    info = (first_offset, last_offset, max_timestamp, -1, get(log_start, log), record_count, size, 0, 0, False)
    return named(LogAppendInfo, info)


cdef object append_usual(object partition, records, object now_ms):
    """Append, or return None where that is not usual, before anything was changed. Raises what the log does."""
    cdef int64_t last_offset, max_timestamp, size
    cdef bint is_plain = True
    if type(partition) is not Partition or get(partition_is_alone, partition) is not True:
        return None
    log = get(partition_log, partition)
    if type(log) is not Log or get(log_is_closed, log) or get(directory_failure, get(log_directory, log)) is not None:
        return None
    config, validator = get(log_config, log), get(log_validator, log)
    rules = get(validator_current, validator)
    if get(validator_config, validator) is not config or not get(rules_keep, rules):
        return None
    if number(config_flush_messages, config) != LONG_MAX or number(log_unsettled_upto, log) > number(log_recovery_point, log):
        return None  # some appends have to be durable first
    entries, leader_epoch = <list>get(epochs_entries, get(log_epochs, log)), get(partition_leader_epoch, partition)
    segment, producers = get(segments_active, get(log_segments, log)), get(log_producers, log)
    if not entries or (<tuple>entries[len(entries) - 1])[0] != leader_epoch or get(producers_unreplicated, producers):
        return None
    if get(segment_file, segment) is None or get(segment_max, segment) is None:
        return None
    first_offset = get(log_end, log)
    accepted = kernels.accept_batch(
        records,
        first_offset,
        leader_epoch,
        now_ms,
        get(rules_bytes_max, rules),
        get(rules_before_ms, rules),
        get(rules_after_ms, rules),
        get(rules_is_compacted, rules),
    )
    if accepted is None:
        return None
    last_offset = <int64_t>first_offset + <int64_t>(<tuple>accepted)[0]
    max_timestamp, size = (<tuple>accepted)[1], len(records)
    continued = None
    if <int64_t>(<tuple>accepted)[2] >= 0:
        continued = producers.find_continued(*(<tuple>accepted)[2:])
        is_plain = continued is not None
    if not is_plain or not begins_nothing(segment, config, size, max_timestamp, last_offset):
        info = append_accepted(log, records, accepted, leader_epoch, now_ms)
        segment = get(segments_active, get(log_segments, log))
    else:
        try:
            info = lengthen(log, segment, records, accepted, size, continued)
        except OSError as error:
            raise get(log_directory, log).fail(error) from error
    end = (get(log_end, log), get(segment_base, segment), get(segment_size, segment))
    put(partition_high_watermark, partition, named(LogOffsetMetadata, end))
    return info


cdef int count(object metrics, object name, object size, object record_count) except -1:
    own = (<dict>metrics.topics).get(name)
    if own is None:
        own = metrics.topic(name)
    for counters in (metrics.all_topics, own):
        add(counted_requests, counters, 1)
        add(counted_bytes, counters, size)
        add(counted_messages, counters, record_count)
    return 0


def produce_one(manager, topic, blank_response, blank_topic, blank_partition, answer_one):
    cdef list asked_partitions = get(topic_partitions, topic)
    name = get(topic_name, topic)
    if len(asked_partitions) != 1 or name in INTERNAL_TOPICS:
        return None
    asked = asked_partitions[0]
    index, records = get(asked_index, asked), get(asked_records, asked)
    topic_partition = named(TopicPartition, (name, index))
    partition = (<dict>manager._partitions).get(topic_partition)
    if partition is None or records is None:
        return None
    try:
        info = append_usual(partition, records, manager._clock.time_ms())
    except Exception as error:
        answered = answer_one(topic_partition, manager.failed_append(partition, records, error))
    else:
        if info is None:
            return None
        count(manager._metrics, name, (<tuple>info)[6], (<tuple>info)[5])
        if topic_partition in manager.produce_purgatory.watchers or topic_partition in manager.fetch_purgatory.watchers:
            manager._wake(topic_partition)
        answered = pb_clone(blank_partition)
        put(answered_index, answered, index)
        put(answered_offset, answered, (<tuple>info)[0])
        put(answered_time, answered, (<tuple>info)[3])
        put(answered_start, answered, (<tuple>info)[4])
    response, answered_topic = pb_clone(blank_response), pb_clone(blank_topic)
    put(answered_name, answered_topic, name)
    put(answered_partitions, answered_topic, [answered])
    put(answered_topics, response, [answered_topic])
    return response
