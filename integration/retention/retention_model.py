"""Which offsets of a partition must be gone by retention, and which must be there: the simplest model that can be right."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

from integration.durability.soak_model import DifferenceError

NO_TIMESTAMP = -1


@dataclass(frozen=True)
class Settings:
    """The settings of a topic that retention obeys; -1 is no limit."""

    retention_ms: int = -1
    retention_bytes: int = -1
    is_by_record: bool = True


@dataclass
class RetentionModel:
    """A partition with all that was ever written to it.

    Attributes:
        timestamps: of each record, by offset; -1 for none.
        values: of each record, by offset.
        batches: the base offset and the size of each batch.
        lower: everything below it must be gone by now.
        upper: nothing from it on may be gone.
        reached: how far a consumer has read.
    """

    settings: Settings = Settings()
    timestamps: list[int] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    batches: list[tuple[int, int]] = field(default_factory=list)
    lower: int = 0
    upper: int = 0
    reached: int = 0

    @property
    def end(self) -> int:
        return len(self.timestamps)

    def append(self, first: int, timestamps: list[int], values: list[bytes], size: int) -> None:
        """Take over a batch that was acknowledged at this offset. Raises DifferenceError."""
        if first != self.end:
            raise DifferenceError(f"appended at {first}, and not at the end {self.end}")
        self.batches.append((first, size))
        self.timestamps += timestamps
        self.values += values

    # --- where the log begins ---

    def note(self, now_ms: int) -> None:
        """Note that a pass of retention may have ended just now."""
        self.upper = self.start_by_time(self.start_by_size(self.upper), now_ms, is_latest=True)

    def wanted(self, now_ms: int) -> int:
        """Return where the log begins at least after a whole pass that begins now."""
        if not self.settings.is_by_record:
            return self.lower
        return self.start_by_time(self.start_by_size(self.lower), now_ms)

    def start_by_time(self, start: int, now_ms: int, *, is_latest: bool = False) -> int:
        """Return where a log that begins at `start` begins by `retention.ms`: at the latest, or to the record."""
        if self.settings.retention_ms < 0:
            return start
        oldest_ms, unstamped = now_ms - self.settings.retention_ms, None
        for offset in range(start, self.end):
            timestamp = self.timestamps[offset]
            if timestamp >= oldest_ms:
                break
            if timestamp != NO_TIMESTAMP:
                unstamped = None
            elif unstamped is None:
                unstamped = offset
        else:
            offset = self.end
        if unstamped is None or (is_latest and not self.settings.is_by_record):
            return offset  # a whole segment without a timestamp is as old as its file
        return unstamped

    def start_by_size(self, start: int) -> int:
        """Return where a log that begins at `start` begins by `retention.bytes`."""
        limit = self.settings.retention_bytes
        if limit < 0 or self.size_from(start) <= limit:
            return start
        kept = 0
        for base, size in reversed(self.batches):
            if kept >= limit:
                return max(start, base + self._count_of(base))
            kept += size
        return start

    def _count_of(self, base: int) -> int:
        """Return the number of records of the batch that begins at `base`."""
        number = bisect.bisect_right(self.batches, (base, 1 << 62))
        return (self.batches[number][0] if number < len(self.batches) else self.end) - base

    def size_from(self, start: int) -> int:
        """Return the bytes from the batch that holds `start` on."""
        first = bisect.bisect_right(self.batches, (start, 1 << 62)) - 1
        if start >= self.end:
            return 0
        return sum(size for _, size in self.batches[max(first, 0) :])

    # --- lookups ---

    def offset_at(self, start: int, timestamp: int) -> tuple[int, int]:
        """Return offset and timestamp of the first record at or after a time; -1, -1 for none."""
        for offset in range(start, self.end):
            if self.timestamps[offset] >= timestamp:
                return offset, self.timestamps[offset]
        return -1, -1

    def offset_of_largest(self, start: int) -> tuple[int, int]:
        """Return offset and timestamp of the first record with the largest timestamp; -1, -1 without any timestamp."""
        largest = max(self.timestamps[start:], default=NO_TIMESTAMP)
        if largest == NO_TIMESTAMP:
            return -1, -1
        return self.timestamps.index(largest, start), largest
