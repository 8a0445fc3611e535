"""A mirror sends fetched batches unchanged if possible, and only such as a broker accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import FIRST_OFFSET, CoordinatorEpoch, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.records import batch as batch_module
from pybroker.records import compression
from pybroker.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    BatchView,
    Record,
    TimestampType,
)
from pybroker.records.build import assemble_batch, build_batch, build_message_set
from pybroker.records.compression import CompressionType
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from pybroker.records.rules import ValidationRules
from pybroker.records.validate import validate_and_assign
from pybroker.spark.errors import PipelineError
from pybroker.spark.mirror.outgoing import Outgoing, Planner, Producer
from pybroker.spark.wire.client import Fetched

T0 = 1_700_000_000_000
PRODUCER = Producer(ProducerId(77), ProducerEpoch(3))
CODECS = list(CompressionType)
RULES = ValidationRules(max_message_bytes=1 << 20)


def record(offset: int, size: int = 20) -> Record:
    return Record(Offset(offset), T0 + offset, b"k%d" % offset, b"v" * size, (("h", b"x"), ("n", None)))


def records(first: int, count: int) -> list[Record]:
    return [record(first + number) for number in range(count)]


def fetched(*parts: bytes | bytearray, aborted: Sequence[tuple[int, int]] = ()) -> Fetched:
    first_offsets = tuple((ProducerId(producer_id), Offset(offset)) for producer_id, offset in aborted)
    return Fetched(memoryview(bytearray(b"".join(parts))), FIRST_OFFSET, FIRST_OFFSET, FIRST_OFFSET, first_offsets)


def planner(source: int = 0, target: int = 0, size_max: int = 1 << 20) -> Planner:
    return Planner(PRODUCER, Offset(source), Offset(target), size_max)


def appended(out: Sequence[Outgoing]) -> list[Record]:
    """Return the log of a broker that has accepted these batches and validated them like a producer's."""
    found: list[Record] = []
    for one in out:
        header = BatchView(one.data)
        assert (header.producer_id, header.producer_epoch) == (77, 3)
        assert header.base_sequence == one.offset & 0x7FFF_FFFF
        assert not header.is_transactional
        kept = bytes(one.data[HEADER_SIZE:])
        result = validate_and_assign(
            one.data, first_offset=Offset(one.offset), now_ms=T0, leader_epoch=LeaderEpoch(9), rules=RULES, produce_version=9
        )
        [batch] = result.batches
        assert not result.is_rebuilt
        assert bytes(batch.payload) == kept
        assert batch.record_count == one.count
        batch.ensure_valid()
        found += batch.records()
    assert [one.offset for one in found] == list(range(found[0].offset if found else 0, (found[-1].offset + 1) if found else 0))
    return found


def sources(out: Sequence[Outgoing]) -> list[int]:
    """Return the source offset of every record, by the runs."""
    found: list[int] = []
    for one in out:
        targets = [target for _, target in one.runs] + [one.offset + one.count]
        for (source, target), following in zip(one.runs, targets[1:], strict=True):
            found += range(source, source + following - target)
    return found


@pytest.fixture
def _no_decompressor(monkeypatch: pytest.MonkeyPatch) -> None:
    def poison(*_: Any, **__: Any) -> bytes:
        raise AssertionError("decompressed")

    monkeypatch.setattr(batch_module, "decompress", poison)
    for name in ("decompress", "inflated", "compress"):
        monkeypatch.setattr(compression, name, poison)


@pytest.mark.usefixtures("_no_decompressor")
@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_is_copied_unchanged_and_never_decompressed(codec: CompressionType) -> None:
    payload = b"these bytes are of no codec at all, and nobody finds out"
    batch = assemble_batch(
        payload,
        base_offset=Offset(500),
        last_offset_delta=9,
        attributes=codec,
        base_timestamp=T0,
        max_timestamp=T0 + 5,
        record_count=10,
    )
    plan = planner(500, 40)
    [out] = plan.plan(fetched(batch))
    view = BatchView(out.data)
    assert bytes(view.payload) == payload
    assert (view.base_offset, view.partition_leader_epoch, view.last_offset_delta, view.record_count) == (0, -1, 9, 10)
    assert (view.base_timestamp, view.max_timestamp, view.attributes) == (T0, T0 + 5, codec)
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (77, 3, 40)
    assert view.is_valid
    assert (out.offset, out.count, out.runs, out.is_verbatim) == (40, 10, [(500, 40)], True)
    assert (plan.source, plan.target) == (510, 50)
    assert (plan.counts.verbatim, plan.counts.rebuilt, plan.counts.records, plan.counts.size) == (1, 0, 10, len(batch))


@pytest.mark.parametrize("codec", CODECS)
def test_the_copy_has_the_records_of_the_source(codec: CompressionType) -> None:
    wanted = records(0, 30)
    parts = [
        build_batch(
            wanted[n : n + 10], compression=codec, producer_id=ProducerId(5), producer_epoch=ProducerEpoch(1), base_sequence=n
        )
        for n in (0, 10, 20)
    ]
    out = list(planner().plan(fetched(*parts)))
    assert all(one.is_verbatim for one in out)
    assert appended(out) == wanted


