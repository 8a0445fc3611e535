# The checksums, and how they are computed.

pb_crc_init(1)
pb_crc32c_init(1)


def _use_clmul(bint enabled):
    """Choose how `crc32` works, for tests; this has no effect where there is no choice."""
    pb_crc_init(enabled)


def _use_crc32c(bint enabled):
    """Choose how `accept_batch` computes its checksum, for tests; this has no effect where there is no choice."""
    pb_crc32c_init(enabled)


def crc32(data):
    cdef Py_buffer view
    cdef uint32_t crc
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len > RELEASE_GIL_BYTES:
            with nogil:
                crc = pb_crc32(<Bytes>view.buf, view.len)
        else:
            crc = pb_crc32(<Bytes>view.buf, view.len)
        return crc
    finally:
        PyBuffer_Release(&view)
