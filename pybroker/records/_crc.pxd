"""Checksums of records, in C."""

from libc.stdint cimport uint8_t, uint32_t


cdef extern from "_crc.h":
    void pb_crc_init(int use_clmul) nogil
    uint32_t pb_crc32(const uint8_t *p, size_t n) nogil
    void pb_crc32c_init(int use_instruction) nogil
    int pb_has_crc32c
    uint32_t pb_crc32c(const uint8_t *p, size_t n) nogil
