"""First batches larger than the limit of an old fetch: cut at exactly the limit after conversion."""

from __future__ import annotations

from types import ModuleType

import pytest

from pybroker.model import CoordinatorEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from pybroker.records.convert import down_convert
from pybroker.records.cut_conversion import CutConversion
from pybroker.records.lazy_down_conversion import LazyDownConversion
from testing.scenes.record_lists import BOTH, kernels_of, some_records
from tests.records.test_lazy_down_conversion import Slice, batch_of, is_padding


def sent(part: CutConversion, bytes_max: int = 1 << 20) -> bytes:
    pieces: list[bytes | memoryview] = []
    while pulled := part.pull(bytes_max):
        pieces += pulled
    return b"".join(pieces)


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
@pytest.mark.parametrize("limit", [1, 11, 12, 13, 100, 500, 1000])
def test_exactly_the_limit_of_the_converted_batch(module: ModuleType, magic: int, codec: CompressionType, limit: int) -> None:
    batch = batch_of(10, 0, codec=codec)
    with kernels_of(module):
        converted = down_convert(batch, to_magic=magic, first_offset=Offset(3)).data
        part = CutConversion(LazyDownConversion(Slice(batch), to_magic=magic, first_offset=Offset(3)), limit)
        assert part.size == min(limit, len(converted))
        data = sent(part)
    assert data == converted[:limit]
    assert part.records_converted == (10 if codec else 7)
    assert part.makes_bytes


def test_less_than_the_limit_where_headers_were_all_of_it() -> None:
    records = [record._replace(headers=(("h", b"x" * 1000),)) for record in some_records(2)]
    batch = bytes(build_batch(records))
    converted = down_convert(batch, to_magic=1, first_offset=Offset(0)).data
    part = CutConversion(LazyDownConversion(Slice(batch), to_magic=1, first_offset=Offset(0)), 2000)
    assert len(converted) < 2000 < len(batch)
    assert (part.size, sent(part)) == (len(converted), converted), "and no padding"


@pytest.mark.parametrize("limit", [1, 50])
def test_a_batch_with_nothing_for_old_clients_is_padding(limit: int) -> None:
    marker = TransactionMarker(ControlType.ABORT, CoordinatorEpoch(0))
    batch = bytes(build_transaction_marker(marker, producer_id=ProducerId(1), producer_epoch=ProducerEpoch(0), timestamp_ms=1))
    part = CutConversion(LazyDownConversion(Slice(batch), to_magic=1, first_offset=Offset(0)), limit)
    assert part.size == 12
    assert is_padding(sent(part))


def test_nothing_is_kept_on_request_and_nothing_made_before_it_is_pulled() -> None:
    batch = batch_of(10, 0, codec=CompressionType.GZIP)
    converted = down_convert(batch, to_magic=1, first_offset=Offset(0)).data
    source = Slice(batch)
    part = CutConversion(LazyDownConversion(source, to_magic=1, first_offset=Offset(0)), 20)
    assert part.kept_bytes == len(converted)
    assert part.cold() is None
    part.drop_first()
    assert part.kept_bytes == 0
    assert part.cold() is not None
    assert sent(part) == converted[:20]
    assert part.cold() is None
    part.close()
    assert source.is_closed


def test_a_batch_that_is_damaged_after_it_was_measured_still_has_its_size() -> None:
    batch = batch_of(10, 0)
    source = Slice(batch)
    part = CutConversion(LazyDownConversion(source, to_magic=1, first_offset=Offset(0), kept_bytes_max=0), 500)
    source.data = batch[:-1] + bytes([batch[-1] ^ 1])
    data = sent(part, bytes_max=64)
    assert len(data) == part.size == 500
    assert is_padding(data)


def test_a_closed_part_sends_nothing() -> None:
    part = CutConversion(LazyDownConversion(Slice(batch_of(10, 0)), to_magic=1, first_offset=Offset(0)), 500)
    part.close()
    assert part.pull(1000) == []
