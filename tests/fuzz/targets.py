"""The targets of the fuzzer. A target returns, or raises what it found: it catches only the errors that are meant.

Each target takes any bytes, so that every mutation is an input; its docstring describes their meaning.
"""

from __future__ import annotations

import contextlib
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from crc32c import crc32c

from pybroker.clock import ManualClock
from pybroker.config.topic import TopicConfig
from pybroker.log.directories.directory import LogDirectory
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.log_state import LogServices
from pybroker.log.results import LastRun
from pybroker.model import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition
from pybroker.native import extension
from pybroker.protocol import _codec_python
from pybroker.protocol.codec import DecodeError, decode_request_header, request_class
from pybroker.protocol.error_codes import KafkaError
from pybroker.protocol.messages import MESSAGES, message_classes
from pybroker.protocol.parts import parts_bytes
from pybroker.protocol.plan import make_plan
from pybroker.protocol.schema import schema_of
from pybroker.records import _conversions_python, _kernels_python, _sections_python, legacy
from pybroker.records.batch import ATTRIBUTES_AT, CRC_AT, HEADER_SIZE, Record, batches
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.records.convert import down_convert
from pybroker.records.quick_look import look_through
from pybroker.records.rules import ValidationRules
from pybroker.records.validate import validate_and_assign
from pybroker.spark import _columns_python
from testing.up_convert import up_convert

NOW_MS: Final = 1_700_000_000_000
INSIDE_MAX: Final = 1 << 20
"""The limit of an uncompressed batch here, because some bytes of input must not take minutes."""
CLASSES: Final = [
    (cls, version)
    for key in MESSAGES
    for cls in message_classes(key)
    for version in range(schema_of(cls).versions.lowest, schema_of(cls).versions.highest + 1)
]
_kernels_native: Any = extension("pybroker.records._kernels_native")
_conversions_native: Any = extension("pybroker.records._conversions_native")
_columns_native: Any = extension("pybroker.spark._columns_native")
_sections_native: Any = extension("pybroker.records._sections_native")
_protocol: Any = extension("pybroker.protocol._codec_native")
_coders: dict[int, tuple[list[Any], list[Any]]] = {}


class FoundError(Exception):
    """Two twins that must agree differ, or a rule that must hold does not."""


# --- Frames -------------------------------------------------------------------------------------------------------------------


def frames(data: bytes) -> None:
    """Decode a request without its size; or, behind ffff and two bytes that choose, the body of any message in any version."""
    frame = memoryview(data)
    if data[:2] == b"\xff\xff" and len(data) >= 4:
        _bodies(int.from_bytes(data[2:4]) % len(CLASSES), frame[4:], 0)
        return
    try:
        header, position = decode_request_header(frame)
    except DecodeError:
        return
    chosen = [n for n, (cls, version) in enumerate(CLASSES) if version == header.api_version and _asks(cls, header.api_key)]
    for number in chosen:
        _bodies(number, frame, position)


def _asks(cls: type, key: int) -> bool:
    return bool(schema_of(cls).is_request) and key in MESSAGES and request_class(key) is cls


def _bodies(number: int, frame: memoryview, position: int) -> None:
    decoders, encoders = _coders_of(number)
    found = [_decoded(decode, frame, position) for decode in decoders]
    if len(found) > 1 and not _alike(found[0], found[1]):
        raise FoundError(f"{CLASSES[number]}: {found[0]!r} and {found[1]!r}")
    if isinstance(found[0], str):
        return
    written = [parts_bytes(encode(found[0], None)) for encode in encoders]
    if len(set(written)) > 1:
        raise FoundError(f"{CLASSES[number]}: written as {written}")
    again = _decoded(decoders[0], memoryview(written[0]), 0)
    if not _alike(again, found[0]):
        raise FoundError(f"{CLASSES[number]}: {found[0]!r} became {again!r}")


def _alike(one: object, other: object) -> bool:
    return one == other or repr(one) == repr(other)  # a float that is not a number is not itself


