# Counts the elements of a message under way, and what weighs as much.
# `_codec_native.pyx` includes this file, so that C can inline what is in it.

cdef Py_ssize_t turn_elements = TURN_ELEMENTS

cdef struct Patience:
    Py_ssize_t left  # the elements until the work is given up, or until others may have the interpreter
    bint is_patient


cdef Patience patience_for(Py_ssize_t elements_max) noexcept:
    cdef Patience patience
    patience.is_patient = not elements_max
    patience.left = elements_max or turn_elements
    return patience


cdef int spend(Patience *patience, Py_ssize_t amount) except -1:
    """Count elements, or what weighs as much."""
    cdef PyThreadState *state
    patience.left -= amount
    if patience.left < 0:
        if not patience.is_patient:
            raise LongMessageError
        patience.left = turn_elements
        state = PyEval_SaveThread()
        PyEval_RestoreThread(state)
    return 0
