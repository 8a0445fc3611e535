# Makes messages by position.
# `_codec_native.pyx` includes this file.

cdef enum:
    FIELDS_MAX = 32  # of a message that a Maker makes


cdef class Maker:
    """A constructor by position: the fields that it is given, and the defaults of all others."""

    cdef object cls
    cdef tuple given
    cdef list defaults
    cdef Py_ssize_t given_count, default_count
    cdef Py_ssize_t given_slots[FIELDS_MAX]
    cdef Py_ssize_t default_slots[FIELDS_MAX]

    def __cinit__(self, cls, tuple given, defaults):
        """`given` are names of fields, `defaults` the values of all others by their names; a list there stands for a new one."""
        cdef Py_ssize_t index
        if len(given) > FIELDS_MAX or len(defaults) > FIELDS_MAX:
            raise ValueError(f"{cls.__name__} has more than {FIELDS_MAX} fields")
        self.cls = cls
        self.given = given
        self.defaults = list(defaults.values())
        self.given_count, self.default_count = len(given), len(self.defaults)
        for index, name in enumerate(given):
            self.given_slots[index] = pb_slot(cls.__dict__[name])
        for index, name in enumerate(defaults):
            self.default_slots[index] = pb_slot(cls.__dict__[name])

    def __call__(self, *values):
        cdef object made, value
        cdef Py_ssize_t index
        cdef char *base
        if len(values) != self.given_count:
            raise TypeError(f"{self.cls.__name__} is made of {', '.join(self.given)}, not of {len(values)} values")
        made = pb_new(self.cls)
        base = <char *><PyObject *>made
        for index in range(self.given_count):
            value = values[index]
            Py_INCREF(value)
            (<PyObject **>(base + self.given_slots[index]))[0] = <PyObject *>value
        for index in range(self.default_count):
            value = self.defaults[index]
            if type(value) is list:
                value = []
            Py_INCREF(value)
            (<PyObject **>(base + self.default_slots[index]))[0] = <PyObject *>value
        return made
