"""The types of `_slices_python`: numbers of 64 bits where they are numbers of the file."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.log cimport _tail_native
from pybroker.protocol cimport _tuples as model


@cython.locals(position=int64_t, first_batch_size=int64_t, size=int64_t)
cpdef slice_from(segment, offset, tuple batch, int64_t limit, int64_t bytes_max, bint min_one_batch)


@cython.locals(tail=_tail_native.SegmentTail, limit=int64_t)
cpdef read_recent(segment, offset, int64_t bytes_max, bint min_one_batch, end)
