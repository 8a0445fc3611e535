"""Prints what `pybroker log dump` prints: an object for each batch, record and entry of a file, with Kafka's names.

Source: kafka.tools.DumpLogSegments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pybroker.inspection.batches import Batch, Gap, walk
from pybroker.inspection.contents import records
from pybroker.inspection.data_file import DataFile
from pybroker.inspection.decode import BY_TOPIC, DECODERS, control_fields
from pybroker.inspection.entries import (
    EntryError,
    checkpoint_entries,
    companion_lines,
    offset_entries,
    partition_metadata,
    producers,
    time_entries,
    transaction_entries,
)
from pybroker.inspection.places import BOOTSTRAP_SNAPSHOT, Place, files_in, partition_of, partitions_in, place_of
from pybroker.inspection.text import json_of
from pybroker.log.files.names import offset_of
from pybroker.model import FIRST_OFFSET, LAST_OFFSET, Offset
from pybroker.records.batch import BatchView
from pybroker.records.errors import CorruptRecordError, UnsupportedCompressionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pybroker.records.batch import Record

Fields = dict[str, object]
AUTO: Final = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The choice of what to print of data files: the records too, decoded or not, and only the batches with these offsets.

    `decoder` is a name of `DECODERS`, or AUTO for the decoder of each file's topic, if it has one.
    """

    has_records: bool = False
    decoder: str | None = None
    first_offset: Offset = FIRST_OFFSET
    last_offset: Offset = LAST_OFFSET


def objects_in(path: Path, choice: Choice) -> Iterator[Fields]:
    """Yield an object for each thing in `path`; the first of each file has the type "file". Raises UnknownPlaceError, OSError."""
    place = place_of(path)
    if place is Place.DATA_DIRECTORY:
        for kind, file in files_in(path):
            yield from _dump_file(kind, file, choice)
        for one in partitions_in(path):
            yield from objects_in(one, choice)
    elif place is Place.PARTITION:
        for kind, file in files_in(path):
            yield from _dump_file(kind, file, choice)
    else:
        yield from _dump_file(place, path, choice)


def _dump_file(place: Place, path: Path, choice: Choice) -> Iterator[Fields]:
    base_offset = offset_of(path.name)
    try:
        if place in {Place.LOG, Place.METADATA_SNAPSHOT}:
            with DataFile(path) as file:
                yield {"type": "file", "file": str(path), **({"baseOffset": base_offset} if place is Place.LOG else {})}
                yield from _dump_log(file, Offset(max(base_offset, 0)), choice)
        else:
            yield {"type": "file", "file": str(path)}
            yield from _dump_entries(place, path, base_offset)
    except EntryError as error:
        yield {"type": "problem", "kind": error.kind, "text": str(error)}
    except FileNotFoundError:
        yield {"type": "problem", "kind": "gone", "text": "the file was removed meanwhile"}


# --- batches ---


def _dump_log(file: DataFile, base_offset: Offset, choice: Choice) -> Iterator[Fields]:
    decode = _decoder_of(file.path, choice)
    for found in walk(file, base_offset=base_offset):
        if isinstance(found, Gap):
            yield {"type": "problem", "kind": found.kind, "text": found.text, "position": found.position, "end": found.end}
        elif found.base_offset <= choice.last_offset and found.last_offset >= choice.first_offset:
            yield _batch(found)
            if choice.has_records:
                yield from _dump_records(file, found, decode)


def _decoder_of(path: Path, choice: Choice) -> Callable[[Record], Fields] | None:
    name = choice.decoder
    if name == AUTO:
        tp = partition_of(path.parent)
        name = BY_TOPIC.get("__cluster_metadata" if path.name == BOOTSTRAP_SNAPSHOT else tp.topic if tp is not None else "")
    return None if name is None else DECODERS[name]


