"""Retention to the record under random times and changing settings.

    python -m integration.retention.retention_soak --minutes 10 --seed 1

The story appends records with times out of order, of the future, and without any, in every codec and in segments of any size. It
changes `retention.ms`, `retention.bytes`, `retention.granularity` and `segment.bytes`, deletes records, restarts the broker, and
kills it. All the while a consumer reads each partition across the start that moves.

A model (`retention_model.py`) knows two offsets of each partition: what lies below the first must be gone after a pass, and what
lies at the second or later must be there. They are one and the same unless a record becomes too old in that moment. The story
counts how often they were, and fails if that is less than half of its checks.
"""

from __future__ import annotations

import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from integration.durability.soak_model import DifferenceError
from integration.durability.soak_run import run
from integration.retention.retention_model import NO_TIMESTAMP, RetentionModel
from pybroker.model import Offset
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from testing.process.broker import BrokerProcess
from testing.waiting import until
from testing.wire.one_request import EARLIEST, LATEST, MAX_TIMESTAMP, Wire

NAMES = ("apple", "pear", "plum")
OVERRIDES = {
    "log.retention.check.interval.ms": "50",
    "log.initial.task.delay.ms": "50",
    "log.cleaner.backoff.ms": "50",
    "log.segment.delete.delay.ms": "0",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "500",
}
RETENTION_MS = (-1, 0, 800, 3000, 8000, 20_000, 3_600_000)
RETENTION_BYTES = (-1, -1, 0, 900, 4000, 20_000, 60_000)
SEGMENT_BYTES = (12_000, 40_000, 1 << 20)
SECOND_MS, HOUR_MS = 1000, 3_600_000
FREED_BYTES_MIN = 4096
TRIES = 50
"""A check is made again while the start moves under it."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class RetentionSoak:
    """The steps. Each raises DifferenceError when the broker does not do what the model expects."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random, self.notes = random.Random(seed), deque[str](maxlen=60)
        self.models = {name: RetentionModel() for name in NAMES}
        self.broker = BrokerProcess(folder, OVERRIDES)
        self.checks = self.exact_checks = self.gaps = self.cuts = 0
        self._number = 0
        self._start()
        for name in NAMES:
            self._expect(f"creating {name}", self.wire.create_topic(name, 1, {"retention.ms": "-1"}), 0)

    @property
    def lines(self) -> Iterable[str]:
        return self.notes

    def _start(self) -> None:
        self.broker.start()
        self.wire = Wire(self.broker.bootstrap)

    def close(self) -> None:
        self.wire.close()
        self.broker.close()

    def _note(self, *what: object) -> None:
        self.notes.append(" ".join(map(str, what)))

    def _expect(self, what: str, got: object, wanted: object) -> None:
        if got != wanted:
            raise DifferenceError(f"{what}: got {got!s:.400}, and not {wanted!s:.400}")

    def start_of(self, name: str) -> int:
        """Return where the log begins now, which must be where the model allows it."""
        start = self.wire.limit(name, 0, EARLIEST)
        model = self.models[name]
        model.note(now_ms())
        if not start <= model.upper:
            raise DifferenceError(f"{name} begins at {start}, and records from {model.upper} on must be there")
        return start

    # --- changes ---

    def _times(self, count: int) -> list[int]:
        kind = self.random.random()
        if kind < 0.2:
            return [NO_TIMESTAMP] * count
        present, spread = now_ms(), self.random.choice([0, 500, 5000, 60_000])
        times = [present - self.random.randint(0, spread) for _ in range(count)]
        if kind < 0.3:
            times[self.random.randrange(count)] = present + self.random.choice([SECOND_MS, 5 * SECOND_MS, 15 * SECOND_MS])
        return times

    def produce(self, name: str) -> None:
        model, seeded = self.models[name], self.random
        codec = seeded.choice(list(CompressionType))
        for _ in range(seeded.choice([1, 1, 3, 10])):
            times = self._times(seeded.choice([1, 2, 5, 30]))
            values = [self._value() for _ in times]
            records = [Record(Offset(n), at, None, value) for n, (at, value) in enumerate(zip(times, values, strict=True))]
            ages = [NO_TIMESTAMP if at == NO_TIMESTAMP else now_ms() - at for at in times]
            self._note("produce", name, model.end, codec.name, len(times), "of the ages", min(ages), "to", max(ages))
            error, first = self.wire.produce(name, 0, records, compression=codec)
            self._expect(f"producing to {name}", error, 0)
            model.append(first, times, values, len(build_batch(records, compression=codec)))

    def _value(self) -> bytes:
        self._number += 1
        return b"%d:" % self._number + self.random.randbytes(self.random.choice([5, 80, 300]))

    def configure(self, name: str) -> None:
        model, seeded = self.models[name], self.random
        key, value, changed = seeded.choice(self._choices(model))
        self._note("configure", name, key, value)
        model.note(now_ms())
        before, model.settings = model.settings, replace(model.settings, **changed)
        self._expect(f"{key}={value} for {name}", self.wire.configure(name, key, value), 0)
        after, model.settings = model.settings, before
        model.note(now_ms())  # a pass under the former settings may have ended last
        model.settings = after
        model.note(now_ms())

    def _choices(self, model: RetentionModel) -> list[tuple[str, str, dict[str, Any]]]:
        seeded = self.random
        time_ms, size = seeded.choice(RETENTION_MS), seeded.choice(RETENTION_BYTES)
        is_by_record = seeded.random() < 0.8
        return [
            ("retention.ms", str(time_ms), {"retention_ms": time_ms}),
            ("retention.ms", str(time_ms), {"retention_ms": time_ms}),
            ("retention.bytes", str(size), {"retention_bytes": size}),
            ("retention.granularity", "record" if is_by_record else "segment", {"is_by_record": is_by_record}),
            ("segment.bytes", str(seeded.choice(SEGMENT_BYTES)), {}),
        ]

    def delete_records(self, name: str) -> None:
        model = self.models[name]
        offset = self.random.randint(self.start_of(name), model.end)
        self._note("delete records", name, offset)
        error, low = self.wire.delete_records(name, 0, offset)
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:  # retention was faster
            self._expect(f"deleting records of {name} below {offset}", offset < self.start_of(name), True)
            return
        self._expect(f"deleting records of {name}", error, 0)
        model.upper = max(model.upper, offset)
        if not offset <= low <= max(offset, model.upper):
            raise DifferenceError(f"{name} begins at {low} after records below {offset} were deleted")
        model.lower = max(model.lower, offset)

    # --- comparisons ---

    def settle(self, name: str) -> None:
        """Wait for a pass that obeys the present settings, and compare everything with the model."""
        model = self.models[name]
        wanted = model.wanted(now_ms())
        self._note("settle", name, model.settings, "from", wanted)
        until(lambda: self.start_of(name) >= wanted, f"{name} begins at {wanted} by {model.settings}", 60)
        model.lower = wanted
        self._compare(name)
        if self.random.random() < 0.3:
            self._wait_for_room(name)

    def _compare(self, name: str) -> None:
        model = self.models[name]
        for _ in range(TRIES):
            start = self.start_of(name)
            found = self._read(name, start)
            size, times = self._size(name), [self.random.choice([*model.timestamps[start:], now_ms()]) for _ in range(5)]
            lookups = [self.wire.offset_at(name, 0, max(at, 0)) for at in times]
            largest = self.wire.offset_at(name, 0, MAX_TIMESTAMP)
            if self.start_of(name) != start:
                continue
            if start < model.lower:
                raise DifferenceError(f"{name} begins at {start}, and what lies below {model.lower} must be gone")
            self._expect(f"the records of {name} from {start} on", found, list(enumerate(model.values[start:], start)))
            if model.settings.is_by_record:
                self._expect(f"the size of {name} from {start} on", size, model.size_from(start))
            self._expect(f"lookups {times} in {name}", lookups, [model.offset_at(start, max(at, 0)) for at in times])
            self._expect(f"the largest time in {name}", largest, model.offset_of_largest(start))
            if start:
                error = self.wire.fetch(name, 0, self.random.randrange(start)).error
                self._expect(f"fetching {name} below {start}", error, int(ErrorCode.OFFSET_OUT_OF_RANGE))
            self.checks += 1
            self.exact_checks += model.settings.is_by_record and model.wanted(now_ms()) == start == model.upper
            return
        raise DifferenceError(f"the start of {name} never stands still")

    def _read(self, name: str, start: int) -> list[tuple[int, bytes | None]] | None:
        read = self.wire.read_all(name, 0, start)
        self._expect(f"the end of {name}", self.wire.limit(name, 0, LATEST), self.models[name].end)
        return None if read.error else [(one.offset, one.value) for one in read.records]

    def _size(self, name: str) -> int:
        return self.wire.partition_size(name, 0)

    def _wait_for_room(self, name: str) -> None:
        """Wait until no more is on the disk than what is not worth a copy."""
        if not self.models[name].settings.is_by_record:
            return

        def is_given_back() -> bool:
            return self._disk_bytes(name) <= 2 * self._size(name) + FREED_BYTES_MIN

        self.cuts += not is_given_back()
        until(is_given_back, f"the room of {name} is given back", 60)

    def _disk_bytes(self, name: str) -> int:
        found = 0
        for path in Path(self.broker.data_dir, f"{name}-0").glob("*.log*"):
            try:
                found += path.stat().st_size
            except FileNotFoundError:  # removed meanwhile
                continue
        return found

    def read_on(self, name: str) -> None:
        """Read on as a consumer that begins again at the start when its offset is out of range."""
        model = self.models[name]
        read = self.wire.fetch(name, 0, model.reached, bytes_max=self.random.choice([1, 2000, 1 << 20]))
        if read.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            start = self.start_of(name)
            if not model.reached < start:
                raise DifferenceError(f"{name} has no offset {model.reached}, and begins at {start}")
            self._note("reset", name, model.reached, start)
            model.reached, self.gaps = start, self.gaps + 1
            return
        self._expect(f"reading {name}", read.error, 0)
        found = [(one.offset, one.value) for one in read.records]
        wanted = list(enumerate(model.values[model.reached : model.reached + len(found)], model.reached))
        self._expect(f"reading {name} from {model.reached}", found, wanted)
        self._expect("something, or the end", bool(found), model.reached < model.end)
        model.reached += len(found)

    # --- ends ---

    def restart(self) -> None:
        self._note("restart")
        starts = {name: self.start_of(name) for name in NAMES}
        self.wire.close()
        self.broker.stop()
        self._start()
        for name, start in starts.items():
            if self.start_of(name) < start:
                raise DifferenceError(f"{name} began at {start} before a clean stop, and earlier after it")

    def kill(self) -> None:
        """Kill the broker. The start may go back to an earlier one, which was written last, and retention works again."""
        self._note("kill")
        self.wire.close()
        self.broker.kill()
        self._start()
        for name, model in self.models.items():
            model.lower = min(model.lower, self.start_of(name))
        for name in NAMES:
            self.settle(name)

    def step(self) -> None:
        """Take a step that is drawn from the seed."""
        name = self.random.choice(NAMES)
        steps: list[tuple[float, Callable[[], None]]] = [
            (40, lambda: self.produce(name)),
            (15, lambda: self.configure(name)),
            (25, lambda: self.read_on(name)),
            (20, lambda: self.settle(name)),
            (4, lambda: self.delete_records(name)),
            (0.5, self.restart),
            (1, self.kill),
        ]
        self.random.choices([work for _, work in steps], [weight for weight, _ in steps])[0]()

    def finish(self) -> str:
        """Settle every topic. Returns counts for the closing line."""
        for name in NAMES:
            self.settle(name)
        assert self.exact_checks * 2 > self.checks, f"only {self.exact_checks} of {self.checks} checks were exact"
        met = f"{self.gaps} gaps under a reader, {self.cuts} cuts awaited"
        return f"{self.checks} checks, {self.exact_checks} of them exact, {met}"


if __name__ == "__main__":
    sys.exit(run("retention_soak", __doc__, RetentionSoak))
