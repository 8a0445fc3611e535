"""The types of `_one_partition_python`: the leader's part of an append is called without looking it up."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.protocol cimport _tuples as model
from pybroker.replication cimport _leading_native

cdef int64_t TOPIC_ID_VERSION
cdef int64_t ACKS_ALL
cdef int64_t ACKS_LEADER


@cython.locals(
    version=int64_t, acks=int64_t, required_offset=int64_t, topics=list, partitions=list, manager=_leading_native.LeaderAppends
)
cpdef object produce_one(object broker, object context, object request)
cpdef object only_of(object topic_partition, dict results)
cpdef object only(object topic_partition, object result)
cpdef object partition_response(object topic_partition, object result)
