"""The types of `_end_python`: numbers of 64 bits where they are numbers of the log's own, and objects."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.protocol cimport _tuples as model


cdef class AppendSettings:
    cdef public object config, current, is_compacted, kept_codecs, timestamp_after_max_ms, timestamp_before_max_ms, usual_bytes_max
    cdef public object segment_bytes, segment_ms
    cdef public int64_t flush_messages


cdef class LogEnd:
    cdef public object config, epochs, log_directory, producers, segments
    cdef public AppendSettings validator
    cdef public bint is_closed, is_unfinished
    cdef public int64_t log_end_offset, log_start_offset, recovery_point, unflushed_messages, unsettled_upto

    cpdef append_as_leader(self, records, leader_epoch, now_ms, origin=*, request_version=*, work=*)
    @cython.locals(size=int64_t, first_offset=int64_t, last_offset=int64_t, entries=list, copies=tuple)
    cpdef append_as_follower(self, records, now_ms)
    @cython.final
    @cython.locals(done=int)
    cdef object _write(
        self, data, first_offset, last_offset, max_timestamp, offset_of_max_timestamp, now_ms, segment_bytes, segment_ms, places
    )
    @cython.final
    @cython.locals(record_count=int64_t, end_offset=int64_t, producer_id=int64_t, entries=list)
    cdef object _append_usual(self, data, leader_epoch, now_ms, origin, kept_codecs, work)
    @cython.final
    cdef object _accepted(self, data, leader_epoch, now_ms, kept_codecs)
