"""The file with the counts of clients, in the first log directory: lines of JSON, replaced as a whole.

    {"version": 1, "time_ms": 1795906044743}
    {"client_id": "app", "software_name": "librdkafka", "software_version": "2.11.1", "host": "10.0.0.7", "connections": 2,
     "connections_made": 3, "first_seen_ms": ..., "last_seen_ms": ..., "bytes_in": ..., "bytes_out": ..., "down_converted": 0,
     "requests": {"0": {"9": 1200}, "3": {"12": 4}}}

`requests` has numbers by API key and version. The client that was seen last comes last.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pybroker.clients.clients import CLIENTS_MAX, Client, Name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VERSION: Final = 1
COUNTS: Final = (
    "connections", "connections_made", "first_seen_ms", "last_seen_ms", "bytes_in", "bytes_out", "down_converted",
)  # fmt: skip


class DamagedFileError(Exception):
    """The file does not have its form. The text names the line."""


def lines_of(clients: Iterable[Client], time_ms: int) -> Iterator[str]:
    """Return the content of the file by lines, each with its end."""
    yield json.dumps({"version": VERSION, "time_ms": time_ms}) + "\n"
    for client in clients:
        counts = {name: getattr(client, name) for name in COUNTS}
        yield json.dumps({**client.name._asdict(), **counts, "requests": client.by_api()}) + "\n"


def read(content: bytes) -> tuple[int, list[Client]]:
    """Return the time in ms since the epoch at which a file was written, and its clients. Raises DamagedFileError."""
    number = 1
    try:
        lines = content.decode().splitlines()
        head = json.loads(lines[0])
        if head["version"] != VERSION or len(lines) > CLIENTS_MAX + 1:
            raise DamagedFileError("line 1: it has another version, or too many lines follow")
        clients = []
        for number, line in enumerate(lines[1:], start=2):  # noqa: B007  the line of an error
            clients.append(_client_of(json.loads(line)))
        return int(head["time_ms"]), clients
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedFileError(f"line {number}: {error!r}") from error


def _client_of(data: dict[str, Any]) -> Client:
    client = Client(Name(*(str(data[field]) for field in Name._fields)), 0)
    for name in COUNTS:
        setattr(client, name, int(data[name]))
    client.requests = {
        (int(key), int(version)): int(count) for key, versions in data["requests"].items() for version, count in versions.items()
    }
    return client
