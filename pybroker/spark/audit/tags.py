"""The bytes of a record's tags and of the producers' counts; docs/audit.md has the tables.

A set of sequence numbers is an int with a bit for each number. It is sent as runs from bit 0 on: how many numbers to skip, how
many to take, how many to skip, and so on. So [0, 4096] is a whole chunk and [3, 2, 1, 1] is 3, 4 and 6.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

PRODUCER: Final = "audit.producer"
TIER: Final = "audit.tier"
SEQUENCE: Final = "audit.sequence"
NAMES: Final = frozenset({PRODUCER, TIER, SEQUENCE})
VERSION: Final = 1
NAME_BYTES_MAX: Final = 200
INCARNATION_DIGITS: Final = 20
CHUNK: Final = 4096
"""How many sequence numbers are counted together."""

Tags = list[tuple[str, bytes]]


def check_name(what: str, name: str) -> bytes:
    """Return the name of a producer or tier in bytes. Raises ValueError."""
    encoded = name.encode()
    if not 1 <= len(encoded) <= NAME_BYTES_MAX or not name.isprintable():
        raise ValueError(f"the {what} {name!r} must be 1 to {NAME_BYTES_MAX} bytes of printable text")
    return encoded


def new_incarnation() -> str:
    """Return a new, unique name of a producer object: 11 hexadecimal digits of milliseconds since 1970, then 9 random ones."""
    return f"{time.time_ns() // 1_000_000:011x}{secrets.randbits(36):09x}"


def encode_sequence(sequence: int) -> bytes:
    """Return the version of the tags and the number, in bytes."""
    return bytes((VERSION,)) + sequence.to_bytes(8, "big")


def runs(bits: int) -> list[int]:
    """Return the runs of a set."""
    found: list[int] = []
    while bits:
        skip = (bits & -bits).bit_length() - 1
        bits >>= skip
        take = (~bits & (bits + 1)).bit_length() - 1
        bits >>= take
        found += (skip, take)
    return found


def from_runs(given: Iterable[int], limit: int = CHUNK) -> int:
    """Return the set that the runs describe. Raises ValueError when they are damaged."""
    bits = at = 0
    numbers = list(given)
    if len(numbers) % 2:
        raise ValueError("the runs are not pairs of numbers")
    for skip, take in zip(numbers[::2], numbers[1::2], strict=True):
        if skip < 0 or take < 0 or at + skip + take > limit:
            raise ValueError(f"the runs reach beyond {limit} or are negative")
        at += skip
        bits |= ((1 << take) - 1) << at
        at += take
    return bits


def ranges(bits: int, *, base: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of each run of a set, with `base` added."""
    found: Sequence[int] = runs(bits)
    for skip, take in zip(found[::2], found[1::2], strict=True):
        base += skip
        yield base, base + take - 1
        base += take
