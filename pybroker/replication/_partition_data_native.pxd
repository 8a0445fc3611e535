"""The types of `_partition_data_python`: numbers of 64 bits where they are numbers of the broker's own, and objects, at places that
native code of this package knows by this file.
"""

cimport cython
from libc.stdint cimport int64_t


cpdef bint is_present_epoch(current_leader_epoch, leader_epoch) except -1


cdef class FetchPartition:
    cdef public object topic, topic_id, partition, topic_partition, fetch_offset, max_bytes
    cdef public object log_start_offset, current_leader_epoch, last_fetched_epoch

    cpdef bint means(self, topic_id) except -1


cdef class CachedPartition(FetchPartition):
    cdef public object sent_high_watermark, sent_log_start_offset

    @cython.locals(must_send=bint)
    cpdef bint remember_response(self, FetchPartitionData data) except -1


cdef class FetchPartitionData:
    cdef public object error_code, high_watermark, last_stable_offset, log_start_offset, records, aborted_transactions
    cdef public object diverging_epoch, preferred_read_replica, fetch_offset_metadata, cut_batch_size


cdef class ResponseLimit:
    cdef public int64_t bytes_left
    cdef public bint min_one_batch

    cpdef int64_t bytes_max(self, FetchPartition wanted) except? -1
    cpdef int take(self, int64_t size) except -1
