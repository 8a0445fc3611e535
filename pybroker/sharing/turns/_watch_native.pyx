"""Turns of an event loop in C; `_watch_python` has the same, and the tests run on both."""

from libc.stdint cimport int64_t
from pybroker cimport _clock as time
from pybroker.metrics._counts_native cimport Counts, count

from pybroker.sharing.turns._watch_python import BASE_NS, MARK_NS

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() nogil

cdef extern from "unistd.h" nogil:
    ssize_t pread(int descriptor, void *buffer, size_t size, long offset)

cdef int64_t base_ns = BASE_NS
cdef int64_t mark_ns = MARK_NS


cdef int64_t second_number(int descriptor) noexcept:
    """Return the second number of the one line in a file of the kernel's; 0 if there is none."""
    cdef char line[80]
    cdef ssize_t size = pread(descriptor, line, sizeof(line), 0)
    cdef ssize_t position = 0
    cdef int64_t number = 0
    while position < size and line[position] != 32:
        position += 1
    position += 1
    while position < size and 48 <= line[position] <= 57:
        number = number * 10 + line[position] - 48
        position += 1
    return number


cdef class Watch:
    """The turns of one loop."""

    def __init__(self, Counts lengths not None, int64_t look_ns, look):
        self._lengths = lengths
        self._look_ns = look_ns
        self._look = look

    @property
    def is_open(self):
        """Whether a turn is under way."""
        return self._depth > 0

    def bind(self, delay):
        """Watch the calling thread from now on."""
        self._thread = PyThread_get_thread_ident()
        self._delay = delay
        self._depth = 0
        self._refresh(time.monotonic_ns())

    cpdef begin(self):
        """Begin a turn, or a part of the turn under way."""
        if self._depth == 0:
            self.begun_ns = time.monotonic_ns()
            self._apart_ns = self._apart_waited_ns = 0
            if self.begun_ns - self._base_ns > base_ns:
                self._refresh(self.begun_ns)
        self._depth += 1

    cpdef end(self, object what):
        """End what the last `begin` began."""
        cdef int64_t length_ns
        self._depth -= 1
        if self._depth == 0:
            length_ns = max(time.monotonic_ns() - self.begun_ns - self._apart_ns, 0)  # a negative one cannot be counted
            if length_ns >= self._look_ns:
                length_ns = self._looked_at(what, length_ns)
            count(self._lengths, length_ns)
            self._round_turns += 1
            self.round_ns += length_ns
            if self.round_ns >= mark_ns and self.noted is not None:
                self.noted(what, length_ns)

    def end_round(self):
        """Begin to add up the turns of the next round, and return how many the last one had."""
        turns = self._round_turns
        self._round_turns = self.round_ns = self.input_ns = 0
        return turns

    def collection(self, str phase, info):
        """Time a garbage collection, as a turn of its own."""
        cdef int64_t length_ns, before_ns, waited_ns
        cdef int generation = info["generation"]
        if phase == "start":
            self._collection_ns = time.monotonic_ns()
            self._collection_waited_ns = self.waited_ns() if generation == 2 else 0
            return
        length_ns = time.monotonic_ns() - self._collection_ns
        if length_ns < self._look_ns:
            self.apart("", length_ns, 0)
        else:
            before_ns = self._collection_waited_ns if generation == 2 else self._base_waited_ns + self._apart_waited_ns
            waited_ns = min(self.waited_ns() - before_ns, length_ns)
            self.apart(f"garbage collection of generation {generation}", length_ns, waited_ns)

    cpdef apart(self, str what, int64_t length_ns, int64_t waited_ns):
        """Count what ran up to now as a turn of its own, and not as a part of the turn under way."""
        if PyThread_get_thread_ident() == self._thread:
            self._apart_ns += length_ns
            self._apart_waited_ns += waited_ns
        if length_ns >= self._look_ns:
            length_ns = self._look(what, length_ns, waited_ns=waited_ns)
        count(self._lengths, length_ns)

    cpdef int64_t waited_ns(self) noexcept:
        """Return how long the thread has waited for a core since it began; 0 where that is unknown."""
        cdef int descriptor = -1 if self._delay is None else self._delay.descriptor
        return second_number(descriptor) if descriptor >= 0 else 0

    cdef int64_t _looked_at(self, object what, int64_t length_ns) except? -1:
        cdef int64_t before_ns = self._base_waited_ns + self._apart_waited_ns
        self._refresh(time.monotonic_ns())
        return self._look(what, length_ns, waited_ns=self._base_waited_ns - before_ns)

    cdef void _refresh(self, int64_t now_ns) noexcept:
        self._base_ns = now_ns
        self._base_waited_ns = self.waited_ns()


cdef class Entry:
    """A callback as a turn of its own."""

    cdef Watch _watch
    cdef readonly object callback

    def __init__(self, Watch watch not None, callback):
        self._watch = watch
        self.callback = callback

    def __call__(self, *args):
        self._watch.begin()
        try:
            return self.callback(*args)
        finally:
            self._watch.end(self.callback)

    def __repr__(self):
        return f"<turn of {self.callback!r}>"
