# cython: boundscheck=False, wraparound=False, cdivision=True
"""The three loops of a fetch over its partitions, for what is usual; `_pure` has the same, and the tests run on both.

Usual is a partition that this broker leads, read by a client at its end or at a batch that was written lately. All else goes to
the function that the caller gives, which is the one that knows every case, so nothing here says an error.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.string cimport memcpy

from pybroker.log.file_records import FileRecords
from pybroker.log.log import Log
from pybroker.log.results import LogOffsetMetadata
from pybroker.model import ZERO_TOPIC_ID, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.fetch_data import FetchIsolation, FetchPartition, FetchPartitionData


cdef extern from *:
    """
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


cdef extern from "Python.h":
    void PyTuple_SET_ITEM(object items, Py_ssize_t index, object item)
    object PyTuple_GET_ITEM(object items, Py_ssize_t index)


cdef object NONE = ErrorCode.NONE
cdef object LOG_END = FetchIsolation.LOG_END
cdef object HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK
cdef object log_class = Log
cdef object zero_topic_id = ZERO_TOPIC_ID


cdef object _slots_only(object blank):
    """An object to make copies of; refuses what `pb_clone` could not copy."""
    if not pb_is_slots_only(blank):
        raise TypeError(f"{type(blank).__name__} has more than slots")
    return blank


cdef object blank_wanted = _slots_only(FetchPartition("", ZERO_TOPIC_ID, 0, fetch_offset=0, max_bytes=0))
cdef object blank_data = _slots_only(FetchPartitionData())


cdef object pair(object cls, object first, object second):
    items = pb_new_tuple(cls, 2)
    Py_INCREF(first)
    PyTuple_SET_ITEM(items, 0, first)
    Py_INCREF(second)
    PyTuple_SET_ITEM(items, 1, second)
    return items


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
            wanted.topic = name
            wanted.topic_id = topic_id
            wanted.partition = number
            wanted.topic_partition = pair(TopicPartition, name or "", number)
            wanted.fetch_offset = asked.fetch_offset
            wanted.max_bytes = asked.partition_max_bytes
            wanted.log_start_offset = asked.log_start_offset
            wanted.current_leader_epoch = asked.current_leader_epoch
            wanted.last_fetched_epoch = asked.last_fetched_epoch
            found.append(wanted)
    return found


def read_partitions(dict partitions, params, wanted_partitions, read_one):
    """Read one partition after the other within the limits of `params`."""
    cdef long long bytes_left = params.max_bytes, bytes_max, size
    cdef bint min_one_batch = not params.hard_max_bytes_limit
    cdef list results = []
    isolation = params.isolation
    for wanted in wanted_partitions:
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
    if partition is None or bytes_max < 0:
        return None
    log = partition.log
    if type(log) is not log_class or not partition.is_leader or <long long>wanted.last_fetched_epoch >= 0:
        return None
    epoch = wanted.current_leader_epoch
    if epoch != -1 and epoch != <long long>partition.leader_epoch:
        return None
    topic_id = wanted.topic_id
    if topic_id is not zero_topic_id and topic_id != log.topic_id:
        return None
    producers = log.producers
    if producers.ongoing or producers.unreplicated:
        return None  # the last stable offset is another
    end = partition.high_watermark_metadata
    high_watermark = PyTuple_GET_ITEM(end, 0)
    offset = wanted.fetch_offset
    log_start_offset = log.log_start_offset
    if offset == high_watermark:
        data = partition._nothing_new
        if (
            data is not None
            and data.fetch_offset_metadata is end
            and <long long>data.high_watermark == high_watermark
            and <long long>data.last_stable_offset == high_watermark
            and data.log_start_offset == log_start_offset
        ):
            return data
        return None
    if (
        isolation is not HIGH_WATERMARK
        or not <long long>log_start_offset <= offset < high_watermark
        or high_watermark < <long long>log.log_end_offset
        or log.is_closed
        or log.log_directory.failure is not None
    ):
        return None
    segment = log.segments.active
    file = segment._file
    place = (<dict>segment._recent).get(wanted.fetch_offset)
    if place is None or file is None:
        return None
    position, batch_size = place
    size = bytes_max
    if min_one_batch and size < batch_size:
        size = batch_size
    size = min(size, <long long>segment.size - position)
    if size < batch_size or size <= 0:
        return None
    place = pb_new_tuple(LogOffsetMetadata, 3)
    for index, value in enumerate((wanted.fetch_offset, segment.base_offset, position)):
        Py_INCREF(value)
        PyTuple_SET_ITEM(place, index, value)
    data = pb_clone(blank_data)
    data.high_watermark = data.last_stable_offset = PyTuple_GET_ITEM(end, 0)
    data.log_start_offset = log_start_offset
    data.records = FileRecords(file, position, size)
    data.fetch_offset_metadata = place
    return data


def read_at_once(
    dict partitions, topics, names, isolation, long long bytes_left, long long bytes_needed,
    metrics, blank_topic, blank_partition, Py_ssize_t copied_max, Py_ssize_t copied_sum_max,
):
    """The three loops in one go if all that is asked for is usual and enough; else None, and nothing was counted."""
    cdef long long bytes_max, bytes_read = 0
    cdef bint min_one_batch = True
    cdef list results = []
    wanted_all = wanted_partitions(topics, names)
    if not wanted_all or (len(wanted_all) > 1 and len({wanted.topic_partition for wanted in wanted_all}) < len(wanted_all)):
        return None
    for wanted in wanted_all:
        bytes_max = min(bytes_left, <long long>wanted.max_bytes)
        data = read_usual(partitions.get(wanted.topic_partition), wanted, isolation, bytes_max, min_one_batch)
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
    return answered_topics(results, metrics, True, None, blank_topic, blank_partition, copied_max, copied_sum_max)


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
        records = data.records
        name = wanted.topic
        if (
            not is_plain
            or data.error_code is not NONE
            or data.diverging_epoch is not None
            or data.aborted_transactions is not None
            or name is None
        ):
            answered = answer_one(wanted, data)
        else:
            answered = pb_clone(blank_partition)
            answered.partition_index = wanted.partition
            answered.high_watermark = data.high_watermark
            answered.last_stable_offset = data.last_stable_offset
            answered.log_start_offset = data.log_start_offset
            answered.preferred_read_replica = data.preferred_read_replica
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
            copied = records.copied(min(copied_sum_max, copied_max))
            if copied is not None:
                answered.records = copied
                copied_sum_max -= len(copied)
        topic_id = wanted.topic_id
        if partitions is None or name != last_name or topic_id != last_id:
            last_name, last_id, partitions = name, topic_id, []
            topic = pb_clone(blank_topic)
            topic.topic = last_name or ""
            topic.topic_id = last_id
            topic.partitions = partitions
            topics.append(topic)
        partitions.append(answered)
    return topics
