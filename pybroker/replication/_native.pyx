# cython: boundscheck=False, wraparound=False, cdivision=True
"""The three loops of a fetch over its partitions, for what is usual; `_pure` has the same, and the tests run on both.

Usual is a partition that this broker leads, read by a client at its end or at a batch that was written lately. All else goes to
the function that the caller gives, which is the one that knows every case, so nothing here says an error.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF

from pybroker.log.file_records import HOT_TAIL, FileRecords
from pybroker.log.log import Log
from pybroker.log.results import LogOffsetMetadata
from pybroker.log.segment import LogSegment
from pybroker.log.segments import Segments
from pybroker.model import ZERO_TOPIC_ID, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.fetch_data import FetchIsolation, FetchPartition, FetchPartitionData
from pybroker.replication.partition import Partition


cdef extern from *:
    """
    #include <structmember.h>
    static inline Py_ssize_t pb_slot(PyObject *member) {
        return Py_TYPE(member) == &PyMemberDescr_Type ? ((PyMemberDescrObject *)member)->d_member->offset : -1;
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
    static inline int pb_is_slots_only(PyObject *prototype) {
        PyTypeObject *cls = Py_TYPE(prototype);
        return cls->tp_dictoffset == 0 && cls->tp_weaklistoffset == 0 && cls->tp_itemsize == 0
            && cls->tp_new == PyBaseObject_Type.tp_new;
    }
    static inline PyObject *pb_new_tuple(PyObject *cls, Py_ssize_t size) {
        return ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, size);
    }
    """
    bint pb_is_slots_only(object prototype)
    object pb_clone(object prototype)  # of a class whose instances are slots and nothing else
    object pb_new_tuple(object cls, Py_ssize_t size)
    Py_ssize_t pb_slot(object member)


cdef extern from "Python.h":
    void PyTuple_SET_ITEM(object items, Py_ssize_t index, object item)
    PyObject *PyTuple_GET_ITEM(object items, Py_ssize_t index)  # borrowed


cdef object NONE = ErrorCode.NONE
cdef object LOG_END = FetchIsolation.LOG_END
cdef object HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK
cdef object log_class = Log
cdef object partition_class = Partition
cdef object data_class = FetchPartitionData
cdef Py_ssize_t hot_tail = HOT_TAIL
cdef object zero_topic_id = ZERO_TOPIC_ID


cdef object _slots_only(object blank):
    """An object to make copies of; refuses what `pb_clone` could not copy."""
    if not pb_is_slots_only(blank):
        raise TypeError(f"{type(blank).__name__} has more than slots")
    return blank


cdef object blank_wanted = _slots_only(FetchPartition("", ZERO_TOPIC_ID, 0, fetch_offset=0, max_bytes=0))
cdef object blank_data = _slots_only(FetchPartitionData())


cdef void set_item(object items, Py_ssize_t index, object item):
    Py_INCREF(item)
    PyTuple_SET_ITEM(items, index, item)


cdef object pair(object cls, object first, object second):
    items = pb_new_tuple(cls, 2)
    set_item(items, 0, first)
    set_item(items, 1, second)
    return items


cdef Py_ssize_t slot(object cls, str name) except -1:
    """Where the objects of a class have an attribute."""
    cdef Py_ssize_t where = pb_slot(cls.__dict__[name])
    if where < 0:
        raise TypeError(f"{name} is no slot of {cls.__name__}")
    return where


cdef inline object at(object owner, Py_ssize_t where):
    """The attribute of an object whose class is known: what a lookup by its name finds, for a tenth of the cost."""
    cdef PyObject *value = (<PyObject **>(<char *><PyObject *>owner + where))[0]
    if value == NULL:
        raise AttributeError("an attribute that was never set")
    return <object>value


cdef inline void put(object owner, Py_ssize_t where, object value):
    """Set an attribute of an object whose class is known."""
    cdef PyObject **place = <PyObject **>(<char *><PyObject *>owner + where)
    cdef PyObject *before = place[0]
    Py_INCREF(value)
    place[0] = <PyObject *>value
    Py_XDECREF(before)


cdef Py_ssize_t wanted_topic = slot(FetchPartition, "topic")
cdef Py_ssize_t wanted_topic_id = slot(FetchPartition, "topic_id")
cdef Py_ssize_t wanted_number = slot(FetchPartition, "partition")
cdef Py_ssize_t wanted_partition = slot(FetchPartition, "topic_partition")
cdef Py_ssize_t wanted_offset = slot(FetchPartition, "fetch_offset")
cdef Py_ssize_t wanted_max_bytes = slot(FetchPartition, "max_bytes")
cdef Py_ssize_t wanted_log_start = slot(FetchPartition, "log_start_offset")
cdef Py_ssize_t wanted_epoch = slot(FetchPartition, "current_leader_epoch")
cdef Py_ssize_t wanted_last_epoch = slot(FetchPartition, "last_fetched_epoch")

cdef Py_ssize_t data_error = slot(FetchPartitionData, "error_code")
cdef Py_ssize_t data_high_watermark = slot(FetchPartitionData, "high_watermark")
cdef Py_ssize_t data_stable = slot(FetchPartitionData, "last_stable_offset")
cdef Py_ssize_t data_log_start = slot(FetchPartitionData, "log_start_offset")
cdef Py_ssize_t data_records = slot(FetchPartitionData, "records")
cdef Py_ssize_t data_aborted = slot(FetchPartitionData, "aborted_transactions")
cdef Py_ssize_t data_diverging = slot(FetchPartitionData, "diverging_epoch")
cdef Py_ssize_t data_replica = slot(FetchPartitionData, "preferred_read_replica")
cdef Py_ssize_t data_place = slot(FetchPartitionData, "fetch_offset_metadata")

cdef Py_ssize_t partition_log = slot(Partition, "log")
cdef Py_ssize_t partition_is_leader = slot(Partition, "is_leader")
cdef Py_ssize_t partition_epoch = slot(Partition, "leader_epoch")
cdef Py_ssize_t partition_high_watermark = slot(Partition, "high_watermark_metadata")
cdef Py_ssize_t partition_nothing_new = slot(Partition, "_nothing_new")

cdef Py_ssize_t log_topic_id = slot(Log, "topic_id")
cdef Py_ssize_t log_producers = slot(Log, "producers")
cdef Py_ssize_t log_start = slot(Log, "log_start_offset")
cdef Py_ssize_t log_end = slot(Log, "log_end_offset")
cdef Py_ssize_t log_is_closed = slot(Log, "is_closed")
cdef Py_ssize_t log_directory = slot(Log, "log_directory")
cdef Py_ssize_t log_segments = slot(Log, "segments")
cdef Py_ssize_t segments_active = slot(Segments, "active")
cdef Py_ssize_t segment_file = slot(LogSegment, "_file")
cdef Py_ssize_t segment_base_offset = slot(LogSegment, "base_offset")


def wanted_partitions(topics, names):
    """What the topics of a request ask for. `names` finds a topic's name by its id, None where topics are named."""
    cdef list found = []
    for topic in topics:
        if names is None:
            name, topic_id = topic.topic, zero_topic_id
        else:
            topic_id = topic.topic_id
            name = names(topic_id)
        for asked in topic.partitions:
            wanted = pb_clone(blank_wanted)
            number = asked.partition
            put(wanted, wanted_topic, name)
            put(wanted, wanted_topic_id, topic_id)
            put(wanted, wanted_number, number)
            put(wanted, wanted_partition, pair(TopicPartition, "" if name is None else name, number))
            put(wanted, wanted_offset, asked.fetch_offset)
            put(wanted, wanted_max_bytes, asked.partition_max_bytes)
            put(wanted, wanted_log_start, asked.log_start_offset)
            put(wanted, wanted_epoch, asked.current_leader_epoch)
            put(wanted, wanted_last_epoch, asked.last_fetched_epoch)
            found.append(wanted)
    return found


