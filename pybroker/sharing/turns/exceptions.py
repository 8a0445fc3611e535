"""The turns that may hold the loop longer than the bound, by the names that the watchdog gives it, each with its reason.

docs/design/latency.md has the same table; a test compares them.
"""

from __future__ import annotations

from typing import Final

START: Final = "start of the broker"
STOP: Final = "stop of the broker"

FIRST_GROUPS: Final = "first use of groups"

EXCEPTIONS: Final[dict[str, str]] = {
    START: "the sockets are not open yet: no client is served",
    STOP: "the sockets take no new requests",
    FIRST_GROUPS: "the coordinator's modules are imported by the first request about a group, once in the life of a broker that "
    "began without groups: about 25 ms; a broker without groups never pays their memory",
}
