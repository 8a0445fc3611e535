# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads the usual partitions of a fetch; `_reading_python` has the contract.

The offsets in memory are those of this package's own objects: the wanted partitions of a fetch, its results, and
partitions. The attributes of a log are read by their names.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF

from pybroker.log.file_records import FileRecords
from pybroker.log.log import Log
from pybroker.log.results import LogOffsetMetadata
from pybroker.model import ZERO_TOPIC_ID, TopicPartition
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


cdef object LOG_END = FetchIsolation.LOG_END
cdef object HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK
cdef object log_class = Log
cdef object partition_class = Partition
cdef object zero_topic_id = ZERO_TOPIC_ID


cdef object _slots_only(object blank):
    """Return an object to make copies of; refuse an object that `pb_clone` could not copy."""
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
    """Return where the objects of a class have an attribute."""
    cdef Py_ssize_t where = pb_slot(cls.__dict__[name])
    if where < 0:
        raise TypeError(f"{name} is not a slot of {cls.__name__}")
    return where


cdef inline object at(object owner, Py_ssize_t where):
    """Return the attribute of an object whose class is known, for a tenth of the cost of a lookup by name."""
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

cdef Py_ssize_t data_high_watermark = slot(FetchPartitionData, "high_watermark")
cdef Py_ssize_t data_stable = slot(FetchPartitionData, "last_stable_offset")
cdef Py_ssize_t data_log_start = slot(FetchPartitionData, "log_start_offset")
cdef Py_ssize_t data_records = slot(FetchPartitionData, "records")
cdef Py_ssize_t data_place = slot(FetchPartitionData, "fetch_offset_metadata")


def wanted_partitions(topics, names):
    """Return what the topics of a request ask for. `names` finds a topic's name by its id, None where topics are named."""
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


cpdef object read_usual(object partition, object wanted, object isolation, long long bytes_max, bint min_one_batch):
    cdef long long epoch, offset, high_watermark, position, batch_size, size
    if not isinstance(wanted, FetchPartition):
        raise TypeError("no partition to fetch")
    if type(partition) is not partition_class or bytes_max < 0:
        return None
    log = partition.log
    if type(log) is not log_class or not partition.is_leader or <long long>at(wanted, wanted_last_epoch) >= 0:
        return None
    epoch = at(wanted, wanted_epoch)
    if epoch != -1 and epoch != <long long>partition.leader_epoch:
        return None
    topic_id = at(wanted, wanted_topic_id)
    if topic_id is not zero_topic_id and topic_id != log.topic_id:
        return None
    producers = log.producers
    if producers.ongoing or producers.unreplicated:
        return None  # the last stable offset is another
    end_offset = partition.high_watermark
    high_watermark = end_offset
    fetch_offset = at(wanted, wanted_offset)
    offset = fetch_offset
    if offset == high_watermark:
        return partition.nothing_new(partition.high_watermark_metadata)
    log_start_offset = log.log_start_offset
    if (
        isolation is not HIGH_WATERMARK
        or not <long long>log_start_offset <= offset < high_watermark
        or high_watermark < <long long>log.log_end_offset
        or log.is_closed
        or log.log_directory.failure is not None
    ):
        return None
    segment = log.segments.active
    found = segment.recent_batch(fetch_offset)
    if found is None:
        return None
    file, position, batch_size = found
    size = bytes_max
    if min_one_batch and size < batch_size:
        size = batch_size
    size = min(size, <long long>segment.tail.size - position)
    if size < batch_size or size <= 0:
        return None
    place = pb_new_tuple(LogOffsetMetadata, 3)
    set_item(place, 0, fetch_offset)
    set_item(place, 1, segment.base_offset)
    set_item(place, 2, position)
    data = pb_clone(blank_data)
    put(data, data_high_watermark, end_offset)
    put(data, data_stable, end_offset)
    put(data, data_log_start, log_start_offset)
    put(data, data_records, FileRecords(file, position, size))
    put(data, data_place, place)
    return data


def read_at_once(dict partitions, topics, names, isolation, long long bytes_left, long long bytes_needed):
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
    return results
