"""The native functions and their pure twins: right against the slow way, and alike on every input."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import zlib
from types import ModuleType

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.records import _kernels_python, kernels
from pybroker.records.batch import BatchView, Record
from pybroker.records.build import build_batch, build_record_section
from pybroker.records.entries import record_end
from pybroker.records.errors import InvalidRecordError
from testing.scenes.record_lists import BASE_MS, BOTH, outcome, record_lists, section_of, some_records

_kernels_native = pytest.importorskip("pybroker.records._kernels_native") if len(BOTH) == 2 else None
needs_both = pytest.mark.skipif(_kernels_native is None, reason="the extension was not built")
EVERY = -(1 << 63)


@pytest.mark.parametrize("module", BOTH)
@given(data=st.binary(max_size=500))
def test_the_checksum_is_zlibs(module: ModuleType, data: bytes) -> None:
    assert module.crc32(data) == zlib.crc32(data)


@needs_both
@pytest.mark.parametrize("use_clmul", [False, True])
def test_the_native_checksum_is_zlibs_at_every_length(use_clmul: bool) -> None:
    assert _kernels_native is not None
    data = random.randbytes(5000)
    _kernels_native._use_clmul(use_clmul)
    try:
        for size in [*range(700), 4096, 5000]:
            assert _kernels_native.crc32(memoryview(data)[:size]) == zlib.crc32(data[:size])
    finally:
        _kernels_native._use_clmul(True)


@pytest.mark.parametrize("module", BOTH)
@given(
    pairs=st.lists(st.tuples(st.binary(max_size=80), st.none() | st.binary(max_size=80)), max_size=100),
    first=st.sampled_from([0, 1, 60, 8190, 1 << 20]),
)
def test_records_are_made_of_their_ends(module: ModuleType, pairs: list[tuple[bytes, bytes | None]], first: int) -> None:
    records = [Record(Offset(number), BASE_MS, *pair) for number, pair in enumerate(pairs, first)]
    expected = build_record_section(records, base_offset=Offset(0), base_timestamp=BASE_MS)
    assert module.record_section([record_end(*pair) for pair in pairs], first) == expected


@pytest.mark.parametrize("module", BOTH)
@given(records=record_lists(has_gaps=True))
def test_a_scan_finds_what_the_records_have(module: ModuleType, records: list[Record]) -> None:
    section, base_offset, base_timestamp = section_of(records)
    timestamps = [record.timestamp for record in records]
    assert module.scan_records(section, len(records), base_timestamp) == (
        max(timestamps),
        min((timestamp for timestamp in timestamps if timestamp != -1), default=(1 << 63) - 1),
        sum(record.key is None for record in records),
        [record.offset - base_offset for record in records] == list(range(len(records))),
    )


def test_every_kernel_has_its_native_part() -> None:
    assert set(kernels.__all__) == {*_kernels_python.__all__, "IS_NATIVE"}


@pytest.mark.parametrize("module", BOTH)
def test_large_sections_are_scanned_without_the_gil(module: ModuleType) -> None:
    records = some_records(300, value_size=1000)
    section, _, base_timestamp = section_of(records)
    assert len(section) > 256 << 10
    assert module.scan_records(section, 300, base_timestamp)[0] == records[-1].timestamp


@pytest.mark.parametrize("module", BOTH)
@given(records=record_lists(), end=st.integers(0, 1 << 16), count=st.integers(-2, 14))
def test_every_truncation_and_every_wrong_count_is_refused(
    module: ModuleType, records: list[Record], end: int, count: int
) -> None:
    section, base_offset, base_timestamp = section_of(records)
    cut = section[: end % (len(section) + 1)]
    if count <= len(records):
        first = build_record_section(records[: max(count, 0)], base_offset=Offset(base_offset), base_timestamp=base_timestamp)
        if len(cut) == len(first):
            return  # exactly the first `count` records, whole
    with pytest.raises(InvalidRecordError):
        module.scan_records(cut, count, base_timestamp)


@needs_both
@given(
    records=record_lists(has_gaps=True),
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=6),
    count=st.integers(0, 14),
    base_timestamp=st.integers(-(1 << 63), (1 << 63) - 1),
)
def test_both_do_the_same_with_damaged_records(
    records: list[Record], changes: list[tuple[int, int]], count: int, base_timestamp: int
) -> None:
    assert _kernels_native is not None
    section = bytearray(section_of(records)[0])
    for at, byte in changes:
        section[at % len(section)] = byte
    assert outcome(_kernels_native.scan_records, section, count, base_timestamp) == outcome(
        _kernels_python.scan_records, section, count, base_timestamp
    )


@needs_both
@given(data=st.binary(max_size=80), count=st.integers(0, 5))
def test_both_do_the_same_with_noise(data: bytes, count: int) -> None:
    assert _kernels_native is not None
    assert outcome(_kernels_native.scan_records, data, count, 0) == outcome(_kernels_python.scan_records, data, count, 0)


ACCEPT_ALL = (BASE_MS, 1 << 20, (1 << 63) - 1, (1 << 63) - 1, False)


@pytest.mark.parametrize("module", BOTH)
def test_a_good_batch_is_accepted_and_gets_its_place(module: ModuleType) -> None:
    data = build_batch(some_records(3), producer_id=ProducerId(9), producer_epoch=ProducerEpoch(0), base_sequence=5)
    before = bytes(data)
    assert module.accept_batch(memoryview(data), 1 << 40, 77, *ACCEPT_ALL) == (2, BASE_MS + 6, 9, 0, 5, 0)
    batch = BatchView(memoryview(data))
    assert (batch.base_offset, batch.partition_leader_epoch, batch.is_valid) == (1 << 40, 77, True)
    assert (bytes(data[8:12]), bytes(data[16:])) == (bytes(before[8:12]), bytes(before[16:]))
    assert module.accept_batch(memoryview(data), 0, 0, *ACCEPT_ALL) is None, "it begins at another offset now"
    assert module.accept_batch(memoryview(before), 0, 0, *ACCEPT_ALL) is None, "read only"


@pytest.mark.parametrize("module", BOTH)
def test_the_limits_of_what_is_accepted(module: ModuleType) -> None:
    def is_accepted(
        now_ms: int = BASE_MS, bytes_max: int = 1 << 20, before: int = 0, after: int = 6, *, compacted: bool = True
    ) -> bool:
        return module.accept_batch(bytearray(data), 5, 0, now_ms, bytes_max, before, after, compacted) is not None

    data = build_batch(some_records(3))  # from BASE_MS to BASE_MS + 6
    assert is_accepted()
    assert not is_accepted(BASE_MS - 1)
    assert not is_accepted(BASE_MS + 1)
    assert is_accepted(bytes_max=len(data))
    assert not is_accepted(bytes_max=len(data) - 1)
    assert is_accepted(now_ms=(1 << 63) - 1, before=(1 << 63) - 1, after=(1 << 63) - 1)
    data = build_batch(some_records(3, key=None))
    assert not is_accepted()
    assert is_accepted(compacted=False)


@needs_both
@pytest.mark.parametrize("use_instruction", [False, True])
def test_batches_of_every_size_are_accepted(use_instruction: bool) -> None:
    assert _kernels_native is not None
    _kernels_native._use_crc32c(use_instruction)
    try:
        for size in [*range(300), 1900, 2000, 2048, 4000, 300_000]:
            data = build_batch([Record(Offset(0), BASE_MS, None, random.randbytes(size))])
            assert _kernels_native.accept_batch(bytearray(data), 1, 0, *ACCEPT_ALL) == (0, BASE_MS, -1, -1, -1, 0)
            data[-1] ^= 1
            assert _kernels_native.accept_batch(data, 1, 0, *ACCEPT_ALL) is None
    finally:
        _kernels_native._use_crc32c(True)


@needs_both
@given(
    records=record_lists(has_gaps=True),
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=3),
    cut=st.integers(-3, 3),
    is_sound=st.booleans(),
    limits=st.tuples(
        st.integers(-5, 1 << 62), st.integers(0, 2000), st.integers(0, 1 << 62), st.integers(0, 1 << 62), st.booleans()
    ),
)
def test_both_accept_the_same_batches(
    records: list[Record],
    changes: list[tuple[int, int]],
    cut: int,
    is_sound: bool,
    limits: tuple[int, int, int, int, bool],
) -> None:
    assert _kernels_native is not None
    data = build_batch([record._replace(offset=Offset(record.offset - records[0].offset)) for record in records])
    data = data[:cut] if cut < 0 else data + bytes(cut)
    for at, byte in changes:
        data[at % len(data)] = byte
    if is_sound:
        data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    for arguments in (limits, ACCEPT_ALL):
        native, pure = bytearray(data), bytearray(data)
        assert _kernels_native.accept_batch(native, 3, 4, *arguments) == _kernels_python.accept_batch(
            pure, Offset(3), LeaderEpoch(4), *arguments
        )
        assert native == pure


@pytest.mark.parametrize("module", BOTH)
def test_timestamps_and_offsets_beyond_64_bits_are_refused(module: ModuleType) -> None:
    records = some_records(2)
    section, *_ = section_of(records)
    top = (1 << 63) - 1
    with pytest.raises(InvalidRecordError, match="64 bits"):
        module.scan_records(section, 2, top)
    assert module.scan_records(section, 2, BASE_MS)[3]


def test_the_environment_chooses_the_pure_twins() -> None:
    code = "from pybroker.records import kernels; print(kernels.IS_NATIVE)"
    environment = {**os.environ, "PYBROKER_PURE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
    assert (_kernels_native is not None) is kernels.IS_NATIVE or os.environ.get("PYBROKER_PURE") == "1"
