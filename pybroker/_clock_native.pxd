"""The types of `_clock_python`: the system's clocks without Python's module for them."""

from pybroker cimport _clock as time


cdef class SystemClock:
    cpdef time_ms(self)
    cpdef monotonic_ms(self)
