"""The promised size, its cases, the chunks and the memory of a lazy conversion."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import CoordinatorEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.records import legacy
from pybroker.records.batch import Record, claimed_size
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from pybroker.records.convert import down_convert
from pybroker.records.errors import ConversionClosedError, CorruptRecordError, UnsupportedCompressionError
from pybroker.records.lazy_down_conversion import CHUNK_BYTES, FIRST_BYTES, LazyDownConversion, down_convert_eagerly
from testing.scenes.record_lists import BOTH, kernels_of, some_records


class Slice:
    """A slice of a log in memory, which shows what was read of it."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        self.data = data
        self.size = len(data)
        self.start = start
        self.reads: list[tuple[int, int]] = []
        self.is_closed = False

    def read(self, position: int, length: int) -> bytes:
        self.reads.append((position, length))
        return self.data[position : position + length]

    def slice(self, position: int, size: int) -> Slice:
        return Slice(self.data[position : position + size], position)

    def cold(self) -> Callable[[], None] | None:
        return lambda: self.reads.append((self.start, self.size))

    def close(self) -> None:
        self.is_closed = True


class Warm(Slice):
    """A slice that is in memory: nothing has to be read before it is converted."""

    def slice(self, position: int, size: int) -> Warm:
        return Warm(self.data[position : position + size], position)

    def cold(self) -> None:
        return None


def batch_of(count: int, base_offset: int, *, value_size: int = 100, codec: CompressionType = CompressionType.NONE) -> bytes:
    return bytes(build_batch(some_records(count, base_offset=base_offset, value_size=value_size), compression=codec))


def log_of(count: int, *, per_batch: int = 10, value_size: int = 100, codec: CompressionType = CompressionType.NONE) -> bytes:
    return b"".join(batch_of(per_batch, index * per_batch, value_size=value_size, codec=codec) for index in range(count))


def pulled(part: LazyDownConversion, bytes_max: int = 1 << 20) -> list[bytes]:
    """Return the bytes of each pull."""
    chunks: list[bytes] = []
    while parts := part.pull(bytes_max):
        chunks.append(b"".join(parts))
    return chunks


def split(sent: bytes) -> tuple[bytes, bytes]:
    """Return the whole messages and the padding."""
    position = 0
    while (size := claimed_size(sent, position)) is not None and size <= len(sent) - position:
        position += size
    return sent[:position], sent[position:]


def is_padding(padding: bytes) -> bool:
    return padding == (struct.pack(">qi", -1, 0x7FFFFFFF) + bytes(max(0, len(padding) - 12)))[: len(padding)]


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP, CompressionType.LZ4])
@pytest.mark.parametrize("chunk_bytes", [1, 3000, CHUNK_BYTES])
def test_exactly_the_promised_bytes_whole_batches_then_padding(
    module: ModuleType, magic: int, codec: CompressionType, chunk_bytes: int
) -> None:
    with kernels_of(module):
        source = log_of(40, codec=codec)
        entries = [
            down_convert(batch_of(10, i * 10, codec=codec), to_magic=magic, first_offset=Offset(0)).data for i in range(40)
        ]
        part = LazyDownConversion(Slice(source), to_magic=magic, first_offset=Offset(0), chunk_bytes=chunk_bytes)
        assert part.size == max(len(source), len(entries[0]))
        sent = b"".join(pulled(part))
    assert len(sent) == part.size
    whole = 0
    while whole < 40 and len(b"".join(entries[: whole + 1])) <= part.size:
        whole += 1
    assert split(sent)[0] == b"".join(entries[:whole])
    assert is_padding(split(sent)[1])
    assert part.records_converted == whole * 10
    assert part.pull(1) == ()


def shrinking_by(slack: int) -> bytes:
    """Make a batch of four records that shrinks by `slack` in conversion: old messages are larger, but have no headers."""
    for size in range(200):  # over two records, so that no size is jumped over where a varint grows
        headers = [(("h", bytes(min(size, 40))),), (("h", bytes(max(size - 40, 0))),), (), ()]
        records = [Record(Offset(i), 5, None, b"v", headers[i]) for i in range(4)]
        source = bytes(build_batch(records))
        if len(source) == 4 * (34 + 1) + slack:
            return source
    raise AssertionError("no batch has this size")


