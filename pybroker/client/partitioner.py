"""The partition of a key: the same that Kafka's producers choose."""

from __future__ import annotations


def partition_of(key: bytes, count: int) -> int:
    """Return the partition of a key in a topic with `count` partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def murmur2(data: bytes) -> int:
    """Return the hash by which Kafka's producers choose a key's partition, unsigned."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15
