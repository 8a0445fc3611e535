"""The kernels over raw records; `_kernels_python` has the same functions. All raise what `record_fault` makes.

A section is the uncompressed records of a magic 2 batch, a message set the uncompressed messages of a produce request or
wrapper. Buffers are borrowed until return. The GIL is released only above 256 kB: a waiting thread would keep it for
milliseconds.
"""

_Buffer = bytes | bytearray | memoryview

def crc32(data: _Buffer) -> int:
    """The CRC-32 (IEEE) of messages of magic 0 and 1."""

def scan_records(section: _Buffer, record_count: int, base_timestamp: int) -> tuple[int, int, int, bool]:
    """Check every record of a section.

    Returns the greatest timestamp, at least -1; the smallest that is not -1 (no timestamp), 2**63 - 1 if none; how many
    records have no key; whether the offset deltas are 0, 1, 2...
    """

def accept_batch(
    records: _Buffer,
    first_offset: int,
    leader_epoch: int,
    now_ms: int,
    bytes_max: int,
    before_max_ms: int,
    after_max_ms: int,
    is_compacted: bool,
) -> tuple[int, int, int, int, int] | None:
    """The whole check of what a producer mostly sends, and its offset and leader epoch written into it where it lies.

    That is: one batch of magic 2 from offset 0 on in a writable buffer, not compressed, its checksum, sizes, counts, offsets
    and max timestamp right, no transaction, no control records, all timestamps from `now_ms - before_max_ms` to
    `now_ms + after_max_ms`, with keys if the topic `is_compacted`. Returns last offset delta, max
    timestamp, producer id, producer epoch and base sequence.

    None for everything else, be it right or wrong, and then nothing was changed.
    """

def down_converted_size(section: _Buffer, record_count: int, base_offset: int, to_magic: int, first_offset: int) -> int:
    """Bytes of the messages that `down_convert_records` makes, without making them."""

def down_convert_records(
    section: _Buffer,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    is_log_append_time: bool,
    log_append_time: int,
    to_magic: int,
    first_offset: int,
    is_relative: bool,
) -> tuple[bytes, int, int, int]:
    """Uncompressed messages of magic 0 or 1 from the records at or after `first_offset`; headers are dropped.

    `is_relative` counts their offsets from the first one's, as inside a magic 1 wrapper. With `is_log_append_time` every
    timestamp is `log_append_time`. Returns the messages, how many, the last one's absolute offset (-1 without), the greatest
    timestamp (at least -1).
    """

def up_convert_messages(
    messages: _Buffer, magic: int, is_log_append_time: bool, log_append_time: int
) -> tuple[bytes, int, int, int, int, int]:
    """A section with offset deltas 0, 1, 2... from messages that must all be whole, of `magic` and uncompressed.

    A partial message at the end is left out. With `is_log_append_time` every timestamp is `log_append_time` (from the wrapper).
    Returns section, record count, base timestamp, greatest timestamp, smallest one and number of records without key as
    `scan_records`.
    """

def note_keys(section: _Buffer, record_count: int, base_offset: int, offsets: dict[bytes, int]) -> tuple[int, int]:
    """Write the offset of each record that has a key into `offsets`, under its key.

    Returns how many keys were not there yet, and their bytes. Of a damaged section the keys before the damage are written.
    """

def retain_records(
    section: _Buffer,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    new_base_timestamp: int,
    offsets: dict[bytes, int],
    latest_offset: int,
    keeps_tombstones: bool,
) -> tuple[bytes, int, int, int]:
    """The section without the records that compaction takes out, for a batch with `new_base_timestamp`.

    Out go, of the records up to `latest_offset`, those without a key, those whose key has a later offset in `offsets`, and unless
    `keeps_tombstones` those without a value. Returns the section, how many records it has, the greatest timestamp among them (at
    least -1) and how many have no value.
    """
