# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads the usual partitions of a fetch; `_reading_python` has the contract.

It makes and reads the objects of `partition_data`, whose places its .pxd declares. All other objects have their attributes looked
up by their names.
"""

from pybroker.protocol._tuples cimport pb_new_tuple, set_item
from pybroker.replication._partition_data_native cimport FetchPartition, FetchPartitionData

from pybroker.log.file_records import FileRecords
from pybroker.log.log import Log
from pybroker.log.results import LogOffsetMetadata
from pybroker.model import ZERO_TOPIC_ID, TopicPartition
from pybroker.replication.fetch_data import FetchIsolation
from pybroker.replication.partition import Partition


cdef object HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK
cdef object log_class = Log
cdef object partition_class = Partition
cdef object zero_topic_id = ZERO_TOPIC_ID


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
            number = asked.partition
            topic_partition = pb_new_tuple(TopicPartition, 2)
            set_item(topic_partition, 0, "" if name is None else name)
            set_item(topic_partition, 1, number)
            wanted = FetchPartition.__new__(FetchPartition)
            wanted.topic = name
            wanted.topic_id = topic_id
            wanted.partition = number
            wanted.topic_partition = topic_partition
            wanted.fetch_offset = asked.fetch_offset
            wanted.max_bytes = asked.partition_max_bytes
            wanted.log_start_offset = asked.log_start_offset
            wanted.current_leader_epoch = asked.current_leader_epoch
            wanted.last_fetched_epoch = asked.last_fetched_epoch
            found.append(wanted)
    return found


cpdef object read_usual(
    object partition, FetchPartition wanted, object isolation, long long bytes_max, bint min_one_batch
):
    cdef long long epoch, offset, high_watermark, position, batch_size, size
    cdef FetchPartitionData data
    if type(partition) is not partition_class or bytes_max < 0:
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
    end_offset = partition.high_watermark
    high_watermark = end_offset
    fetch_offset = wanted.fetch_offset
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
    data = FetchPartitionData()
    data.high_watermark = data.last_stable_offset = end_offset
    data.log_start_offset = log_start_offset
    data.records = FileRecords(file, position, size)
    data.fetch_offset_metadata = place
    return data


def read_at_once(dict partitions, topics, names, isolation, long long bytes_left, long long bytes_needed):
    cdef long long bytes_max, bytes_read = 0
    cdef bint min_one_batch = True
    cdef list results = []
    cdef FetchPartition wanted
    cdef FetchPartitionData data
    cdef list wanted_all
    wanted_all = wanted_partitions(topics, names)
    if not wanted_all or (len(wanted_all) > 1 and len({one.topic_partition for one in wanted_all}) < len(wanted_all)):
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
    return results
