"""The types of `_one_partition_python`: the leader's part of an append is called without looking it up."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.api.produce cimport _repeats_native as repeats
from pybroker.protocol cimport _tuples as model
from pybroker.protocol cimport _forms_native
from pybroker.replication cimport _leading_native

cdef int64_t TOPIC_ID_VERSION
cdef int64_t ACKS_ALL
cdef int64_t ACKS_LEADER


cdef dict FORMS


@cython.final
cdef class ResponseForm:
    cdef bytearray _made
    cdef int64_t _correlation_id_at, _name_at, _index_at, _base_offset_at, _log_append_time_at, _log_start_offset_at

    @cython.locals(made=bytearray, place=int64_t)
    cpdef bytes filled(
        self, int64_t correlation_id, bytes name, int64_t index, int64_t base_offset, int64_t log_append_time_ms,
        int64_t log_start_offset,
    )


@cython.locals(number=int64_t, form=ResponseForm)
cdef ResponseForm form_of(int64_t version, int64_t name_size)
@cython.locals(place=int64_t)
cdef int put(bytearray made, int64_t position, int64_t size, int64_t number) except -1


cdef class RepeatedProduce(repeats.Repeated):
    cdef int64_t _acks, _timeout_ms, _index
    cdef object _name, _topic_partition
    cdef bytes _encoded_name
    cdef ResponseForm _response_form

    @cython.locals(form=_forms_native.RequestForm)
    cpdef handle(self, broker, records)


@cython.locals(version=int64_t, acks=int64_t, topics=list, partitions=list, name=str, encoded_name=bytes)
cpdef object produce_one(object broker, object context, object request)
@cython.locals(required_offset=int64_t, manager=_leading_native.LeaderAppends)
cdef object append_only(
    object broker, object topic_partition, int64_t index, object records, int64_t acks, int64_t version, object timeout_ms,
    int64_t correlation_id, bytes encoded_name, ResponseForm form,
)
cpdef object settled(
    object topic_partition, int64_t index, int64_t correlation_id, bytes encoded_name, ResponseForm form, dict results
)
@cython.locals(base_offset=int64_t, log_append_time_ms=int64_t, log_start_offset=int64_t)
cdef object response_of(
    object topic_partition, int64_t index, int64_t correlation_id, bytes encoded_name, ResponseForm form, object result
)
cpdef object only(object topic_partition, object result)
cpdef object partition_response(object topic_partition, object result)