def _coders_of(number: int) -> tuple[list[Any], list[Any]]:
    if number not in _coders:
        cls, version = CLASSES[number]
        schema = schema_of(cls)
        plans = [make_plan(schema, version, twin.Plan) for twin in (_protocol, _codec_python) if twin is not None]
        _coders[number] = [plan.decode for plan in plans], [plan.encode for plan in plans]
    return _coders[number]


def _decoded(decode: Callable[[memoryview, int], object], frame: memoryview, position: int) -> object:
    try:
        return decode(frame, position)
    except (DecodeError, struct.error, IndexError, UnicodeDecodeError):
        return "refused"


# --- Batches --------------------------------------------------------------------------------------------------------------------


def record_batches(data: bytes) -> None:
    """Validate the records of a partition of a produce request, behind a byte of choices and a byte of the topic's settings.

    Of the choices: 1 puts the checksum of a batch of magic 2 right, so that what is behind it is reached; 2 makes the topic
    compacted; 4 has the time of the append for all; the rest chooses where to begin.
    """
    if len(data) < 2:
        return
    choices, wanted = data[0], data[1]
    sent = bytearray(data[2:])
    if choices & 1 and len(sent) > ATTRIBUTES_AT:
        struct.pack_into(">I", sent, CRC_AT, crc32c(memoryview(sent)[ATTRIBUTES_AT:]))
    rules = ValidationRules.of(
        TopicConfig(
            cleanup_policy=frozenset({"compact" if choices & 2 else "delete"}),
            message_timestamp_type="LogAppendTime" if choices & 4 else "CreateTime",
            compression_type=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")[wanted % 6],
        )
    )
    _accepted(bytearray(sent), choices)
    _kernels(bytes(sent), choices >> 3)
    try:
        result = validate_and_assign(
            memoryview(bytearray(sent)),
            first_offset=Offset(choices),
            now_ms=NOW_MS,
            leader_epoch=LeaderEpoch(3),
            rules=rules,
            produce_version=9,
        )
    except KafkaError:
        return
    kept = bytes(result.data)
    for one in batches(kept):
        one.ensure_valid()
        if len(list(one.records())) != one.record_count:
            raise FoundError("a batch that was accepted has another number of records")
    for magic in (0, 1):
        _down(kept, magic, choices + wanted % 3)


def _accepted(sent: bytearray, choices: int) -> None:
    found = []
    for module in filter(None, (_kernels_native, _kernels_python)):
        copy = bytearray(sent)
        found.append(
            (module.accept_batch(copy, choices, 1, NOW_MS, 1 << 20, 1 << 60, 1 << 60, bool(choices & 2), 31, look_through), copy)
        )
    if len(found) > 1 and found[0] != found[1]:
        raise FoundError(f"accepted as {found[0]} and {found[1]}")


def _kernels(sent: bytes, number: int) -> None:
    """Read the bytes as the content of a batch, and as messages."""
    section, count = sent[HEADER_SIZE:], int.from_bytes(sent[HEADER_SIZE - 4 : HEADER_SIZE], signed=True)
    for count_given in {count, number}:
        _twins("scan_records", section, count_given, NOW_MS)
        for magic in (0, 1):
            _conversion_twins("down_converted_size", section, count_given, 5, magic, 6)
            _conversion_twins(
                "down_convert_records", section, count_given, 5, NOW_MS, bool(number & 1), NOW_MS, magic, 6, bool(number & 2)
            )
        base = (count_given, NOW_MS)
        _section_twins("Overview", base, section, ("max_timestamp", "min_timestamp", "keyless", "is_sequential"))
        _section_twins("Search", (count_given, 5, NOW_MS, NOW_MS if number & 1 else None, 6), section, ("found",))
        _section_twins("Refusals", (*base, bool(number & 1), NOW_MS, NOW_MS, 3), section, ("refused",))
        _section_twins("Renumbering", (*base, NOW_MS if number & 1 else None), section, ())
        _twins("retain_records", section, count_given, 5, NOW_MS, NOW_MS, {b"k": 6}, 7, bool(number & 1))
    for magic in (0, 1):
        _conversion_twins("up_convert_messages", sent, magic, bool(number & 1), NOW_MS)
        _conversion_twins("down_convert_batches", sent, 0, magic, 6, 1 << 20)
    _column_twins("append_section", section, count, 5, NOW_MS, bool(number & 1), NOW_MS, 0, 1 << 60)
    _column_twins("append_messages", sent, 0, (-1, 0, 3, 1 << 50)[number & 3], bool(number & 4), NOW_MS, 0, 1 << 60)
    _up(sent)