@pytest.mark.usefixtures("_no_decompressor")
def test_only_the_transactional_bit_and_the_delete_horizon_are_cleared() -> None:
    committed = assemble_batch(
        b"?", base_offset=Offset(0), last_offset_delta=0, attributes=4 | 0x10, base_timestamp=T0, max_timestamp=T0, record_count=1
    )
    seen = assemble_batch(
        b"?",
        base_offset=Offset(1),
        last_offset_delta=0,
        attributes=3 | DELETE_HORIZON_BIT,
        base_timestamp=9,
        max_timestamp=T0,
        record_count=1,
    )
    out = list(planner().plan(fetched(committed, seen)))
    assert [(BatchView(one.data).attributes, BatchView(one.data).base_timestamp) for one in out] == [(4, T0), (3, 9)]
    assert all(one.is_verbatim for one in out)


def test_the_sequence_starts_again_after_its_largest() -> None:
    [out] = planner(0, (1 << 31) + 5).plan(fetched(build_batch(records(0, 1))))
    assert BatchView(out.data).base_sequence == 5


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_with_gaps_is_rebuilt(codec: CompressionType) -> None:
    left = [record(offset) for offset in (102, 103, 107)]
    batch = build_batch(left, base_offset=Offset(100), last_offset=Offset(109), compression=codec)
    plan = planner(100, 7)
    out = list(plan.plan(fetched(batch)))
    assert [(one.runs, one.is_verbatim) for one in out] == [([(102, 7), (107, 9)], False)]
    assert BatchView(out[0].data).compression is codec
    assert appended(out) == [one._replace(offset=Offset(7 + n)) for n, one in enumerate(left)]
    assert (plan.source, plan.target) == (110, 10)


def test_the_first_batch_may_begin_too_early() -> None:
    plan = planner(14, 0)
    out = list(plan.plan(fetched(build_batch(records(10, 10)), build_batch(records(20, 2)))))
    assert [one.is_verbatim for one in out] == [False, True]
    assert sources(out) == list(range(14, 22))
    assert appended(out) == [one._replace(offset=one.offset - 14) for one in records(14, 8)]
    assert list(planner(20).plan(fetched(build_batch(records(10, 10))))) == []


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.ZSTD])
def test_times_of_the_broker_become_the_records_own(codec: CompressionType) -> None:
    batch = build_batch(
        records(0, 3), compression=codec, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=T0 + 900
    )
    out = list(planner().plan(fetched(batch)))
    assert [one.is_verbatim for one in out] == [False]
    assert BatchView(out[0].data).timestamp_type is TimestampType.CREATE_TIME
    assert appended(out) == [one._replace(timestamp=T0 + 900) for one in records(0, 3)]


def test_control_batches_and_empty_ones_are_left_out_and_passed() -> None:
    marker = TransactionMarker(ControlType.COMMIT, CoordinatorEpoch(0))
    plan = planner()
    out = list(
        plan.plan(
            fetched(
                build_batch(
                    records(0, 2),
                    producer_id=ProducerId(5),
                    producer_epoch=ProducerEpoch(0),
                    base_sequence=0,
                    is_transactional=True,
                ),
                build_transaction_marker(
                    marker, producer_id=ProducerId(5), producer_epoch=ProducerEpoch(0), timestamp_ms=T0, offset=Offset(2)
                ),
                build_batch([], base_offset=Offset(3), last_offset=Offset(8)),
                build_batch(records(9, 1)),
                build_transaction_marker(
                    marker, producer_id=ProducerId(6), producer_epoch=ProducerEpoch(0), timestamp_ms=T0, offset=Offset(10)
                ),
            )
        )
    )
    assert sources(out) == [0, 1, 9]
    assert len(appended(out)) == 3
    assert (plan.source, plan.target, plan.counts.control) == (11, 3, 2)


def test_aborted_transactions_are_left_out_as_for_read_committed() -> None:
    def part(offset: int, producer_id: int) -> bytearray:
        return build_batch(
            [record(offset)],
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(0),
            base_sequence=offset,
            is_transactional=True,
        )

    def end(offset: int, producer_id: int, how: ControlType) -> bytearray:
        marker = TransactionMarker(how, CoordinatorEpoch(0))
        return build_transaction_marker(
            marker, producer_id=ProducerId(producer_id), producer_epoch=ProducerEpoch(0), timestamp_ms=T0, offset=Offset(offset)
        )

    plan = planner()
    out = list(
        plan.plan(
            fetched(
                part(0, 5),  # aborted
                part(1, 6),  # committed
                build_batch([record(2)]),
                part(3, 5),  # aborted
                end(4, 5, ControlType.ABORT),
                part(5, 5),  # the next transaction of the same producer, committed
                end(6, 6, ControlType.COMMIT),
                end(7, 5, ControlType.COMMIT),
                part(8, 6),  # aborted
                end(9, 6, ControlType.ABORT),
                aborted=[(6, 8), (5, 0)],
            )
        )
    )
    assert sources(out) == [1, 2, 5]
    assert all(one.is_verbatim for one in out)
    assert (plan.source, plan.counts.aborted, plan.counts.control) == (10, 3, 4)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4])
