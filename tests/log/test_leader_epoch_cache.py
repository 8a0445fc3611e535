"""Where epochs begin and end, compared with a small model of Kafka's LeaderEpochFileCache, which writes what ours remembers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.log.files.filesystem import Filesystem
from pybroker.log.leader_epoch_cache import LeaderEpochCache
from pybroker.model import LeaderEpoch, Offset
from testing.scenes.logs import Disk, append, batch

UNKNOWN = (-1, -1)


class KafkaModel:
    """`assign`, `truncateFromEnd`, `truncateFromStart` and `endOffsetFor` as Kafka's class has them, on a sorted list."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []  # epoch, start offset

    def assign(self, epoch: int, start_offset: int) -> None:
        if self.entries and self.entries[-1][0] == epoch and self.entries[-1][1] <= start_offset:
            return
        self.entries = [(e, s) for e, s in self.entries if e < epoch and s < start_offset] + [(epoch, start_offset)]

    def truncate_from_end(self, end_offset: int) -> None:
        self.entries = [(e, s) for e, s in self.entries if s < end_offset]

    def truncate_from_start(self, start_offset: int) -> None:
        removed = [(e, s) for e, s in self.entries if s <= start_offset]
        if removed:
            self.entries = [(removed[-1][0], start_offset), *self.entries[len(removed) :]]

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        if epoch == -1 or not self.entries:
            return UNKNOWN
        if epoch == self.entries[-1][0]:
            return epoch, log_end_offset
        higher = [(e, s) for e, s in self.entries if e > epoch]
        if not higher:
            return UNKNOWN
        lower = [e for e, _ in self.entries if e <= epoch]
        return (lower[-1] if lower else epoch), higher[0][1]

    def epoch_for_offset(self, offset: int) -> int:
        return max((e for e, s in self.entries if s <= offset), default=-1)


epochs, offsets = st.integers(0, 8), st.integers(0, 30)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["assign", "lead"]), epochs, offsets),
        st.tuples(st.sampled_from(["truncate_from_end", "truncate_from_start"]), offsets),
    ),
    max_size=25,
)


@given(steps=steps)
def test_any_history_of_one_cache_is_kafka_s(steps: list[tuple[str, int, int] | tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cache, model = LeaderEpochCache(Filesystem(), f"{folder}/epochs"), KafkaModel()
        for name, *arguments in steps:
            getattr(cache, name)(*arguments)
            getattr(model, "assign" if name == "lead" else name)(*arguments)
            for epoch in range(-1, 10):
                assert cache.end_offset_for(LeaderEpoch(epoch), Offset(40)) == model.end_offset_for(epoch, 40)
            for offset in range(32):
                assert cache.epoch_for_offset(Offset(offset)) == model.epoch_for_offset(offset)


actions = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("lead"), st.integers(1, 2)),
        st.tuples(st.just("delete"), st.integers(0, 100)),
        st.tuples(st.just("restart"), st.sampled_from([0, 0, 1])),
        st.tuples(st.just("crash"), st.integers(0, 2)),
        st.tuples(st.just("truncate"), st.integers(0, 100)),
    ),
    min_size=3,
    max_size=15,
)


