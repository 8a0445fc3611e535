# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The codec in C: it walks through the steps of a plan. The contract is in `_codec_python.py`; the tests run on both.

Bounds are checked by hand, because the input may be hostile. Attributes of messages are read and written in their slots, at
the place that the class's own descriptors give.

The errors that struct, indexing and missing attributes raise in Python are here IndexError for an end that comes too early, and
OverflowError, TypeError and AttributeError for values that do not fit.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.sequence cimport PySequence_Fast, PySequence_Fast_GET_SIZE, PySequence_Fast_ITEMS
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from pybroker.protocol._tuples cimport pb_new_tuple, set_item

from types import MemberDescriptorType

from pybroker.protocol import plan
from pybroker.protocol.parts import parts_size
from pybroker.protocol.wire import (
    COPIED_AT_ONCE_BYTES,
    JOIN_BYTES_MAX,
    TEXT_BYTES_MAX,
    WEIGHTLESS_BYTES,
    DecodeError,
    Encoded,
    bad_length,
    bad_uuid,
    no_place,
    too_many,
    too_short,
)


cdef extern from *:
    """
    #include <structmember.h>
    static inline Py_ssize_t pb_slot(PyObject *member) { return ((PyMemberDescrObject *)member)->d_member->offset; }
    static inline PyObject *pb_new(PyObject *cls) { return ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, 0); }
    static inline int pb_is(PyObject *object, PyObject *cls) {
        return Py_TYPE(object) == (PyTypeObject *)cls || PyType_IsSubtype(Py_TYPE(object), (PyTypeObject *)cls);
    }
    """
    Py_ssize_t pb_slot(object member)
    object pb_new(object cls)
    bint pb_is(object value, object cls)


cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    object PyFloat_FromDouble(double value)
    int PyObject_IsTrue(object value) except -1
    Py_ssize_t PY_SSIZE_T_MAX
    int64_t PyLong_AsLongLong(object value) except? -1
    double PyFloat_AsDouble(object value) except? -1
    const char *PyBytes_AsString(object value) except NULL


cdef enum Kind:  # checked below to match `plan.py`
    NUMBER
    TEXT
    BYTES
    RECORDS
    STRUCT
    ARRAY

cdef enum Differs:  # checked below to match `plan.py`
    IS_SET  # a list
    IS_SET_OR_NULL  # a list, and null is not the default
    IS_NOT_NULL
    IS_OTHER_BOOL
    IS_OTHER

cdef struct Step:
    int kind
    int element  # the kind of an array's elements
    int code  # the struct module's letter for a number
    bint is_nullable
    Py_ssize_t least  # the least size of an array's element in bytes
    Py_ssize_t slot
    int number  # the field's index in `Plan.names`
    int differs
    uint32_t tag
    PyObject *plan  # the plan of a struct or of an array's structs
    PyObject *default

cdef struct Cursor:
    Py_ssize_t elements_left
    const uint8_t *data
    Py_ssize_t position
    Py_ssize_t end
    PyObject *source  # the buffer of which records are views

cdef enum:
    STACK_BYTES = 1024

cdef struct Output:
    uint8_t *data
    Py_ssize_t size
    Py_ssize_t capacity
    Py_ssize_t closed_size  # the bytes of the closed parts
    PyObject *parts  # a list once there is a large part, or NULL
    uint8_t stack[STACK_BYTES]


if {"NUMBER": NUMBER, "TEXT": TEXT, "BYTES": BYTES, "RECORDS": RECORDS, "STRUCT": STRUCT, "ARRAY": ARRAY} != dict(plan.Kind.__members__):
    raise ImportError("the kinds of fields differ from those in plan.Kind")
if {
    "IS_SET": IS_SET,
    "IS_SET_OR_NULL": IS_SET_OR_NULL,
    "IS_NOT_NULL": IS_NOT_NULL,
    "IS_OTHER_BOOL": IS_OTHER_BOOL,
    "IS_OTHER": IS_OTHER,
} != dict(plan.Differs.__members__):
    raise ImportError("the ways to compare differ from those in plan.Differs")

cdef Py_ssize_t copied_at_once_bytes = COPIED_AT_ONCE_BYTES
cdef Py_ssize_t join_bytes_max = JOIN_BYTES_MAX
cdef Py_ssize_t text_bytes_max = TEXT_BYTES_MAX
cdef Py_ssize_t weightless_bytes = WEIGHTLESS_BYTES


