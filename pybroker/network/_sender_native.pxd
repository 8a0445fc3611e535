"""The types of `_sender_python`: numbers of 64 bits."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.network cimport _counters_native


cdef class Sender:
    cdef _counters_native.ListenerCounters _counters
    cdef object _output, _owner, _outgoing, _on_sent, _large_pieces, _now_ns
    cdef list _chunks
    cdef int64_t _piece_bytes, _large_piece_bytes, _quick_bytes, _paused_ns, _chunks_bytes, _made_bytes, _high_water, _part_index, _part_left
    cdef bint _is_paused, _is_in_thread, _has_large_pieces
    cdef public bint is_blocked, is_closed
    cdef public int64_t bytes_out

    cpdef object queue(self, bytes response)
    @cython.locals(chunks=list)
    cpdef object flush(self)
