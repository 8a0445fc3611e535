"""The types of `_usual_python`: what was read, at places of its own, and numbers of 64 bits."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.replication cimport _partition_data_native

cdef int64_t _FINAL_EPOCH, _JOINED_MAX, _NO_SESSION_ID
cdef object _COMMITTED, _UNCOMMITTED, _NONE, _new_partition, _new_response, _new_topic


cpdef replica_of(int64_t version, request)


@cython.locals(bytes_max=int64_t)
cpdef usual_response(broker, int64_t version, request)


@cython.locals(
    wanted=_partition_data_native.FetchPartition, data=_partition_data_native.FetchPartitionData,
    topics=list, partitions=list, size=int64_t, copied_max=int64_t,
)
cpdef list topic_responses(list results, metrics, respond, int64_t copied_bytes_max, bint is_plain)