def read_partitions(dict partitions, params, wanted_partitions, read_one):
    """Read one partition after the other within the limits of `params`."""
    cdef long long bytes_left = params.max_bytes, bytes_max, size
    cdef bint min_one_batch = not params.hard_max_bytes_limit
    cdef list results = []
    isolation = params.isolation
    for wanted in wanted_partitions:
        if not isinstance(wanted, FetchPartition):
            raise TypeError("no partition to fetch")
        bytes_max = wanted.max_bytes
        if bytes_left < bytes_max:
            bytes_max = bytes_left
        data = None
        if isolation is not LOG_END:
            data = read_usual(partitions.get(wanted.topic_partition), wanted, isolation, bytes_max, min_one_batch)
        if data is None:
            data = read_one(params, wanted, bytes_max, min_one_batch)
        results.append((wanted, data))
        records = data.records
        if records is not None:
            size = records.size
            if size:
                min_one_batch = False
                bytes_left = max(0, bytes_left - size)
    return results


cdef object read_usual(object partition, object wanted, object isolation, long long bytes_max, bint min_one_batch):
    """What there is to read, or None where that is not for this function to say."""
    cdef long long epoch, offset, high_watermark, position, batch_size, size
    if type(partition) is not partition_class or bytes_max < 0:
        return None
    log = at(partition, partition_log)
    if type(log) is not log_class or not at(partition, partition_is_leader) or <long long>at(wanted, wanted_last_epoch) >= 0:
        return None
    epoch = at(wanted, wanted_epoch)
    if epoch != -1 and epoch != <long long>at(partition, partition_epoch):
        return None
    topic_id = at(wanted, wanted_topic_id)
    if topic_id is not zero_topic_id and topic_id != at(log, log_topic_id):
        return None
    producers = at(log, log_producers)
    if producers.ongoing or producers.unreplicated:
        return None  # the last stable offset is another
    end = at(partition, partition_high_watermark)
    end_offset = <object>PyTuple_GET_ITEM(end, 0)
    high_watermark = end_offset
    fetch_offset = at(wanted, wanted_offset)
    offset = fetch_offset
    log_start_offset = at(log, log_start)
    if offset == high_watermark:
        data = at(partition, partition_nothing_new)
        if (
            data is not None
            and at(data, data_place) is end
            and <long long>at(data, data_high_watermark) == high_watermark
            and <long long>at(data, data_stable) == high_watermark
            and at(data, data_log_start) == log_start_offset
        ):
            return data
        return None
    if (
        isolation is not HIGH_WATERMARK
        or not <long long>log_start_offset <= offset < high_watermark
        or high_watermark < <long long>at(log, log_end)
        or at(log, log_is_closed)
        or at(log, log_directory).failure is not None
    ):
        return None
    segment = at(at(log, log_segments), segments_active)
    file = at(segment, segment_file)
    found = segment.tail.recent.get(fetch_offset)
    if found is None or file is None:
        return None
    position, batch_size = found
    size = bytes_max
    if min_one_batch and size < batch_size:
        size = batch_size
    size = min(size, <long long>segment.tail.size - position)
    if size < batch_size or size <= 0:
        return None
    place = pb_new_tuple(LogOffsetMetadata, 3)
    set_item(place, 0, fetch_offset)
    set_item(place, 1, at(segment, segment_base_offset))
    set_item(place, 2, position)
    data = pb_clone(blank_data)
    put(data, data_high_watermark, end_offset)
    put(data, data_stable, end_offset)
    put(data, data_log_start, log_start_offset)
    put(data, data_records, FileRecords(file, position, size))
    put(data, data_place, place)
    return data