@given(actions=actions)
def test_a_leader_s_log_returns_what_kafka_s_does_through_deletions_and_restarts(actions: list[tuple[str, int]]) -> None:
    """Numbers up to 100 are per cent of the log; a restart may raise the epoch, and so may not."""
    with tempfile.TemporaryDirectory() as folder:
        disk, model, epoch = Disk(folder), KafkaModel(), 0
        log = disk.create()
        log.lead(LeaderEpoch(epoch), Offset(0))
        model.assign(epoch, 0)
        for name, number in actions:
            if name == "append":
                append(log, batch(number), leader_epoch=epoch)
                model.assign(epoch, log.log_end_offset - number)
                continue
            offset = log.log_start_offset + (log.log_end_offset - log.log_start_offset) * number // 100
            if name == "delete":
                log.increment_log_start_offset(offset, high_watermark=log.log_end_offset)
                model.truncate_from_start(log.log_start_offset)
                continue
            if name == "truncate":  # as a follower does; then it leads again
                log.truncate_to(offset)
                model.truncate_from_end(log.log_end_offset)
                epoch += 1
            elif name == "lead":
                epoch += number
            else:
                start, point = log.log_start_offset, log.log_end_offset
                if name == "restart":
                    log.close()
                else:
                    log.release()
                log = disk.open(was_clean=name == "restart", recovery_point=point * number // 2, log_start_offset=start)
                model.truncate_from_end(log.log_end_offset)
                model.truncate_from_start(log.log_start_offset)
                epoch += number
            log.lead(LeaderEpoch(epoch), log.log_end_offset)
            model.assign(epoch, log.log_end_offset)
            for asked in range(-1, epoch + 2):
                assert log.end_offset_for_epoch(LeaderEpoch(asked)) == model.end_offset_for(asked, log.log_end_offset), asked
            for at in range(log.log_start_offset, log.log_end_offset + 1):
                assert log.epoch_for_offset(Offset(at)) == model.epoch_for_offset(at), at
        log.release()


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("raised", [0, 1, 3])
def test_an_empty_log_has_ends_for_the_epochs_of_what_was_deleted(tmp_path: Path, was_clean: bool, raised: int) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    log.lead(LeaderEpoch(4), Offset(0))
    assert [log.end_offset_for_epoch(LeaderEpoch(epoch)) for epoch in (3, 4, 5)] == [(3, 0), (4, 0), UNKNOWN], "a new partition"
    append(log, batch(7), leader_epoch=4)
    log.increment_log_start_offset(Offset(7), high_watermark=Offset(7))
    assert [log.end_offset_for_epoch(LeaderEpoch(epoch)) for epoch in (3, 4, 5)] == [(3, 7), (4, 7), UNKNOWN], "emptied"
    log.close()
    again = disk.open(was_clean=was_clean, recovery_point=7, log_start_offset=7)
    epoch = 4 + raised
    again.lead(LeaderEpoch(epoch), Offset(7))
    assert [again.end_offset_for_epoch(LeaderEpoch(asked)) for asked in (4, epoch, epoch + 1)] == [(4, 7), (epoch, 7), UNKNOWN]
    assert again.epoch_for_offset(Offset(7)) == epoch, "of the record that will be the first"
    append(again, batch(1), leader_epoch=epoch)
    assert [again.end_offset_for_epoch(LeaderEpoch(asked)) for asked in (4, epoch)] == [(4, 8 if raised == 0 else 7), (epoch, 8)]
    again.close()


def test_a_leader_writes_nothing_before_its_first_record(tmp_path: Path) -> None:
    path = tmp_path / "epochs"
    cache = LeaderEpochCache(Filesystem(), str(path))
    cache.lead(LeaderEpoch(3), Offset(10))
    assert not path.exists()
    assert cache.latest_epoch == -1, "no record has it"
    cache.assign(LeaderEpoch(3), Offset(10))
    assert path.read_text() == "0\n1\n3 10\n"
    cache.lead(LeaderEpoch(5), Offset(10))
    assert path.read_text() == "0\n1\n3 10\n"
    assert [cache.end_offset_for(LeaderEpoch(epoch), Offset(12)) for epoch in (3, 4, 5)] == [(3, 10), (4, 10), (5, 12)]
    cache.assign(LeaderEpoch(5), Offset(10))
    assert path.read_text() == "0\n1\n5 10\n"


def test_the_largest_epoch_is_known_after_its_entry_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "epochs"
    path.write_text("0\n2\n3 10\n9 20\n")
    cache = LeaderEpochCache(Filesystem(), str(path))
    assert cache.load()
    cache.truncate_from_end(Offset(20))
    assert (cache.latest_epoch, cache.largest_epoch) == (3, 9)


@pytest.mark.parametrize("line", ["2147483647 0", "-1 0", "0 -1", "x 0", "0"])
def test_a_file_with_an_impossible_entry_is_damaged(tmp_path: Path, line: str) -> None:
    path = tmp_path / "epochs"
    path.write_text(f"0\n1\n{line}\n")
    cache = LeaderEpochCache(Filesystem(), str(path))
    assert not cache.load()
    assert cache.entries == []
