# Frees the fields of long messages, a few elements at a time: to free hundreds of thousands of them at once is one long step.
# `_codec_native.pyx` includes this file.

cdef int free_field(PyObject *message, Step *step, Patience *patience) except -1:
    """Free what belongs to nothing else. The fields of an incomplete message may be NULL."""
    cdef PyObject *value = (<PyObject **>(<char *>message + step.slot))[0]
    if value == NULL or value == <PyObject *>None:
        return 0
    if step.kind == STRUCT:
        if pb_is_own(value, (<Plan>step.plan).cls):
            (<Plan>step.plan)._free(value, patience)
    elif step.kind == ARRAY and pb_is_own_list(value):
        free_elements(value, step, patience)
    return 0


cdef int free_elements(PyObject *elements, Step *step, Patience *patience) except -1:
    """Free the elements of an array that belongs to nothing else, and leave NULL in their places."""
    cdef Py_ssize_t index
    cdef PyObject *element
    for index in range(PyList_GET_SIZE(<object>elements)):
        spend(patience, 1)
        element = pb_take(elements, index)
        try:
            if element != NULL and step.element == STRUCT and pb_is_own(element, (<Plan>step.plan).cls):
                (<Plan>step.plan)._free(element, patience)
        finally:
            Py_XDECREF(element)
    return 0