def read_at_once(
    dict partitions, topics, names, isolation, long long bytes_left, long long bytes_needed,
    metrics, blank_response, blank_topic, blank_partition, Py_ssize_t copied_max, Py_ssize_t copied_sum_max,
):
    """The three loops in one go if all that is asked for is usual and enough; else None, and nothing was counted."""
    cdef long long bytes_max, bytes_read = 0
    cdef bint min_one_batch = True
    cdef list results = []
    wanted_all = wanted_partitions(topics, names)
    if not wanted_all or (len(wanted_all) > 1 and len({wanted.topic_partition for wanted in wanted_all}) < len(wanted_all)):
        return None
    for wanted in wanted_all:
        bytes_max = min(bytes_left, <long long>at(wanted, wanted_max_bytes))
        data = read_usual(partitions.get(at(wanted, wanted_partition)), wanted, isolation, bytes_max, min_one_batch)
        if data is None:
            return None
        results.append((wanted, data))
        records = data.records
        if records is not None:
            min_one_batch = False
            bytes_max = records.size
            bytes_read += bytes_max
            bytes_left = max(0, bytes_left - bytes_max)
    if bytes_read < bytes_needed:
        return None
    response = pb_clone(_slots_only(blank_response))
    response.responses = answered_topics(
        results, metrics, True, None, blank_topic, blank_partition, copied_max, copied_sum_max
    )
    return response


