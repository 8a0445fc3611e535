"""One offset checkpoint of a log directory, with the topic ids for which Kafka's format has no room.

Idea
    Kafka's file has lines of `topic partition offset`. A topic that is created again under its name would inherit its
    predecessor's entries. So a companion of our own, `<name>.topic-ids`, holds the same entries with their topic ids. It also
    holds two checksums: of the Kafka file that was written with it, and of the file before. An entry counts only for a log with
    the same topic id.

        0                                                version
        1c291ca3                                         CRC-32 of all that follows
        7d8f0a11 00000000                                of the Kafka file written with it; of the one before (0:
        there was none)
        2                                                number of entries
        orders 0 500 bvm5vJmXQlWGeEjA2CLIuw              topic, partition, offset, topic id

Crash order
    The companion becomes durable first, then the Kafka file is replaced. A crash in between leaves the previous Kafka
    file, which the companion knows by its checksum: the companion's entries are newer and are used. A Kafka file with
    any other checksum was written by another program, such as Kafka, or by a version of ours without companions: its
    entries have an unknown topic id.

Writers
    Any thread may run what `writer` returns. One thread writes at a time, and an earlier request never replaces the
    content of a later one. Offsets that are collected in slices are a request from their `begin` on. Content that is
    already on the disk is not written again.
"""

from __future__ import annotations

import heapq
import logging
import threading
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.checkpoints import checkpoint
from pybroker.model import ZERO_TOPIC_ID, Offset, TopicId, TopicPartition, topic_id_parse, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pybroker.log.files.filesystem import Filesystem

logger = logging.getLogger(__name__)

COMPANION_SUFFIX: Final = ".topic-ids"
_SORTED_AT_ONCE: Final = 1000
NO_FILE: Final = 0  # the checksum of a file that is not there


class StoredOffset(NamedTuple):
    """The entry of a partition. `topic_id` is zero if it is not known, because another program wrote the entry."""

    topic_id: TopicId
    offset: Offset


class BelievedOffset(NamedTuple):
    """An offset for a log. If it is not certain, it may be of an older topic of that name, so it must not cost a record."""

    offset: Offset
    is_certain: bool


class Request(NamedTuple):
    """A request to write offsets that are collected from now on: its number, and the entries that were kept when it began."""

    number: int
    kept: Mapping[TopicPartition, StoredOffset]


class OffsetCheckpoint:
    """One checkpoint file of one log directory. `read`, `offset_for`, `keep` and `writer` belong to the loop."""

    __slots__ = (
        "_checksum",
        "_content",
        "_kept",
        "_lock",
        "_requests",
        "_stored",
        "_written",
        "filesystem",
        "is_damaged",
        "path",
    )

    def __init__(self, filesystem: Filesystem, path: str) -> None:
        self.filesystem = filesystem
        self.path = path
        self.is_damaged = False  # as `read` found it
        self._lock = threading.Lock()
        self._stored: dict[TopicPartition, StoredOffset] | None = None
        self._kept: dict[TopicPartition, StoredOffset] = {}
        self._requests = 0
        self._written = 0  # the number of the request whose content is on the disk
        self._content: bytes | None = None  # the companion's on the disk, without its checksums; None: not known
        self._checksum: int | None = None  # of the Kafka file on the disk; None: not known

    # --- reading ---

    def read(self) -> Mapping[TopicPartition, StoredOffset]:
        """Return the entries of the file, as of the first call. A damaged file counts as empty, with a warning. Raises
        OSError.
        """
        if self._stored is None:
            self._stored = self._read()
        return self._stored

    def offset_for(self, tp: TopicPartition, topic_id: TopicId) -> BelievedOffset | None:
        """Return the file's offset for a log with that topic id; None if it has none, or that of another topic. Raises
        OSError.
        """
        stored = self.read().get(tp)
        if stored is None:
            return None
        if ZERO_TOPIC_ID in (stored.topic_id, topic_id):
            return BelievedOffset(stored.offset, is_certain=False)
        if stored.topic_id != topic_id:
            logger.info(
                "%s: the entry of %s has topic id %s, not %s, and is ignored",
                self.path,
                tp,
                topic_id_text(stored.topic_id),
                topic_id_text(topic_id),
            )
            return None
        return BelievedOffset(stored.offset, is_certain=True)

    def _read(self) -> dict[TopicPartition, StoredOffset]:
        try:
            return read_stored(self.filesystem, self.path)
        except checkpoint.CorruptCheckpointError as error:
            logger.warning("A checkpoint is damaged and ignored: %s", error)  # checkpoints only save work
            self.is_damaged = True
            return {}

    def forget(self) -> None:
        """Release the memory of what was read; the next `read` reads the file again."""
        self._stored = None

    # --- writing ---

    def keep(self, tp: TopicPartition, stored: StoredOffset | None = None) -> None:
        """Write a partition's entry each time from now on; None is the entry that was read, for a log that cannot be opened now.

        A log that will be moved here has such an entry until it is here: no collection finds it among the logs.
        """
        stored = self.read().get(tp) if stored is None else stored
        if stored is not None:
            self._kept[tp] = stored

    def drop(self, tp: TopicPartition) -> None:
        """Undo `keep`, for requests that begin from now on."""
        self._kept.pop(tp, None)

    def begin(self) -> Request:
        """Return a request whose offsets are collected from now on: it replaces none that begins later."""
        self._requests += 1
        return Request(self._requests, dict(self._kept))

    def writer(self, offsets: Mapping[TopicPartition, StoredOffset], request: Request | None = None) -> Callable[[], None]:
        """Return what replaces the entries by `offsets`, durably, in any thread. It blocks, and raises OSError.

        `request` is that of `begin`; None if the offsets are those of now.
        """
        number, kept = self.begin() if request is None else request
        entries = {**kept, **offsets}
        return lambda: self._write(number, entries)

    def _write(self, number: int, entries: Mapping[TopicPartition, StoredOffset]) -> None:
        with self._lock:
            if number <= self._written:
                return  # a newer request was faster
            ordered = _in_order(entries)
            content = _companion_entries(ordered)
            if content != self._content:
                before = _checksum_of(self.filesystem, self.path) if self._checksum is None else self._checksum
                kafka = checkpoint.offsets_text((tp, stored.offset) for tp, stored in ordered)
                after = zlib.crc32(kafka)
                self._content = self._checksum = None  # until both are there
                companion = _with_checksums(content, after=after, before=before)
                self.filesystem.replace_file(self.path + COMPANION_SUFFIX, companion, sync=True)
                self.filesystem.replace_file(self.path, kafka, sync=True)
                self._content, self._checksum = content, after
            self._written = number


