# Reads the usual header of a request.
# `_codec_native.pyx` includes this file.

def usual_request_header(frame, bytes layouts, header_class):
    """Return the header of a request, and where its body begins; None if `decode_request_header` must parse it.

    `layouts` has a byte for each key and each of 64 versions: 0 not supported, 1 header version 1, 2 header version 2.
    """
    cdef Py_buffer view
    cdef const uint8_t *data
    cdef Py_ssize_t length, end
    cdef uint32_t key, version, index
    cdef int layout
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        data = <const uint8_t *>view.buf
        if view.len < 10:
            return None
        key, version = <uint32_t>load(data, 2), <uint32_t>load(data + 2, 2)
        index = key * 64 + version
        if version >= 64 or <Py_ssize_t>index >= len(layouts):
            return None
        layout = <uint8_t>PyBytes_AS_STRING(layouts)[index]
        length = <int16_t>load(data + 8, 2)
        end = 10 + length
        if layout == 0 or length < 0 or end + layout - 1 > view.len or (layout == 2 and data[end]):
            return None
        header = pb_new_tuple(header_class, 4)
        set_item(header, 0, key)
        set_item(header, 1, version)
        set_item(header, 2, <int32_t>load(data + 4, 4))
        set_item(header, 3, PyUnicode_DecodeUTF8(<const char *>data + 10, length, NULL))
        return header, end + layout - 1
    except UnicodeDecodeError:
        return None
    finally:
        PyBuffer_Release(&view)