cdef class Plan:
    """One class in one version. `decode` and `encode` are those of a whole message; plans of structs are used by others."""

    cdef object cls
    cdef tuple names
    cdef list kept  # the objects that the steps refer to
    cdef bint is_flexible
    cdef bint is_exact  # nothing may follow it
    cdef int version
    cdef Py_ssize_t regular_count, preset_count, tagged_count, absent_count
    cdef Step *regular  # in the order of the wire
    cdef Step *preset  # the fields that decoding sets to a default
    cdef Step *tagged
    cdef Step *absent  # the fields that the version does not have, and that must not be lost

    def __cinit__(self, cls, int version, bint is_flexible, bint is_exact, regular, preset, tagged, absent):
        self.cls = cls
        self.version = version
        self.is_flexible = is_flexible
        self.is_exact = is_exact
        self.kept = []
        names = []
        self.regular = self._steps(regular, names, &self.regular_count)
        self.preset = self._steps(preset, names, &self.preset_count)
        self.tagged = self._steps(tagged, names, &self.tagged_count)
        self.absent = self._steps(absent, names, &self.absent_count)
        self.names = tuple(names)

    def __dealloc__(self):
        PyMem_Free(self.regular)
        PyMem_Free(self.preset)
        PyMem_Free(self.tagged)
        PyMem_Free(self.absent)

    cdef Step *_steps(self, described, list names, Py_ssize_t *count) except NULL:
        cdef Py_ssize_t index
        cdef Step *steps = <Step *>PyMem_Malloc((len(described) + 1) * sizeof(Step))
        cdef Step *step
        if steps == NULL:
            raise MemoryError
        count[0] = len(described)
        for index, (name, kind, element, code, is_nullable, least, plan, differs, default, tag) in enumerate(described):
            member = self.cls.__dict__[name]
            assert type(member) is MemberDescriptorType
            step = &steps[index]
            step.kind, step.element, step.code = kind, element, code
            step.is_nullable, step.least = is_nullable, least
            step.slot = pb_slot(member)
            step.number = len(names)
            step.differs, step.tag = differs, tag
            step.plan, step.default = <PyObject *>plan, <PyObject *>default
            names.append(name)
            self.kept += (plan, default)
        return steps

    def decode(self, buffer, Py_ssize_t offset, Py_ssize_t elements_max=0):
        """Return a message from the bytes from `offset` on."""
        cdef Py_buffer view
        cdef Cursor cursor
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            cursor.data = <const uint8_t *>view.buf
            cursor.position = offset
            cursor.end = view.len
            cursor.source = <PyObject *>buffer
            cursor.elements_left = elements_max or PY_SSIZE_T_MAX
            message = self._read(&cursor)
            if self.is_exact and cursor.position != cursor.end:
                raise DecodeError(f"{cursor.end - cursor.position} bytes too many")
            return message
        finally:
            PyBuffer_Release(&view)

    def encode(self, message, bytes head):
        """Return the parts of the body alone, or, with a `head`, of size, head and body: one bytes object unless records are large."""
        cdef Output out
        cdef Py_ssize_t start = 0, size
        cdef uint8_t *first
        cdef bytes joined
        out.data = out.stack
        out.size = out.closed_size = 0
        out.capacity = STACK_BYTES
        out.parts = NULL
        try:
            if head is not None:
                room(&out, 4)
                put(&out, <const uint8_t *>PyBytes_AS_STRING(head), len(head))
                start = 4
            self._write(&out, message)
            size = out.closed_size + out.size - start
            if out.parts == NULL:
                if start:
                    store32(out.data, size)
                return [new_bytes(out.data, out.size)]
            parts = <list>out.parts
            if out.size:
                parts.append(new_bytes(out.data, out.size))
            if start:
                joined = parts[0]
                store32(<uint8_t *>PyBytes_AS_STRING(joined), size)  # no other code has seen the object yet
            return parts
        finally:
            if out.data != out.stack:
                PyMem_Free(out.data)
            Py_XDECREF(out.parts)

    # Decoding

    cdef object _read(self, Cursor *cursor):
        cdef object message = pb_new(self.cls)
        cdef char *base = <char *><PyObject *>message
        cdef Py_ssize_t index
        cdef Step *step
        cdef object value
        for index in range(self.preset_count):
            step = &self.preset[index]
            value = <object>step.default
            if step.differs <= IS_SET_OR_NULL:
                value = []
            Py_INCREF(value)
            (<PyObject **>(base + step.slot))[0] = <PyObject *>value
        for index in range(self.regular_count):
            step = &self.regular[index]
            value = read_value(cursor, step, step.kind, step.is_nullable, self.is_flexible)
            Py_INCREF(value)
            (<PyObject **>(base + step.slot))[0] = <PyObject *>value
        if self.is_flexible:
            self._read_tagged(cursor, message)
        return message

    cdef int _read_tagged(self, Cursor *cursor, message) except -1:
        cdef uint32_t count = read_uvarint(cursor), tag
        cdef Py_ssize_t size, end, index, outer_end
        cdef Step *step
        cdef PyObject **slot
        while count:
            count -= 1
            spend(cursor, 1)
            tag = read_uvarint(cursor)
            size = read_uvarint(cursor)
            if size > cursor.end - cursor.position:
                raise too_short(size)
            end = cursor.position + size
            for index in range(self.tagged_count):
                step = &self.tagged[index]
                if step.tag != tag:
                    continue
                outer_end, cursor.end = cursor.end, end
                if step.kind == STRUCT and step.is_nullable and size and not cursor.data[cursor.position]:
                    value = None  # Kafka writes a null struct as 0 here, and as -1 elsewhere
                    cursor.position += 1
                else:
                    value = read_value(cursor, step, step.kind, step.is_nullable, True)
                if cursor.position != end:
                    raise DecodeError(f"{end - cursor.position} bytes too many")
                cursor.end = outer_end
                slot = <PyObject **>(<char *><PyObject *>message + step.slot)
                Py_INCREF(value)
                Py_XDECREF(slot[0])
                slot[0] = <PyObject *>value
                break
            cursor.position = end
        return 0

    # Encoding

    cdef int _write(self, Output *out, message) except -1:
        cdef Py_ssize_t index
        cdef Step *step
        if not pb_is(message, self.cls):
            if type(message) is Encoded:
                put_bytes(out, message.data)
                return 0
            raise TypeError(f"{type(message).__name__} in place of {self.cls.__name__}")
        for index in range(self.absent_count):
            step = &self.absent[index]
            if differs(step, self._value(message, step)):
                raise no_place(self.names[step.number], self.version)
        for index in range(self.regular_count):
            step = &self.regular[index]
            self._write_value(out, step, step.kind, step.is_nullable, self._value(message, step))
        if self.is_flexible:
            self._write_tagged(out, message)
        return 0

    cdef object _value(self, message, Step *step):
        cdef PyObject *value = (<PyObject **>(<char *><PyObject *>message + step.slot))[0]
        if value == NULL:
            raise AttributeError(self.names[step.number])
        return <object>value

    cdef int _write_tagged(self, Output *out, message) except -1:
        cdef Py_ssize_t index, count = 0
        cdef Step *step
        cdef bytes data
        for index in range(self.tagged_count):
            step = &self.tagged[index]
            count += differs(step, self._value(message, step))
        put_uvarint(out, count)
        for index in range(self.tagged_count if count else 0):
            step = &self.tagged[index]
            value = self._value(message, step)
            if differs(step, value):
                data = self._tag_value(step, value)
                put_uvarint(out, step.tag)
                put_uvarint(out, len(data))
                put(out, <const uint8_t *>PyBytes_AS_STRING(data), len(data))
        return 0

    cdef bytes _tag_value(self, Step *step, value):
        cdef Output out
        out.data = out.stack
        out.size = out.closed_size = 0
        out.capacity = STACK_BYTES
        out.parts = NULL
        if step.kind == STRUCT and step.is_nullable and value is None:
            return b"\0"
        try:
            self._write_value(&out, step, step.kind, step.is_nullable, value)
            if out.parts != NULL:
                raise TypeError("large records in a tagged field")
            return new_bytes(out.data, out.size)
        finally:
            if out.data != out.stack:
                PyMem_Free(out.data)
            Py_XDECREF(out.parts)

    cdef int _write_value(self, Output *out, Step *step, int kind, bint is_nullable, value) except -1:
        cdef Py_ssize_t size = 0
        cdef const char *text
        if kind == NUMBER:
            if step.code == c's' and len(value) != 16:
                raise bad_uuid(self.names[step.number])
            put_number(out, step.code, value)
        elif kind == STRUCT:
            if is_nullable:
                room(out, 1)[0] = 0xFF if value is None else 1
                if value is None:
                    return 0
            (<Plan>step.plan)._write(out, value)
        elif value is None:
            if not is_nullable:
                raise TypeError(f"null for {self.names[step.number]}")
            self._put_length(out, kind == TEXT, -1)
        elif kind == TEXT:
            text = PyUnicode_AsUTF8AndSize(value, &size)
            self._put_length(out, True, size)
            put(out, <const uint8_t *>text, size)
        elif kind == BYTES:
            self._put_length(out, False, len(value))
            put_bytes(out, value)
        elif kind == RECORDS:
            size = parts_size(value)
            self._put_length(out, False, size)
            if size > 0:
                put_records(out, value, size)
        else:
            self._write_array(out, step, value)
        return 0

    cdef int _write_array(self, Output *out, Step *step, value) except -1:
        cdef object elements = PySequence_Fast(value, "not a list")
        cdef Py_ssize_t index, count = PySequence_Fast_GET_SIZE(elements)
        self._put_length(out, False, count)
        for index in range(count):
            # Read again each time: the size of a late part is looked up by code that could change a list.
            if index >= PySequence_Fast_GET_SIZE(elements):
                raise TypeError("a list changed while it was written")
            self._write_value(out, step, step.element, False, <object>PySequence_Fast_ITEMS(elements)[index])
        return 0

    cdef int _put_length(self, Output *out, bint is_text, Py_ssize_t length) except -1:
        """Write a length or count; -1 is null."""
        if length > (text_bytes_max if is_text else 0x7FFFFFFF):
            raise OverflowError(f"a length of {length}")
        if self.is_flexible:
            put_uvarint(out, length + 1)
        elif is_text:
            store(room(out, 2), <uint64_t>length, 2)
        else:
            store(room(out, 4), <uint64_t>length, 4)
        return 0


include "_codec_header.pxi"
include "_codec_making.pxi"
include "_codec_reading.pxi"
include "_codec_writing.pxi"