def _twins(name: str, *arguments: object) -> None:
    _compare((_kernels_native, _kernels_python), name, *arguments)


def _conversion_twins(name: str, *arguments: object) -> None:
    _compare((_conversions_native, _conversions_python), name, *arguments)


def _compare(modules: tuple[Any, ...], name: str, *arguments: object) -> None:
    found = [_result(getattr(module, name), *arguments) for module in modules if module is not None]
    if len(found) > 1 and found[0] != found[1]:
        raise FoundError(f"{name}: {found[0]!r} and {found[1]!r}")


def _section_twins(name: str, arguments: tuple[object, ...], section: bytes, results: tuple[str, ...]) -> None:
    """Walk through the records in two pieces."""

    def walked(module: Any) -> Any:
        walk = getattr(module, name)(*arguments)
        fed = [walk.feed(section[: len(section) // 2])]
        if fed != [True]:
            fed.append(walk.feed(section[len(section) // 2 :]))
        if fed[-1] is not True:
            walk.finish()
        return fed, [getattr(walk, one) for one in results]

    found = [_result(walked, module) for module in (_sections_native, _sections_python) if module is not None]
    if len(found) > 1 and found[0] != found[1]:
        raise FoundError(f"{name}: {found[0]!r} and {found[1]!r}")


def _column_twins(name: str, *arguments: object) -> None:
    found = []
    for module in filter(None, (_columns_native, _columns_python)):
        builder = module.ColumnBuilder(15)
        done = _result(getattr(builder, name), *arguments)
        found.append((done, None if isinstance(done, str) else _plain(builder.take())))
    if len(found) > 1 and found[0] != found[1]:
        raise FoundError(f"{name}: {found[0]!r} and {found[1]!r}")


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_plain(one) for one in value)
    return value if value is None or isinstance(value, int) else bytes(value)


def _result(work: Callable[..., Any], *arguments: object) -> Any:
    try:
        return work(*arguments)
    except KafkaError as error:
        return error.code.name  # of several errors in the bytes, the first check reports its own


def _up(sent: bytes) -> None:
    with contextlib.suppress(KafkaError):
        list(legacy.records(sent, bytes_max=INSIDE_MAX))
    with contextlib.suppress(KafkaError):
        up_convert(sent, base_offset=5, bytes_max=INSIDE_MAX)


def _down(kept: bytes, magic: int, first_offset: int) -> None:
    try:
        converted = down_convert(kept, to_magic=magic, first_offset=Offset(first_offset), bytes_max=INSIDE_MAX)
    except KafkaError:
        return
    if len(list(legacy.records(bytes(converted.data), bytes_max=16 * INSIDE_MAX))) != converted.record_count:
        raise FoundError("a converted batch has another number of records")


# --- Segment files --------------------------------------------------------------------------------------------------------------

TP: Final = TopicPartition("events", 0)
TOPIC_ID: Final = TopicId(bytes(range(16)))
_template: dict[str, bytes] = {}


def segments(data: bytes) -> None:
    """Damage the files of a closed log of three segments, and open the log.

    Six bytes are a damage: which file, what, where (2), how much, and a byte to put there. The first byte of the input shows
    whether the last stop was clean and what the checkpoint had. The log opens, or the partition is refused. The records of an
    open log can be read or are refused as damaged, and appends continue.
    """
    if not data:
        return
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder)
        log_path = path / str(TP)
        log_path.mkdir()
        for name, content in _files().items():
            (log_path / name).write_bytes(content)
        for at in range(1, len(data) - 5, 6):
            _damage(log_path, data[at : at + 6])
        try:
            log = _open(path, was_clean=bool(data[0] & 1), recovery_point=(data[0] >> 1) % 40)
        except KafkaError:
            return
        _use(log)
        log.release()


def _damage(path: Path, drawn: bytes) -> None:
    names = sorted(one.name for one in path.iterdir())
    if not names:
        return
    file, what, high, low, count, byte = drawn
    victim = path / names[file % len(names)]
    content = bytearray(victim.read_bytes())
    at = (high << 8 | low) % (len(content) + 1)
    match what % 7:
        case 0:
            content[at : at + 1] = bytes([byte])
        case 1:
            del content[at:]
        case 2:
            content += bytes([byte]) * count
        case 3:
            content[at : at + count] = bytes(min(count, len(content) - at))
        case 4:
            victim.unlink()
            return
        case 5:
            content[at:at] = content[:count]
        case _:
            _mend_checksum(content, at, byte)
    victim.write_bytes(content)


def _mend_checksum(content: bytearray, at: int, byte: int) -> None:
    """Change a byte of a batch, and make its checksum right again: damage that only the fields show."""
    position = 0
    while position + HEADER_SIZE <= len(content):
        size = 12 + int.from_bytes(content[position + 8 : position + 12], signed=True)
        if size < HEADER_SIZE or position + size > len(content):
            return
        if position <= at < position + size:
            content[at] = byte
            struct.pack_into(
                ">I", content, position + CRC_AT, crc32c(memoryview(content)[position + ATTRIBUTES_AT : position + size])
            )
            return
        position += size


def _services() -> LogServices:
    return LogServices(clock=ManualClock(NOW_MS))


def _config() -> TopicConfig:
    return TopicConfig(segment_bytes=1000, index_interval_bytes=100)


def _open(path: Path, *, was_clean: bool, recovery_point: int) -> Log:
    return Log.open(
        TP,
        TOPIC_ID,
        _config(),
        LogDirectory(str(path), Filesystem()),
        _services(),
        LastRun(was_clean=was_clean, recovery_point=Offset(recovery_point)),
    )


def _files() -> dict[str, bytes]:
    """Return the files of a log as a clean stop leaves them; they are made once."""
    if not _template:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            log = Log.create(TP, TOPIC_ID, _config(), LogDirectory(folder, Filesystem()), _services())
            for number in range(12):
                records = [Record(Offset(n), NOW_MS + number, b"key-%d" % n, b"value" * 10) for n in range(3)]
                codec = CompressionType.GZIP if number % 3 == 2 else CompressionType.NONE
                batch = build_batch(
                    records,
                    producer_id=ProducerId(7),
                    producer_epoch=ProducerEpoch(0),
                    base_sequence=3 * number,
                    compression=codec,
                )
                log.append_as_leader(memoryview(batch), leader_epoch=LeaderEpoch(number // 4), now_ms=NOW_MS)
            log.close()
            for one in (Path(folder) / str(TP)).iterdir():
                _template[one.name] = one.read_bytes()
    return _template


def _use(log: Log) -> None:
    if not 0 <= log.log_start_offset <= log.log_end_offset:
        raise FoundError(f"from {log.log_start_offset} to {log.log_end_offset}")
    offset = log.log_start_offset
    try:
        while offset < log.log_end_offset:
            fetched = log.read(offset, bytes_max=1 << 20, upper_offset=log.log_end_offset, min_one_batch=True)
            following = [one.next_offset for one in batches(_bytes_of(fetched.records))]
            if not following:
                break
            if max(following) <= offset:  # in what order is not looked at: a slice is sent as it lies there, as Kafka does
                raise FoundError(f"reading from {offset} on ends at {following}")
            offset = max(following)
        log.offset_for_timestamp(NOW_MS + 5)
        end = log.log_end_offset
        info = log.append_as_leader(
            memoryview(build_batch([Record(Offset(0), NOW_MS, b"k", b"v")])), leader_epoch=LeaderEpoch(1 << 20), now_ms=NOW_MS
        )
        if info.first_offset != end:
            raise FoundError(f"appended at {info.first_offset}, and not at {end}")
    except KafkaError:
        return


def _bytes_of(records: Any) -> bytes:
    if isinstance(records, bytes | bytearray | memoryview):
        return bytes(records)
    pieces = bytearray()
    while pulled := records.pull(1 << 16):
        for piece in pulled:
            pieces += piece
    return bytes(pieces)


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {"frames": frames, "batches": record_batches, "segments": segments}