@pytest.mark.parametrize("slack", [0, *range(1, 15), 100])
def test_cases_a_and_c_every_size_of_padding(slack: int) -> None:
    source = shrinking_by(slack)
    part = LazyDownConversion(Slice(source), to_magic=1, first_offset=Offset(0))
    sent = b"".join(pulled(part))
    assert (part.size, len(sent)) == (len(source), len(source))
    messages, padding = split(sent)
    assert [record.value for record in legacy.records(messages)] == [b"v"] * 4
    assert len(padding) == slack
    assert is_padding(padding)


def test_case_b_the_first_batch_always_fits() -> None:
    source = batch_of(200, 0, value_size=1)
    part = LazyDownConversion(Slice(source), to_magic=1, first_offset=Offset(0))
    assert part.size > len(source)
    assert b"".join(pulled(part)) == down_convert(source, to_magic=1, first_offset=Offset(0)).data


def test_case_b_what_does_not_fit_is_left_for_the_next_fetch() -> None:
    source = log_of(3, per_batch=50, value_size=1)
    part = LazyDownConversion(Slice(source), to_magic=1, first_offset=Offset(0))
    messages, padding = split(b"".join(pulled(part)))
    offsets = [record.offset for record in legacy.records(messages)]
    assert offsets == list(range(50 * (len(offsets) // 50)))
    assert 0 < len(offsets) < 150
    assert is_padding(padding)
    after = LazyDownConversion(Slice(source[len(source) // 3 :]), to_magic=1, first_offset=Offset(50))
    assert next(legacy.records(split(b"".join(pulled(after)))[0])).offset == 50


@pytest.mark.parametrize(
    "source",
    [
        bytes(
            build_transaction_marker(
                TransactionMarker(ControlType.ABORT, CoordinatorEpoch(0)),
                producer_id=ProducerId(1),
                producer_epoch=ProducerEpoch(0),
                timestamp_ms=1,
            )
        ),
        batch_of(5, 0)[:-1],
        batch_of(5, 0)[:40],
        batch_of(5, 0)[:5],
        batch_of(5, 0),  # all before the first offset
    ],
    ids=["control", "partial", "partial header", "less than a size", "before the first offset"],
)
def test_case_d_nothing_to_convert(source: bytes) -> None:
    part = LazyDownConversion(Slice(source), to_magic=1, first_offset=Offset(100))
    assert part.size == 12
    assert is_padding(b"".join(pulled(part)))


def test_nothing_fetched_is_nothing_sent() -> None:
    part = LazyDownConversion(Slice(b""), to_magic=1, first_offset=Offset(0))
    assert (part.size, pulled(part), part.cold()) == (0, [], None)


def test_batches_without_anything_for_old_clients_are_skipped_at_the_start_and_later() -> None:
    marker = bytes(
        build_transaction_marker(
            TransactionMarker(ControlType.ABORT, CoordinatorEpoch(0)),
            producer_id=ProducerId(1),
            producer_epoch=ProducerEpoch(0),
            timestamp_ms=1,
        )
    )
    source = marker + marker + batch_of(5, 2) + marker * 3 + batch_of(5, 10) + marker
    for chunk_bytes in (1, 500, CHUNK_BYTES):
        part = LazyDownConversion(Slice(source), to_magic=1, first_offset=Offset(0), chunk_bytes=chunk_bytes)
        messages, padding = split(b"".join(pulled(part)))
        assert [record.offset for record in legacy.records(messages)] == [2, 3, 4, 5, 6, 10, 11, 12, 13, 14]
        assert is_padding(padding)


def test_the_first_offset_may_lie_inside_the_first_batch() -> None:
    part = LazyDownConversion(Slice(log_of(4)), to_magic=0, first_offset=Offset(7))
    assert next(legacy.records(b"".join(pulled(part)))).offset == 7


def test_a_chunk_is_whole_batches_up_to_the_limit_or_one_larger() -> None:
    small, large = log_of(30), batch_of(100, 300, value_size=5000)
    one = len(small) // 30
    shrinking = bytes(build_batch([Record(Offset(400), 5, None, b"v", (("h", bytes(9000)),))]))  # makes room for what grows
    source = Slice(small + large + shrinking)
    part = LazyDownConversion(source, to_magic=1, first_offset=Offset(0), chunk_bytes=one * 4 + one // 2)
    sizes = [len(list(legacy.messages(split(chunk)[0]))) for chunk in pulled(part)]
    assert sizes[:7] == [40] * 7
    assert sizes[7:10] == [20, 100, 1]


@pytest.mark.parametrize("kept_bytes_max", [0, CHUNK_BYTES])
def test_nothing_but_a_small_first_batch_is_converted_before_it_is_pulled(kept_bytes_max: int) -> None:
    source, first = Slice(log_of(1000)), down_convert(batch_of(10, 0), to_magic=1, first_offset=Offset(0)).data
    part = LazyDownConversion(source, to_magic=1, first_offset=Offset(0), kept_bytes_max=kept_bytes_max)
    assert source.reads == [(0, FIRST_BYTES)]
    assert part.kept_bytes == (len(first) if kept_bytes_max else 0)
    source.reads.clear()
    assert sum(map(len, part.pull(1))) > CHUNK_BYTES // 2
    assert source.reads == [(len(batch_of(10, 0)), CHUNK_BYTES - len(first)) if kept_bytes_max else (0, CHUNK_BYTES)]


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_compressed_first_batch_is_kept_until_sent_or_dropped(is_dropped: bool) -> None:
    source = log_of(5, codec=CompressionType.GZIP)
    part = LazyDownConversion(Slice(source), to_magic=1, first_offset=Offset(0))
    first = down_convert(batch_of(10, 0, codec=CompressionType.GZIP), to_magic=1, first_offset=Offset(0)).data
    assert part.kept_bytes == len(first)
    if is_dropped:
        part.drop_first()
        assert part.kept_bytes == 0
    sent = b"".join(pulled(part))
    assert part.kept_bytes == 0
    assert sent.startswith(first)
    assert len(sent) == part.size


def test_padding_comes_in_pieces() -> None:
    source = bytes(build_batch([Record(Offset(0), 5, None, b"v", (("h", bytes(300_000)),))]))
    chunks = pulled(LazyDownConversion(Slice(source), to_magic=1, first_offset=Offset(0)), 100_000)
    assert [len(chunk) for chunk in chunks[:3]] == [35, 100_012, 100_000]
    assert sum(map(len, chunks)) == len(source)
    assert is_padding(b"".join(chunks[1:]))


@pytest.mark.parametrize(("header", "claimed"), [(10, 61), (300, None)])
def test_padding_may_claim_what_kafkas_does(header: int, claimed: int | None) -> None:
    source = bytes(build_batch([Record(Offset(0), 5, None, b"v", (("h", bytes(header)),))]))
    part = LazyDownConversion(Slice(source), to_magic=1, first_offset=Offset(0), overflow_message_size=None)
    padding = split(b"".join(pulled(part)))[1]
    assert struct.unpack_from(">qi", padding) == (-1, claimed or len(padding) + 1)


def test_zstd_and_damage_first_are_errors_and_later_are_padded() -> None:
    zstd = batch_of(10, 10, codec=CompressionType.ZSTD)
    damaged = bytearray(batch_of(10, 10))
    damaged[-1] ^= 1
    for bad, error in ((zstd, UnsupportedCompressionError), (bytes(damaged), CorruptRecordError)):
        with pytest.raises(error):
            LazyDownConversion(Slice(bad), to_magic=1, first_offset=Offset(0))
        part = LazyDownConversion(Slice(batch_of(10, 0) + bad + batch_of(10, 20)), to_magic=1, first_offset=Offset(0))
        messages, padding = split(b"".join(pulled(part)))
        assert [record.offset for record in legacy.records(messages)] == list(range(10))
        assert is_padding(padding)
        assert isinstance(part.error, error)


def test_the_source_is_asked_where_it_is_cold_and_closed_at_the_end() -> None:
    source = Slice(log_of(100))
    part = LazyDownConversion(source, to_magic=1, first_offset=Offset(0), chunk_bytes=2000)
    assert part.cold() is not None
    part.pull(1)
    assert part.cold() is not None
    part.close()
    assert source.is_closed
    assert (part.cold(), part.pull(10)) == (None, ())
    part.close()


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_a_conversion_ends_when_it_is_closed_meanwhile(codec: CompressionType) -> None:
    class Closing(Slice):
        """Closes the conversion while its thread reads."""

        def read(self, position: int, length: int) -> bytes:
            if self.reads:
                part.close()
            return super().read(position, length)

    source = batch_of(3000, 0, codec=codec)
    part = LazyDownConversion(Closing(source), to_magic=1, first_offset=Offset(0), is_measured=False)
    with pytest.raises(ConversionClosedError):
        part.measure()
    assert (part.kept_bytes, part.pull(1)) == (0, ())

    part = LazyDownConversion(Warm(source), to_magic=1, first_offset=Offset(0))
    part.drop_first()
    prepare = part.cold()
    assert prepare is not None
    part.close()
    with pytest.raises(ConversionClosedError):
        prepare()
    assert part.kept_bytes == 0


def test_one_chunk_in_memory_whatever_the_fetch() -> None:
    """The fetch is the paper's, 250 partitions of 1 MB each, of which this test takes twenty."""
    source = log_of(64, per_batch=16, value_size=1000)
    parts = [LazyDownConversion(Slice(source), to_magic=1, first_offset=Offset(0)) for _ in range(20)]
    tracemalloc.start()
    try:
        for part in parts:
            while part.pull(1 << 20):
                pass
        lazily = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        kept = [down_convert_eagerly(Slice(source), to_magic=1, first_offset=Offset(0)) for _ in range(20)]
        eagerly = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert lazily < 4 * CHUNK_BYTES
    assert eagerly > sum(map(len, kept)) > 20 << 20


@given(
    counts=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 200), st.sampled_from(list(CompressionType)[:4])), max_size=8),
    cut=st.integers(0, 300),
    chunk_bytes=st.integers(1, 4000),
    first_offset=st.integers(0, 60),
    bytes_max=st.integers(1, 5000),
    magic=st.integers(0, 1),
)
def test_what_is_sent_is_a_prefix_of_the_whole_conversion(
    counts: list[tuple[int, int, CompressionType]], cut: int, chunk_bytes: int, first_offset: int, bytes_max: int, magic: int
) -> None:
    source, offset = b"", 0
    for count, value_size, codec in counts:
        source += batch_of(count, offset, value_size=value_size, codec=codec)
        offset += count
    source = source[: max(0, len(source) - cut)]
    part = LazyDownConversion(Slice(source), to_magic=magic, first_offset=Offset(first_offset), chunk_bytes=chunk_bytes)
    sent = b"".join(pulled(part, bytes_max))
    assert len(sent) == part.size
    messages, padding = split(sent)
    eager = down_convert_eagerly(Slice(source), to_magic=magic, first_offset=Offset(first_offset))
    assert eager.startswith(messages)
    assert is_padding(padding)
    assert not eager or messages, "there is always progress"
    assert part.size == (max(len(source), len(sent)) if eager else 12 * bool(source))


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("magic", [0, 1])
def test_batches_that_compaction_emptied_are_nothing_to_old_clients(module: ModuleType, magic: int) -> None:
    emptied = bytes(
        build_batch(
            [],
            base_offset=Offset(10),
            last_offset=Offset(19),
            producer_id=ProducerId(7),
            producer_epoch=ProducerEpoch(0),
            base_sequence=0,
        )
    )
    before, after = batch_of(10, 0, value_size=1), batch_of(10, 20, value_size=1)
    with kernels_of(module):
        for data, offsets in ((before + emptied, range(10)), (emptied + after, range(20, 30))):
            part = LazyDownConversion(Slice(data), to_magic=magic, first_offset=Offset(0))
            assert [one.offset for one in legacy.records(split(b"".join(pulled(part)))[0])] == list(offsets)


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.LZ4])
def test_a_batch_without_records_from_the_offset_on_is_passed(module: ModuleType, codec: CompressionType) -> None:
    """Compaction leaves a batch its range of offsets: a client may ask behind its last record."""
    left = bytes(build_batch(some_records(2, base_offset=4), base_offset=Offset(0), last_offset=Offset(9), compression=codec))
    with kernels_of(module):
        part = LazyDownConversion(Slice(left + batch_of(10, 10, codec=codec)), to_magic=1, first_offset=Offset(7))
        assert part.first_size > 0
        assert [one.offset for one in legacy.records(split(b"".join(pulled(part)))[0])] == list(range(10, 20))
        nothing = LazyDownConversion(Slice(left), to_magic=1, first_offset=Offset(7))
        assert (nothing.first_size, nothing.passed_offset) == (0, 10)
