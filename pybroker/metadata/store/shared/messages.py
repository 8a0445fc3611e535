"""The frames on the socket: four bytes with the length, then one message in JSON, in which bytes are text of Latin-1.

Requests have an `id` and what to `do`; the response has the same `id`. Between responses come `changes`: the store's commits,
each as a whole and in their order. A response is behind all changes that its request has caused or could have known.

    {"id": 1, "do": "get", "key": "k"}                              {"id": 1, "entries": [["k", "v", 3]]}
    {"id": 2, "do": "list", "prefix": "a/"}                         {"id": 2, "entries": [...], "more": true} ...
                                                                    {"id": 2, "entries": [...], "revision": 7}
    {"id": 3, "do": "commit", "puts": {"k": "v"}, "deletes": [],    {"id": 3, "revision": 8}
        "compare": {"k": 3}, "session": null}                       or {"id": 3, "conflict": ["k", 3, 5]}
    {"id": 4, "do": "open", "ttl_ms": 9000}                         {"id": 4, "session": "1", "ttl_ms": 9000}
    {"id": 5, "do": "renew", "session": "1"}                        {"id": 5, "session": "1", "ttl_ms": 9000}, 0: unknown
    {"id": 6, "do": "end", "session": "1"}                          {"id": 6}
    a request that failed                                           {"id": 7, "error": "...", "kind": "StoreError"}
    a commit                                                        {"changes": [["k", "v", 8], ["other", null, 8]]}
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pybroker.metadata.store.base import Change, Entry, StoreError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

LENGTH_BYTES: Final = 4
FRAME_BYTES_MAX: Final = 1 << 26

Message = dict[str, Any]


def frame(message: Message) -> bytes:
    """Return a message as it goes over the socket."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


async def read(reader: asyncio.StreamReader) -> Message:
    """Return the next message. Raises EOFError and OSError at the end of the connection, and StoreError for what is no frame."""
    size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    if size > FRAME_BYTES_MAX:
        raise StoreError(f"a frame of {size} bytes")
    try:
        message: Message = json.loads(await reader.readexactly(size))
    except ValueError as error:
        raise StoreError("a frame that is no JSON") from error
    return message


def text(value: bytes) -> str:
    """Return bytes as a message has them."""
    return value.decode("latin-1")


def value(of: str) -> bytes:
    """Return the bytes that a message has as text."""
    return of.encode("latin-1")


def rows(entries: Iterable[Entry | Change]) -> list[list[Any]]:
    """Return entries or changes as a message has them."""
    return [[one.key, None if one.value is None else text(one.value), one.revision] for one in entries]


def entries(found: Iterable[Any]) -> list[Entry]:
    """Return the entries of a message."""
    return [Entry(key, value(of), revision) for key, of, revision in found]


def changes(found: Iterable[Any]) -> list[Change]:
    """Return the changes of a message."""
    return [Change(key, None if of is None else value(of), revision) for key, of, revision in found]