def read_stored(filesystem: Filesystem, path: str) -> dict[TopicPartition, StoredOffset]:
    """Read the checkpoint at `path` with the topic ids of its companion. Raises OSError, CorruptCheckpointError.

    A damaged companion counts as missing. Without the checkpoint itself there are no entries: a person has removed
    it, or the first one was never finished.
    """
    if not filesystem.exists(path):
        return {}
    companion = _read_companion(filesystem, path + COMPANION_SUFFIX)
    if companion is not None:
        checksums, stored = companion
        if _checksum_of(filesystem, path) in checksums:
            return stored
        logger.info("%s was written by another program: its entries are used if they fit the logs", path)
    return {tp: StoredOffset(ZERO_TOPIC_ID, offset) for tp, offset in checkpoint.read_offsets(filesystem, path).items()}


def _checksum_of(filesystem: Filesystem, path: str) -> int:
    return zlib.crc32(filesystem.read_file(path)) if filesystem.exists(path) else NO_FILE


def _in_order(entries: Mapping[TopicPartition, StoredOffset]) -> list[tuple[TopicPartition, StoredOffset]]:
    """Sort the entries in pieces: a sort of ten thousand is one step of the interpreter, which the loop would wait for."""
    items = list(entries.items())
    pieces = [sorted(items[first : first + _SORTED_AT_ONCE]) for first in range(0, len(items), _SORTED_AT_ONCE)]
    return list(heapq.merge(*pieces))


def _companion_entries(entries: list[tuple[TopicPartition, StoredOffset]]) -> bytes:
    lines = [f"{topic} {partition} {one.offset} {topic_id_text(one.topic_id)}\n" for (topic, partition), one in entries]
    return f"{len(lines)}\n{''.join(lines)}".encode()


def _with_checksums(entries: bytes, *, after: int, before: int) -> bytes:
    body = f"{after:08x} {before:08x}\n".encode() + entries
    return f"{checkpoint.VERSION}\n{zlib.crc32(body):08x}\n".encode() + body


def _read_companion(filesystem: Filesystem, path: str) -> tuple[tuple[int, int], dict[TopicPartition, StoredOffset]] | None:
    """Return both checksums and the entries; None if there is no companion or it is damaged."""
    if not filesystem.exists(path):
        return None
    try:
        version, own, body = filesystem.read_file(path).split(b"\n", 2)
        if int(version) != checkpoint.VERSION or int(own, 16) != zlib.crc32(body):
            raise ValueError("an unknown version or a wrong checksum")
        checksums, count, *lines = body.decode().split("\n")
        after, before = (int(text, 16) for text in checksums.split(" "))
        stored: dict[TopicPartition, StoredOffset] = {}
        for line in lines[: int(count)]:
            topic, partition, offset, topic_id = line.split(" ")
            stored[TopicPartition(topic, int(partition))] = StoredOffset(topic_id_parse(topic_id), Offset(int(offset)))
    except ValueError as error:
        logger.warning("%s is ignored: %s; the entries beside it count as those of unknown topics", path, error)
        return None
    return (after, before), stored