cdef object copied_slice(object records, Py_ssize_t bytes_max):
    """`records.copied(bytes_max)`, without the calls where the slice is surely in memory."""
    cdef Py_ssize_t size = records.size
    if size > bytes_max:
        return None
    file = records.file
    if file.is_growing and <Py_ssize_t>records.position >= <Py_ssize_t>file.size - hot_tail:
        try:
            data = file.filesystem.pread(file.fd, size, records.position)
        except OSError:
            return None  # as in `copied`
        if len(data) == size:
            return data
    return records.copied(bytes_max)


def answered_topics(
    results, metrics, bint is_plain, answer_one, blank_topic, blank_partition, Py_ssize_t copied_max, Py_ssize_t copied_sum_max
):
    """What is answered for each partition, by topics, and counted."""
    cdef list topics = [], partitions = None
    cdef Py_ssize_t size
    last_name = last_id = None
    all_topics, by_name = metrics.all_topics, metrics.topics
    _slots_only(blank_topic)
    _slots_only(blank_partition)
    for wanted, data in results:
        if type(data) is not data_class or not isinstance(wanted, FetchPartition):
            raise TypeError("not the result of a read")
        records = at(data, data_records)
        name = at(wanted, wanted_topic)
        if (
            not is_plain
            or at(data, data_error) is not NONE
            or at(data, data_diverging) is not None
            or at(data, data_aborted) is not None
            or name is None
        ):
            answered = answer_one(wanted, data)
        else:
            answered = pb_clone(blank_partition)
            answered.partition_index = at(wanted, wanted_number)
            answered.high_watermark = at(data, data_high_watermark)
            answered.last_stable_offset = at(data, data_stable)
            answered.log_start_offset = at(data, data_log_start)
            answered.preferred_read_replica = at(data, data_replica)
            answered.aborted_transactions = None
            answered.records = b"" if records is None else records
            size = 0 if records is None else records.size
            own = by_name.get(name)
            if own is None:
                own = metrics.topic(name)
            all_topics.fetch_requests += 1
            own.fetch_requests += 1
            if size:
                all_topics.bytes_out += size
                own.bytes_out += size
        if records is not None and answered.records is records:
            copied = copied_slice(records, min(copied_sum_max, copied_max))
            if copied is not None:
                answered.records = copied
                copied_sum_max -= len(copied)
        topic_id = at(wanted, wanted_topic_id)
        if partitions is None or name != last_name or topic_id != last_id:
            last_name, last_id, partitions = name, topic_id, []
            topic = pb_clone(blank_topic)
            topic.topic = last_name or ""
            topic.topic_id = last_id
            topic.partitions = partitions
            topics.append(topic)
        partitions.append(answered)
    return topics
