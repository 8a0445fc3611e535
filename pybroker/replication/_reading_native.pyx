# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads the usual partitions of a fetch; `_reading_python` has the contract.

It makes and reads the objects of `partition_data`, and reads the partition and its log, at the places that their .pxd declare. All
other objects have their attributes looked up by their names.

The conditions here choose which partitions are usual: nothing about such a partition has to be looked up, refused or waited for. What
is then read is not decided here, but where the general way decides it, too: how much of a response is left in `ResponseLimit`, and
the slice of the segment in `log/_slices_python.py`.
"""

from libc.stdint cimport int64_t
from pybroker.log._end_native cimport LogEnd
from pybroker.log._slices_native cimport read_recent
from pybroker.protocol._tuples cimport pb_new_tuple, set_item
from pybroker.replication._leading_native cimport LeaderState
from pybroker.replication._partition_data_native cimport FetchPartition, FetchPartitionData, ResponseLimit, is_present_epoch

from pybroker.log.log import Log
from pybroker.model import ZERO_TOPIC_ID, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.fetch_data import FetchIsolation
from pybroker.replication._reading_python import USUAL_MAX
from pybroker.replication.partition import Partition
from pybroker.replication.partition_data import NO_PREFERRED_REPLICA


cdef object COMMITTED = FetchIsolation.TXN_COMMITTED
cdef object LOG_END = FetchIsolation.LOG_END
cdef object log_class = Log
cdef object no_error = ErrorCode.NONE
cdef object no_preferred_replica = NO_PREFERRED_REPLICA
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


cpdef object read_usual(object partition, FetchPartition wanted, object isolation, ResponseLimit limit):
    cdef int64_t bytes_max = limit.bytes_max(wanted)
    cdef int64_t fetch_offset
    cdef FetchPartitionData data
    cdef LeaderState leader
    cdef LogEnd log
    if type(partition) is not partition_class or bytes_max < 0:
        return None
    leader = <LeaderState>partition
    log = leader.log
    if type(log) is not log_class or not wanted.means((<object>log).topic_id):
        return None
    if not leader.is_leader or not is_present_epoch(wanted.current_leader_epoch, leader.leader_epoch):
        return None
    fetch_offset = wanted.fetch_offset
    if <int64_t>wanted.last_fetched_epoch >= 0 and not ends_in(log.epochs.entries, wanted.last_fetched_epoch, fetch_offset, log.log_end_offset):
        return None
    producers = log.producers
    if producers.ongoing or producers.unreplicated:
        return None  # the last stable offset may be another
    high_watermark = leader.high_watermark
    if isolation is LOG_END:
        if log.unsettled_upto > log.recovery_point:
            return None
        if fetch_offset == log.log_end_offset:
            return partition.nothing_new((<object>log).end_offset_metadata)
    elif fetch_offset == <int64_t>high_watermark:
        return partition.nothing_new(partition.high_watermark_metadata)
    if fetch_offset < log.log_start_offset:
        return None
    if log.is_closed or log.log_directory.failure is not None:
        return None
    active = log.segments.active
    end_position = None
    if isolation is not LOG_END and <int64_t>high_watermark < log.log_end_offset:
        _, base_offset, end_position = partition.high_watermark_metadata
        if base_offset != active.base_offset:
            return None
    fetched = read_recent(active, wanted.fetch_offset, bytes_max, limit.min_one_batch, end_position)
    if fetched is None:
        return None
    if isolation is COMMITTED:
        index = active.transaction_index  # which alone has what was aborted after an offset of this segment
        if not index.is_loaded or index.count:
            return None
    records, size, place, _, is_first_incomplete = <tuple>fetched
    if is_first_incomplete or not size:
        return None
    data = FetchPartitionData.__new__(FetchPartitionData)
    data.error_code = no_error
    data.high_watermark = data.last_stable_offset = high_watermark
    data.log_start_offset = log.log_start_offset
    data.records = records
    data.aborted_transactions = () if isolation is COMMITTED else None
    data.diverging_epoch = None
    data.preferred_read_replica = no_preferred_replica
    data.fetch_offset_metadata = place
    data.cut_batch_size = 0
    return data


cdef bint ends_in(list entries, last_fetched_epoch, int64_t fetch_offset, int64_t log_end_offset) except -1:
    """Return whether the epoch of the fetcher's last record is also that of the log's last one, so that they cannot diverge."""
    return bool(entries) and entries[len(entries) - 1].epoch == last_fetched_epoch and fetch_offset <= log_end_offset


def read_all_usual(dict partitions, topics, names, isolation, long long bytes_left, long long bytes_needed):
    cdef long long bytes_read = 0
    cdef ResponseLimit limit = ResponseLimit(bytes_left, True)
    cdef list results = []
    cdef FetchPartition wanted
    cdef FetchPartitionData data
    cdef list wanted_all
    wanted_all = wanted_partitions(topics, names)
    if not wanted_all or len(wanted_all) > USUAL_MAX or (len(wanted_all) > 1 and len({one.topic_partition for one in wanted_all}) < len(wanted_all)):
        return None
    for wanted in wanted_all:
        data = read_usual(partitions.get(wanted.topic_partition), wanted, isolation, limit)
        if data is None:
            return None
        results.append((wanted, data))
        records = data.records
        if records is not None:
            bytes_read += records.size
            limit.take(records.size)
    if bytes_read < bytes_needed:
        return None
    return results
