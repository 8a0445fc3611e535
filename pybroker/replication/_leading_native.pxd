"""The types of `_leading_python`: objects at places of their own."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.log cimport _end_native
from pybroker.metrics cimport _counts_native
from pybroker.protocol cimport _tuples as model


cdef class LeaderState:
    cdef public object high_watermark, isr, leader_epoch, topic_partition
    cdef public _end_native.LogEnd log
    cdef public bint is_leader
    cdef public bint _is_alone
    cdef public object _high_watermark_metadata

    @cython.locals(log=_end_native.LogEnd)
    cpdef append_records_to_leader(self, records, int64_t acks, now_ms, origin=*, request_version=*, work=*)
    @cython.locals(log=_end_native.LogEnd)
    cpdef _follow_log_end(self)


cdef class LeaderAppends:
    cdef public object _metrics, fetch_purgatory, produce_purgatory
    cdef public dict _partitions, tracked

    @cython.locals(partition=LeaderState, log=_end_native.LogEnd, counts=_counts_native.TopicCounts, topics=dict)
    cpdef append_one(
        self, topic_partition, records, int64_t acks, now_ms, request_version, origin=*, bint is_internal_allowed=*, work=*
    )
    cpdef wake(self, topic_partition)
