"""Converts fetched records for clients from before magic 2: each partition's slice becomes a part that converts itself when it is
sent.

Memory of a response (KIP-283)
    One chunk while it is sent, made when the socket can take it. Before that, the first converted batches of the partitions are
    kept only while their sum is within one chunk. Further first batches are measured, forgotten and made again when their turn
    comes. So a response from 250 partitions holds no more than a response from a single one.

First batches that do not fit
    Before Fetch v3 they are cut at the partition's limit (`records.cut_conversion`). The slice that was read ends inside such a
    batch; here it is widened to the whole batch, because only a whole batch can be converted.

Padding
    Its size field is Integer.MAX_VALUE, as in KIP-283. Java consumers from 0.9 to 0.10.2 add that to a position in 32 bits and
    fail; for them `pybroker.down.conversion.padding=fitted` writes what Kafka itself writes today: a byte more than is left.

Source: KIP-74, KIP-283; KafkaApis.maybeConvertFetchedData.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from pybroker.network.context import ProtocolViolation
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.parts import SendPart
from pybroker.records.cut_conversion import CutConversion
from pybroker.records.errors import ConversionClosedError, CorruptRecordError, UnsupportedCompressionError
from pybroker.records.lazy_down_conversion import OVERFLOW_MESSAGE_SIZE, LazyDownConversion, down_convert_eagerly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.api.context import Services
    from pybroker.log.segments.file_records import FileRecords
    from pybroker.metrics.broker_metrics import BrokerMetrics
    from pybroker.model import Offset
    from pybroker.network.context import ConnectionContext
    from pybroker.sharing.work import Work


Converted: TypeAlias = SendPart | bytes | ErrorCode


def magic_for(version: int) -> int | None:
    """Return the newest magic that clients of this Fetch version read; None when that is the format on disk."""
    if version >= 4:
        return None
    return 1 if version >= 2 else 0


class DownConversion:
    """The conversions of one response, which goes to `connection`."""

    __slots__ = (
        "_chunk_bytes", "_connection", "_is_eager", "_kept_bytes", "_metrics", "_overflow_message_size", "_threads", "_to_magic",
    )  # fmt: skip

    def __init__(self, broker: Services, connection: ConnectionContext, to_magic: int) -> None:
        config = broker.config
        self._chunk_bytes = config.pybroker_down_conversion_chunk_bytes
        self._connection = connection
        self._is_eager = config.pybroker_down_conversion_eager
        self._kept_bytes = 0
        is_fitted = config.pybroker_down_conversion_padding == "fitted"
        self._overflow_message_size = None if is_fitted else OVERFLOW_MESSAGE_SIZE
        self._metrics = broker.metrics
        self._threads = broker.conversions
        self._to_magic = to_magic

    def convert(
        self,
        topic: str,
        records: FileRecords,
        fetch_offset: Offset,
        *,
        cut_batch_size: int = 0,
        read_on: Callable[[int], FileRecords | None],
    ) -> Work[Converted]:
        """Return the part to send in place of `records`, which it owns; UNSUPPORTED_COMPRESSION_TYPE for zstd, or
        CORRUPT_MESSAGE. A thread measures it if that takes long. Raises ProtocolViolation if the connection is lost meanwhile.

        `cut_batch_size` is the size of the first batch where `records` end inside it, because the batch is larger than the limit;
        else 0. `read_on(offset)` returns the records that follow, None at the end. Such clients only advance by records, so where
        a slice has none for them, only control batches or remains of a compaction, the next slice is taken.
        """
        started_ns = time.perf_counter_ns()
        limit = records.size
        if cut_batch_size:
            records = records.widened(cut_batch_size)
        lazy: LazyDownConversion | CutConversion
        try:
            if self._is_eager:
                data = down_convert_eagerly(records, to_magic=self._to_magic, first_offset=fetch_offset)
                return data[:limit] if cut_batch_size else data
            lazy = whole = yield from self._lazy(records, fetch_offset)
            while not whole.first_size and (more := read_on(whole.passed_offset)) is not None:
                whole.close()
                lazy = whole = yield from self._lazy(more, fetch_offset)
            if cut_batch_size:
                lazy = CutConversion(whole, limit)
        except UnsupportedCompressionError:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        except CorruptRecordError:
            return ErrorCode.CORRUPT_MESSAGE
        finally:
            self._metrics.conversion_ns["Fetch"] += time.perf_counter_ns() - started_ns
        if self._kept_bytes + lazy.kept_bytes > self._chunk_bytes:
            lazy.drop_first()
        self._kept_bytes += lazy.kept_bytes
        return _Counted(lazy, self._metrics, self._connection, topic)

    def _lazy(self, records: FileRecords, fetch_offset: Offset) -> Work[LazyDownConversion]:
        lazy = LazyDownConversion(
            records,
            to_magic=self._to_magic,
            first_offset=fetch_offset,
            chunk_bytes=self._chunk_bytes,
            overflow_message_size=self._overflow_message_size,
            is_measured=False,
            kept_bytes_max=self._chunk_bytes - self._kept_bytes,
        )
        if not lazy.is_long:
            lazy.measure()
            return lazy
        measuring = self._threads.run(lazy.measure)
        self._connection.on_lost = lazy.close
        try:
            yield measuring
            measuring.result()
        except ConversionClosedError:
            raise ProtocolViolation("the connection is closed") from None
        finally:
            self._connection.on_lost = None
        return lazy


class _Counted(SendPart):
    """A conversion whose records and time are counted as they are made."""

    makes_bytes: ClassVar[bool] = LazyDownConversion.makes_bytes

    __slots__ = ("_connection", "_lazy", "_metrics", "_topic", "size")

    def __init__(
        self, lazy: LazyDownConversion | CutConversion, metrics: BrokerMetrics, connection: ConnectionContext, topic: str
    ) -> None:
        self._lazy = lazy
        self._metrics = metrics
        self._connection = connection
        self._topic = topic
        self.size = lazy.size

    def pull(self, bytes_max: int) -> Sequence[bytes | memoryview]:
        """Return the next chunk."""
        lazy, metrics = self._lazy, self._metrics
        before, started_ns = lazy.records_converted, time.perf_counter_ns()
        parts = lazy.pull(bytes_max)
        metrics.conversion_ns["Fetch"] += time.perf_counter_ns() - started_ns
        converted = lazy.records_converted - before
        if converted:
            metrics.topic(self._topic).fetch_message_conversions += converted
            self._connection.down_converted += converted
        return parts

    def cold(self) -> Callable[[], None] | None:
        """Return the read that the next chunk has to wait for, if any."""
        return self._lazy.cold()

    def close(self) -> None:
        """Release the source."""
        self._lazy.close()
