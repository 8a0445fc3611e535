# Counts the elements of a message under way, and what weighs as much.
# `_codec_native.pyx` includes this file, so that C can inline what is in it.

cdef Py_ssize_t turn_elements = TURN_ELEMENTS

cdef struct Patience:
    Py_ssize_t left  # the elements until the work is given up, or until others may have the interpreter
    Py_ssize_t whole_left  # the elements that the whole message may still have
    bint is_patient


cdef Patience patience_for(Py_ssize_t elements_max, Py_ssize_t whole_max) noexcept:
    cdef Patience patience
    patience.is_patient = not elements_max
    patience.left = elements_max or turn_elements
    patience.whole_left = whole_max or PY_SSIZE_T_MAX
    return patience


cdef int spend(Patience *patience, Py_ssize_t amount) except -1:
    """Count elements, or what weighs as much."""
    patience.left -= amount
    patience.whole_left -= amount
    if patience.left < 0 or patience.whole_left < 0:
        if not patience.is_patient:
            raise LongMessageError
        if patience.whole_left < 0:
            raise too_many()
        patience.left = turn_elements
        let_go()
    return 0


cdef int foresee(Patience *patience, Py_ssize_t amount) except -1:
    """Raise what the elements of an array will raise, before there is a list for them."""
    if not patience.is_patient and amount > patience.left:
        raise LongMessageError
    if amount > patience.whole_left:
        raise too_many()
    return 0
