"""The inputs that a run begins with: well-formed inputs, made here, and those in `corpus/`, each of which once showed a fault."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

from pybroker.model import Offset, ProducerEpoch, ProducerId
from pybroker.protocol.codec import encode_request
from pybroker.protocol.parts import parts_bytes
from pybroker.protocol.schema import schema_of
from pybroker.records.batch import Record
from pybroker.records.build import build_batch, build_message_set
from pybroker.records.compression import CompressionType
from testing.scenes.messages import full
from tests.fuzz.targets import CLASSES, NOW_MS

CORPUS = Path(__file__).parent / "corpus"


def seeds(target: str) -> list[bytes]:
    """Return the seeds of a target, always in the same order."""
    made = {"frames": _frames, "batches": _batches, "segments": _segments}[target]
    return [*made(), *corpus(target)]


def corpus(target: str) -> list[bytes]:
    """Return the inputs that once showed a fault."""
    return [one.read_bytes() for one in sorted((CORPUS / target).glob("*"))]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Make a few changes such as fuzzers make."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 8])):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(6):
            case 0 if at < len(found):
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                found[at : at + 1] = rng.choice([b"\x00", b"\xff", b"\x7f", b"\x80", b"\x01"])
            case 2:
                found[at : at + 4] = struct.pack(">I", rng.choice([0x7FFF_FFFF, 0xFFFF_FFFF, 0x8000_0000, 1]))
            case 3:
                del found[at : at + rng.randrange(9)]
            case 4:
                found[at:at] = found[max(0, at - rng.randrange(20)) : at]
            case _:
                found[at:at] = rng.randbytes(rng.randrange(6))
    return bytes(found)


def _frames() -> Iterator[bytes]:
    for number, (cls, version) in enumerate(CLASSES):
        message = full(cls, version)
        if schema_of(cls).is_request:
            yield b"".join(map(bytes, encode_request(message, version, correlation_id=7, client_id="fuzz")))[4:]  # type: ignore[arg-type]  # no late parts
        else:
            yield b"\xff\xff" + number.to_bytes(2) + parts_bytes(_body(message, version))  # type: ignore[arg-type]  # no late parts


def _body(message: object, version: int) -> list[object]:
    from pybroker.protocol.codec import encode  # noqa: PLC0415

    return list(encode(message, version))


def _batches() -> Iterator[bytes]:
    headers = (("h", b"x"), ("n", None))
    records = [Record(Offset(n), NOW_MS + n, b"k%d" % n if n else None, b"v" * n * 9 or None, headers) for n in range(5)]
    for codec in CompressionType:
        for choices in (1, 3, 5):
            batch = build_batch(
                records, compression=codec, producer_id=ProducerId(3), producer_epoch=ProducerEpoch(1), base_sequence=4
            )
            yield bytes([choices, codec]) + bytes(batch)
    plain = [Record(Offset(n), NOW_MS + n, b"k%d" % n, b"v" * n * 9) for n in range(5)]
    for magic in (0, 1):
        for codec in (CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4):
            yield bytes([8, 0]) + bytes(build_message_set(plain, magic=magic, compression=codec))


def _segments() -> Iterator[bytes]:
    for clean in (0, 1, 24, 25):
        yield bytes([clean])
        for file in range(16):
            for what in range(7):
                yield bytes([clean, file, what, 0, 30 + 9 * what, 5, 0x7F])
