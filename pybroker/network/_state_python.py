# cython: annotation_typing=False
"""The state that each request reads, or changes, of the objects around its connection. `_state_native` is this same text,
compiled with the types of `_state_native.pxd`: so the receiver, the connection and the dispatcher read these numbers without
looking anything up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pybroker.network.memory_pool import MemoryPool

__all__ = ["AdmissionState", "ContextState", "PoolState"]

REPEATS_LEFT: Final = 8


class PoolState:
    """The numbers of a memory pool, in bytes. `MemoryPool` has the rest, explains them, and sets all of them."""

    __slots__ = ("open_below", "size", "used")

    open_below: int
    size: int
    used: int


class AdmissionState:
    """The pool, and the numbers of queued requests. `Admission` has the rest, and sets all of it."""

    __slots__ = ("pool", "queued_requests", "queued_requests_max")

    pool: MemoryPool
    queued_requests: int
    queued_requests_max: int


class ContextState:
    """The state that the handler keeps with a connection; `ConnectionContext` has the rest.

    Attributes:
        received_ns: the monotonic time at which the bytes of the request in hand were complete (ns, read once per receive).
        repeated: what the handler knows of a request, for the next ones that are like it; None if nothing.
        repeats_left: how many more requests the handler looks at, to find one that others repeat.
        is_in_order: the handler sets it with a Future, if the request in hand only waits: all that later requests could see of it
            is done, so they need not wait. The connection takes it back.
        bytes_in: received, and not yet counted for the client.
        used, used_route, used_version: how many requests in a row were of one API in one version, and of which, not yet counted.
    """

    __slots__ = ("bytes_in", "is_in_order", "received_ns", "repeated", "repeats_left", "used", "used_route", "used_version")

    bytes_in: int
    used: int
    used_route: Any
    used_version: int

    is_in_order: bool
    received_ns: int
    repeated: Any
    repeats_left: int

    def __init__(self) -> None:
        self.is_in_order = False
        self.received_ns = 0
        self.repeated = None
        self.repeats_left = REPEATS_LEFT
        self.bytes_in = 0
        self.used = 0
        self.used_route = None
        self.used_version = -1
