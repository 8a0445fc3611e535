"""A thread that works on large batches keeps the interpreter from the loop only for short times."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import import_module

import pytest

from pybroker.broker.free_memory import trim_function
from pybroker.model import Offset
from pybroker.records.batch import Record
from pybroker.records.build import build_batch, build_message, build_message_set
from pybroker.records.compression import CompressionType, decompress
from pybroker.records.kernels import IS_NATIVE
from pybroker.records.rules import ValidationRules
from pybroker.records.validate import check
from testing.holds import longest_hold_ms
from testing.slowness import slowness

NOW_MS = 1_700_000_000_000
SIZE = 24 << 20
LIMIT_MS = 7.0
"""2 on a quiet machine. The faults that these tests look for take 8 to 40, and other processes share the caches and the host."""


def records() -> list[Record]:
    value = random.Random(1).randbytes(1 << 10) * 100
    return [Record(Offset(number), NOW_MS, b"k", value) for number in range(SIZE // len(value))]


def rules(compression: CompressionType | None = None) -> ValidationRules:
    return ValidationRules(max_message_bytes=2 * SIZE, compression=compression)


def one_large_message() -> Callable[[], object]:
    message = memoryview(bytearray(build_message(Offset(0), timestamp=NOW_MS, key=None, value=bytes(SIZE), magic=1)))
    return lambda: check(message, rules(), now_ms=NOW_MS)


def old_messages() -> Callable[[], object]:
    messages = memoryview(bytearray(build_message_set(records(), magic=1)))
    return lambda: check(messages, rules(), now_ms=NOW_MS)


def batch_to_inflate() -> Callable[[], object]:
    batch = memoryview(build_batch(records(), compression=CompressionType.ZSTD))
    return lambda: check(batch, rules(CompressionType.NONE), now_ms=NOW_MS)


def raw_snappy_block() -> Callable[[], object]:
    block = memoryview(bytes(import_module("cramjam").snappy.compress_raw(random.Random(1).randbytes(1 << 20) * (SIZE >> 20))))
    return lambda: decompress(CompressionType.SNAPPY, block)


@pytest.fixture(autouse=True, scope="module")
def _allocator() -> None:
    """Set up the allocator as a broker does: large blocks are mapped, so that they grow without a copy."""
    trim_function()


@pytest.mark.judges_time
@pytest.mark.skipif(not IS_NATIVE, reason="the kernels in Python take too long")
@pytest.mark.parametrize("prepare", [one_large_message, old_messages, batch_to_inflate, raw_snappy_block])
def test_a_check_in_a_thread_lets_go_of_the_interpreter(prepare: Callable[[], Callable[[], object]]) -> None:
    assert longest_hold_ms(prepare()) < LIMIT_MS * slowness()