def _batch(batch: Batch) -> Fields:
    view, fields = batch.view, Fields(type="batch")
    if isinstance(view, BatchView):
        fields |= {
            "baseOffset": batch.base_offset,
            "lastOffset": batch.last_offset,
            "count": view.record_count,
            "baseSequence": view.base_sequence,
            "lastSequence": view.last_sequence,
            "producerId": view.producer_id,
            "producerEpoch": view.producer_epoch,
            "partitionLeaderEpoch": view.partition_leader_epoch,
            "isTransactional": view.is_transactional,
            "isControl": view.is_control,
            "deleteHorizonMs": view.delete_horizon_ms,
        }
    else:
        fields["offset"] = batch.last_offset
    return fields | {
        "position": batch.position,
        batch.timestamp_name: batch.max_timestamp,
        "size": batch.size,
        "magic": batch.magic,
        "compresscodec": batch.codec,
        "crc": batch.crc,
        "isvalid": batch.is_valid,
    }


def _dump_records(file: DataFile, batch: Batch, decode: Callable[[Record], Fields] | None) -> Iterator[Fields]:
    count = 0
    try:
        for record in records(file, batch):
            count += 1
            yield _record(batch, record, decode)
    except (CorruptRecordError, UnsupportedCompressionError) as error:
        yield {"type": "problem", "kind": "records", "text": f"{error} (after {count} records)", "position": batch.position}


def _record(batch: Batch, record: Record, decode: Callable[[Record], Fields] | None) -> Fields:
    view = batch.view
    fields = Fields(
        type="record",
        offset=record.offset,
        **{batch.timestamp_name: record.timestamp},
        keySize=-1 if record.key is None else len(record.key),
        valueSize=-1 if record.value is None else len(record.value),
    )
    if isinstance(view, BatchView):
        delta = record.offset - batch.base_offset
        fields["sequence"] = -1 if view.base_sequence < 0 else (view.base_sequence + delta) & 0x7FFF_FFFF
        fields["headers"] = [{"key": key, **json_of("value", value)} for key, value in record.headers]
        if view.is_control:
            return fields | control_fields(record)
    if decode is not None:
        return fields | decode(record)
    return fields | json_of("key", record.key) | json_of("payload", record.value)


# --- the other files ---


def _dump_entries(place: Place, path: Path, base_offset: Offset) -> Iterator[Fields]:
    if place is Place.LEADER_EPOCHS:
        for epoch, offset in checkpoint_entries(path, fields=2):
            yield {"type": "epoch", "epoch": int(epoch), "startOffset": int(offset)}
    elif place is Place.OFFSETS:
        for topic, partition, offset in checkpoint_entries(path, fields=3):
            yield {"type": "checkpoint", "topic": topic, "partition": int(partition), "offset": int(offset)}
    elif place is Place.COMPANION:
        for line in companion_lines(path):
            yield {"type": "checkpoint", "entry": line}
    elif place is Place.PARTITION_METADATA:
        yield {"type": "metadata", "text": partition_metadata(path)}
    else:
        with DataFile(path) as file:
            yield from _dump_index(place, file, base_offset)


def _dump_index(place: Place, file: DataFile, base_offset: Offset) -> Iterator[Fields]:
    if place is Place.OFFSET_INDEX:
        for entry in offset_entries(file, base_offset):
            yield {"type": "index", "offset": entry.offset, "position": entry.value}
    elif place is Place.TIME_INDEX:
        for entry in time_entries(file, base_offset):
            yield {"type": "timeindex", "timestamp": entry.value, "offset": entry.offset}
    elif place is Place.TRANSACTION_INDEX:
        for _, version, one in transaction_entries(file):
            yield {
                "type": "abortedTransaction",
                "version": version,
                "producerId": one.producer_id,
                "firstOffset": one.first_offset,
                "lastOffset": one.last_offset,
                "lastStableOffset": one.last_stable_offset,
            }
    else:
        for producer in producers(file):
            yield {
                "type": "producer",
                "producerId": producer.producer_id,
                "producerEpoch": producer.producer_epoch,
                "coordinatorEpoch": producer.coordinator_epoch,
                "currentTxnFirstOffset": producer.transaction_first_offset,
                "lastTimestamp": producer.timestamp,
                "firstSequence": producer.first_sequence,
                "lastSequence": producer.last_sequence,
                "lastOffset": producer.last_offset,
            }
