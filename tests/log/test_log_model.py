"""A log against the simplest thing that could be right: a list of records."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pybroker.log.log import Log
from pybroker.model import Offset
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.batch import batches
from pybroker.sharing.work import run_through
from testing.scenes.logs import START_MS, Disk, append, batch, content, delete_old_segments, read_batches


@dataclass(frozen=True)
class Kept:
    offset: int
    timestamp: int
    value: bytes | None
    epoch: int


class LogModel(RuleBasedStateMachine):
    """Append, roll, reopen cleanly or not, truncate, move the start; then every way to look must agree with the list."""

    @initialize(segment_bytes=st.integers(600, 3000), interval=st.integers(0, 600))
    def begin(self, segment_bytes: int, interval: int) -> None:
        self.path = tempfile.mkdtemp()
        self.disk = Disk(self.path, segment_bytes=segment_bytes, index_interval_bytes=interval, file_delete_delay_ms=0)
        self.log: Log = self.disk.create()
        self.kept: list[Kept] = []
        self.start = self.end = self.epoch = 0
        self.checkpoint = (0, 0)

    def teardown(self) -> None:
        if hasattr(self, "path"):
            self.log.release()
            shutil.rmtree(self.path)

    @rule(timestamps=st.lists(st.integers(0, 1000), min_size=1, max_size=4), size=st.integers(0, 80), new_epoch=st.booleans())
    def append(self, timestamps: list[int], size: int, *, new_epoch: bool) -> None:
        self.epoch += new_epoch
        data = batch(timestamps=[START_MS + t for t in timestamps], size=size)
        records = [(r.timestamp, r.value) for one in batches(data) for r in one.records()]
        assert append(self.log, data, leader_epoch=self.epoch) == self.end
        for timestamp, value in records:
            self.kept.append(Kept(self.end, timestamp, value, self.epoch))
            self.end += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(START_MS)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end

    @rule()
    def write_checkpoint(self) -> None:
        self.checkpoint = (self.log.recovery_point, self.log.log_start_offset)

    @rule(was_clean=st.booleans())
    def reopen(self, *, was_clean: bool) -> None:
        if was_clean:
            self.log.close()
            self.checkpoint = (self.log.recovery_point, self.log.log_start_offset)
        else:
            self.log.release()
        recovery_point, start = self.checkpoint
        self.log = self.disk.open(was_clean=was_clean, recovery_point=recovery_point, log_start_offset=start)
        self.start = self.log.log_start_offset  # a start that was not checkpointed is forgotten, down to the first segment's
        assert start <= self.start

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        offset = self.start + int((self.end - self.start) * share)
        found = next((one for one in read_batches(self.log) if one.base_offset <= offset < one.next_offset), None)
        if found is not None:
            offset = found.base_offset  # only whole batches can go
        assert self.log.truncate_to(Offset(offset)) == (offset < self.end)
        self.kept = [one for one in self.kept if one.offset < offset]
        self.end = offset
        self.start = min(self.start, offset)
        self.checkpoint = (min(self.checkpoint[0], self.log.recovery_point), min(self.checkpoint[1], offset))

    @rule(share=st.floats(0, 1))
    def move_start(self, share: float) -> None:
        offset = self.start + int((self.end - self.start) * share)
        self.log.increment_log_start_offset(Offset(offset), high_watermark=Offset(self.end))
        self.start = offset

    @precondition(lambda self: self.start > 0)
    @rule()
    def delete_below_start(self) -> None:
        delete_old_segments(self.log, START_MS)
        self.kept = [one for one in self.kept if one.offset >= self.log.segments[0].base_offset]
        list(self.disk.directory.take_due(START_MS))

    @invariant()
    def ends_agree(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert self.log.recovery_point <= self.end

    @invariant()
    def every_record_is_read_with_its_epoch(self) -> None:
        found = [
            (r.offset, r.timestamp, r.value, one.partition_leader_epoch) for one in read_batches(self.log) for r in one.records()
        ]
        expected = [(k.offset, k.timestamp, k.value, k.epoch) for k in self.kept if k.offset >= self.start]
        assert [one for one in found if one[0] >= self.start] == expected
        for kept in self.kept:
            if kept.offset >= self.start:
                assert self.log.epoch_for_offset(Offset(kept.offset)) == kept.epoch

    @invariant()
    def a_read_begins_at_the_batch_of_its_offset(self) -> None:
        for offset in range(self.start, self.end, 5):
            first = next(
                iter(
                    batches(
                        content(self.log.read(Offset(offset), bytes_max=1, upper_offset=Offset(self.end), min_one_batch=True))
                    )
                )
            )
            assert first.base_offset <= offset <= first.last_offset

    @invariant()
    def reads_outside_are_refused(self) -> None:
        for offset in (self.start - 1, self.end + 1):
            try:
                self.log.read(Offset(offset), bytes_max=1, upper_offset=Offset(self.end), min_one_batch=True)
            except KafkaError as error:
                assert error.code is ErrorCode.OFFSET_OUT_OF_RANGE  # noqa: PT017  (a state machine, not a test function)
            else:
                raise AssertionError(offset)

    @invariant()
    def times_are_found_as_by_search(self) -> None:
        for timestamp in (START_MS, START_MS + 500, START_MS + 1000):
            found = run_through(self.log.offset_for_timestamp(timestamp))
            expected = next((k.offset for k in self.kept if k.timestamp >= timestamp and k.offset >= self.start), None)
            assert (found and found.offset) == expected


LogModel.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None, report_multiple_bugs=False)
TestLogModel = LogModel.TestCase
