# cython: annotation_typing=False
"""The network's counters: plain ints, incremented by their owners and read by the metrics exporter. `_counters_native` is this
same text, compiled with the types of `_counters_native.pxd`.
"""

from __future__ import annotations

__all__ = ["ListenerCounters"]


class ListenerCounters:
    """Counters of one listener since the start.

    `connections_open` is a gauge, all others only grow. `connections_refused`: closed at once by a connection limit, counted in
    neither created nor closed. `connections_expired`: closed because idle, also counted in closed. `protocol_violations`: closed
    because the peer broke the protocol, also counted in closed. `bytes_in` and `bytes_out` include size prefixes; `bytes_out` is
    counted when bytes are handed to the transport. `requests` are those handed to the handler.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "connections_closed",
        "connections_created",
        "connections_expired",
        "connections_open",
        "connections_refused",
        "name",
        "protocol_violations",
        "requests",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.connections_open = 0
        self.connections_created = 0
        self.connections_closed = 0
        self.connections_refused = 0
        self.connections_expired = 0
        self.protocol_violations = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.requests = 0
