"""The types of `_connection_python`: its receiver and its sender are the native ones, and are called without looking them up."""

cimport cython
from libc.stdint cimport int64_t
from pybroker cimport _clock as time
from pybroker.network cimport _counters_native, _receiver_native, _sender_native, _state_native
from pybroker.sharing.turns cimport _watch_native

cdef int64_t TURN_REQUESTS
cdef int64_t TURN_NS
cdef int64_t WRITE_REQUESTS
cdef int64_t WAITING_MAX
cdef int64_t BUDGET_NS


cdef class ConnectionCore:
    cdef public object _handler
    cdef public object _waiting
    cdef object _other_clock
    cdef readonly object _loop
    cdef readonly object _owner
    cdef readonly _watch_native.Watch _turns
    cdef readonly object _transport
    cdef readonly _receiver_native.Receiver _receiver
    cdef readonly _sender_native.Sender _sender
    cdef readonly int64_t _mute
    cdef bint _is_turn_scheduled, _is_holding, _has_input_ended
    cdef public bint _is_ending, _is_parked, _is_watched
    cdef readonly _state_native.ContextState context
    cdef readonly _counters_native.ListenerCounters counters
    cdef int64_t _noted_until_ns, _turn_ns, _unwritten
    cdef public int64_t active_ns, requests
    cdef public bint is_open

    cpdef int64_t partial_bytes(self)
    cdef object _count(self, int64_t taken)
    cdef object _touch(self)
    cpdef int64_t _late_turn(self) except? -1
    cdef int64_t _now_ns(self) except? -1
    @cython.locals(took_ns=int64_t)
    cdef int64_t _took(self) except? -1
    cpdef object buffer_updated(self, int64_t nbytes)
    @cython.locals(receiver=_receiver_native.Receiver, requests=int64_t)
    cdef object _received(self, int64_t nbytes)
    @cython.locals(receiver=_receiver_native.Receiver, sender=_sender_native.Sender, taken=int64_t, deadline_ns=int64_t, is_left=bint)
    cpdef object _turn(self)
