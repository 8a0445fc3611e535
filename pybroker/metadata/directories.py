"""The log directories that a broker has used, as an entry of the store (KIP-858's way).

    directories/<broker id>    JSON: {"directories": {<directory id>: {"path", "is_away", "is_forgotten"}}}

Only the broker itself and its administrator's commands write the entry, and the image does not have it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pybroker.log.directories.claims import KnownDirectory
from pybroker.metadata.store.base import Store, StoreError

if TYPE_CHECKING:
    from pybroker.model import BrokerId

DIRECTORIES_PREFIX: Final = "directories/"


def directories_key(broker_id: BrokerId) -> str:
    """Return the key of the entry with the broker's directories."""
    return f"{DIRECTORIES_PREFIX}{broker_id}"


def encode_directories(known: Iterable[KnownDirectory]) -> bytes:
    """Return the value of `directories_key`."""
    fields = {
        one.directory_id: {"path": one.path, "is_away": one.is_away, "is_forgotten": one.is_forgotten}
        for one in sorted(known, key=lambda one: one.directory_id)
    }
    return json.dumps({"directories": fields}, separators=(",", ":")).encode()


def decode_directories(key: str, value: bytes) -> list[KnownDirectory]:
    """Decode what `encode_directories` returns. Raises StoreError if the value has another form."""
    try:
        return [
            KnownDirectory(
                directory_id=directory_id,
                path=str(fields["path"]),
                is_away=bool(fields["is_away"]),
                is_forgotten=bool(fields["is_forgotten"]),
            )
            for directory_id, fields in json.loads(value)["directories"].items()
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"the store's entry {key} cannot be read: {error!r}") from error


async def read_directories(store: Store, broker_id: BrokerId) -> list[KnownDirectory]:
    """Read the directories that the broker has used. Raises StoreError."""
    key = directories_key(broker_id)
    entry = await store.get(key)
    return [] if entry is None else decode_directories(key, entry.value)


async def write_directories(store: Store, broker_id: BrokerId, known: Iterable[KnownDirectory]) -> None:
    """Replace the entry, if that changes it. Raises StoreError."""
    key, value = directories_key(broker_id), encode_directories(known)
    entry = await store.get(key)
    if entry is None or entry.value != value:
        await store.commit(puts={key: value})
