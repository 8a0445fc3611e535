# cython: boundscheck=False, wraparound=False, cdivision=True
"""The loops over the partitions of a usual commit, and over the letters of a name; `_offset_loops_python` has the contract.

The first look up the attributes of a request's messages by name, and make the tuples of a class that they are given.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport (
    PyUnicode_1BYTE_DATA,
    PyUnicode_1BYTE_KIND,
    PyUnicode_2BYTE_DATA,
    PyUnicode_2BYTE_KIND,
    PyUnicode_4BYTE_DATA,
    PyUnicode_GET_LENGTH,
    PyUnicode_KIND,
)
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

from pybroker.protocol._tuples cimport pb_new_tuple, set_item
from pybroker.records._numbers cimport put_int32, put_int64


cdef enum:
    NO_TIMESTAMP = -1
    # partition; the value's size, version 3, offset, leader epoch, no metadata, commit time; no headers
    END_SIZE = 4 + 1 + 2 + 8 + 4 + 2 + 8 + 1
    VALUE_SIZE_AT = 4
    VALUE_VERSION_AT = 6
    OFFSET_AT = 7
    LEADER_EPOCH_AT = 15
    COMMIT_TIME_AT = 21
    VALUE_SIZE = 24
    VALUE_VERSION = 3


def usual_offsets(cls, partitions, commit_ms):
    cdef dict found = {}
    for one in partitions:
        if one.committed_metadata or <int64_t>one.commit_timestamp != NO_TIMESTAMP:
            return None
        committed = pb_new_tuple(cls, 5)
        set_item(committed, 0, one.committed_offset)
        set_item(committed, 1, one.committed_leader_epoch)
        set_item(committed, 2, "")
        set_item(committed, 3, commit_ms)
        set_item(committed, 4, NO_TIMESTAMP)
        found[one.partition_index] = committed
    return found


def usual_ends(bytes start, offsets):
    cdef list ends = []
    if type(offsets) is not dict:
        return None
    for partition, committed in (<dict>offsets).items():
        assert isinstance(committed, tuple) and len(<tuple>committed) == 5
        if (<tuple>committed)[2] or (<tuple>committed)[4] != NO_TIMESTAMP:
            return None
        try:
            ends.append(usual_end(start, partition, <tuple>committed))
        except OverflowError:
            return None  # the general way has the error
    return ends


cdef bytes usual_end(bytes start, int32_t partition, tuple committed):
    cdef int64_t offset = committed[0]
    cdef int32_t leader_epoch = committed[1]
    cdef int64_t commit_ms = committed[3]
    cdef Py_ssize_t size = PyBytes_GET_SIZE(start)
    cdef bytes end = PyBytes_FromStringAndSize(NULL, size + END_SIZE)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(end)
    memcpy(out, PyBytes_AS_STRING(start), size)
    out += size
    memset(out, 0, END_SIZE)
    put_int32(out, partition)
    out[VALUE_SIZE_AT] = VALUE_SIZE << 1
    out[VALUE_VERSION_AT] = VALUE_VERSION
    put_int64(out + OFFSET_AT, offset)
    put_int32(out + LEADER_EPOCH_AT, leader_epoch)
    put_int64(out + COMMIT_TIME_AT, commit_ms)
    return end


def java_hash(str text not None):
    cdef uint32_t value = 0
    cdef uint32_t letter
    cdef Py_ssize_t length = PyUnicode_GET_LENGTH(text)
    cdef Py_ssize_t at
    cdef unsigned int kind = PyUnicode_KIND(text)
    cdef const uint8_t *bytes_
    cdef const uint16_t *units
    cdef const uint32_t *letters
    if kind == PyUnicode_1BYTE_KIND:
        bytes_ = <const uint8_t *>PyUnicode_1BYTE_DATA(text)
        for at in range(length):
            value = value * 31 + bytes_[at]
    elif kind == PyUnicode_2BYTE_KIND:
        units = <const uint16_t *>PyUnicode_2BYTE_DATA(text)
        for at in range(length):
            value = value * 31 + units[at]
    else:
        letters = <const uint32_t *>PyUnicode_4BYTE_DATA(text)
        for at in range(length):
            letter = letters[at]
            if letter > 0xFFFF:  # two units, a surrogate pair
                letter -= 0x10000
                value = value * 31 + (0xD800 | letter >> 10)
                letter = 0xDC00 | letter & 0x3FF
            value = value * 31 + letter
    return <int32_t>value