def test_messages_of_old_formats_become_batches_in_their_codec(magic: int, codec: CompressionType) -> None:
    old = [
        Record(Offset(n), T0 + n if magic else -1, None if n == 3 else b"k%d" % n, None if n == 4 else b"v" * 30)
        for n in range(50, 60)
    ]
    data = build_message_set(old, magic=magic, compression=codec)
    plan = planner(52, 5)
    out = list(plan.plan(fetched(data, build_batch(records(60, 1)))))
    assert [(BatchView(one.data).compression, one.is_verbatim) for one in out] == [(codec, False), (CompressionType.NONE, True)]
    assert sources(out) == list(range(52, 61))
    found = appended(out)
    assert found[:-1] == [one._replace(offset=one.offset - 47) for one in old[2:]]
    assert (plan.source, plan.target) == (61, 14)


def test_old_messages_without_a_codec_are_joined_up_to_a_limit() -> None:
    old = [Record(Offset(n), T0, b"k", b"v" * 20_000) for n in range(10)]
    out = list(planner().plan(fetched(build_message_set(old, magic=1))))
    assert [one.count for one in out] == [4, 4, 2]


def test_a_rebuilt_batch_fits_the_target() -> None:
    batch = build_batch([record(n, 400) for n in range(20)], base_offset=Offset(0), last_offset=Offset(25))
    out = list(planner(size_max=3000).plan(fetched(batch)))
    assert [one.count for one in out] == [5, 5, 5, 5]
    assert max(len(one.data) for one in out) <= 3000
    assert len(appended(out)) == 20


@pytest.mark.parametrize("last_offset", [0, 5])
def test_a_batch_that_does_not_fit_is_reported(last_offset: int) -> None:
    batch = build_batch([record(0, 4000)], last_offset=Offset(last_offset))
    with pytest.raises(
        PipelineError, match=r"the batch at source offset 0 has \d+ bytes, " r"but the target accepts 3000: raise its max"
    ):
        list(planner(size_max=3000).plan(fetched(batch)))


def damaged(batch: bytearray) -> bytearray:
    batch[-1] ^= 1
    return batch


def too_short(batch: bytearray) -> bytearray:
    batch[8:12] = (5).to_bytes(4)
    return batch


def of_a_wrong_count(batch: bytearray) -> bytearray:
    batch[57:61] = (1).to_bytes(4)
    batch[CRC_AT : CRC_AT + 4] = crc32c(batch[ATTRIBUTES_AT:]).to_bytes(4)
    return batch


@pytest.mark.parametrize("how", [damaged, too_short, of_a_wrong_count])
def test_damage_is_not_copied(how: Any) -> None:
    with pytest.raises(PipelineError, match="the source is damaged at offset 2"):
        list(planner().plan(fetched(build_batch(records(0, 2)), how(build_batch(records(2, 2))))))


def test_a_batch_that_is_cut_waits_for_the_next_fetch() -> None:
    plan = planner()
    assert len(list(plan.plan(fetched(build_batch(records(0, 2)), build_batch(records(2, 2))[:-1])))) == 1
    assert plan.source == 2
    assert list(plan.plan(fetched(build_batch(records(2, 2))[:20]))) == []


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[bytearray], list[Record]]:
    """Make a log with gaps in and between batches. Return it with what readers see."""
    parts, seen, offset = [], [], draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 6))):
        there = sorted(draw(st.sets(st.integers(0, 9), min_size=1)))
        last = max(there[-1], draw(st.integers(0, 12)))
        kept = [record(offset + one) for one in there]
        codec = draw(st.sampled_from([CompressionType.NONE, CompressionType.LZ4]))
        parts.append(build_batch(kept, base_offset=Offset(offset), last_offset=Offset(offset + last), compression=codec))
        seen += kept
        offset += last + 1 + draw(st.integers(0, 3))
    return parts, seen


@given(logs(), st.data())
def test_nothing_is_lost_or_doubled_whatever_a_fetch_returns(
    log: tuple[list[bytearray], list[Record]], data: st.DataObject
) -> None:
    parts, seen = log
    out: list[Outgoing] = []
    plan = planner(0, 100)

    def chunks() -> Iterator[list[bytearray]]:
        at = 0
        while at < len(parts):
            count = data.draw(st.integers(1, 3))
            yield parts[max(0, at - data.draw(st.integers(0, 1))) : at + count]
            at += count

    for chunk in chunks():
        out += plan.plan(fetched(*chunk))
    assert sources(out) == [one.offset for one in seen]
    assert appended(out) == [one._replace(offset=Offset(100 + number)) for number, one in enumerate(seen)]
