"""The addresses of brokers as people write them. It imports nothing, because health checks need it."""

from __future__ import annotations

PORT_MAX = 65535


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and the port of `host:port` or `[ipv6]:port`. Raises ValueError."""
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or "," in host or "/" in host or not (port.isascii() and port.isdigit()) or not 0 < int(port) <= PORT_MAX:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host, int(port)
