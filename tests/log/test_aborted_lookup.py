"""Aborted transactions are looked up in a thread where the indexes are cold or long, and the result is the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pybroker.log.cleaner.rewrite import _aborted
from pybroker.log.cleaner.transactions import CleanedTransactions
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.indexes.transaction_index import ENTRY, VERSION, AbortedTransaction, TransactionIndex
from pybroker.log.log import Log
from pybroker.log.results import AbortedTransactions
from pybroker.model import Offset, ProducerId
from pybroker.replication.cold_lookups import ENTRIES_MAX, ColdLookups
from testing.scenes.cold_files import ColdFilesystem
from testing.scenes.logs import Disk, append, batch
from testing.turns import watched

ENTRIES = 200_000
FAR = Offset(10 * ENTRIES)


def entries(count: int) -> list[AbortedTransaction]:
    """Return transactions that each end 3 offsets after they began, while one was open from offset 0 on."""
    return [AbortedTransaction(ProducerId(n), Offset(10 * n), Offset(10 * n + 3), Offset(0)) for n in range(count)]


def with_entries(tmp_path: Path, count: int, filesystem: Filesystem | None = None) -> Log:
    """Return a log of which the first segment has that many aborted transactions, as after a start."""
    disk = Disk(tmp_path, filesystem=filesystem or Filesystem())
    log = disk.create()
    append(log, batch(3))
    log.roll(log.services.clock.time_ms(), FAR)
    log.release()
    data = b"".join(ENTRY.pack(VERSION, *one) for one in entries(count))
    Path(log.segments[0].transaction_index.path).write_bytes(data)
    return disk.open(was_clean=True)


def looked_up(log: Log, cold: ColdLookups, fetch_offset: int, upper_offset: int) -> AbortedTransactions:
    return cold.aborted_transactions(log, fetch_offset=Offset(fetch_offset), upper_offset=Offset(upper_offset))


@pytest.mark.judges_time
def test_a_fetch_from_a_log_with_very_many_aborted_transactions_holds_the_loop_for_short_turns(tmp_path: Path) -> None:
    log = with_entries(tmp_path, ENTRIES)
    cold = ColdLookups()
    with watched(limit_ms=50) as turns:
        assert turns.run(looked_up, log, cold, 1000, 2000) == []
        assert cold, "the index is cold"
        cold.take()()
        found = turns.run(looked_up, log, cold, 1000, 2000)
        turns.run(log.segments[0].transaction_index.load)
    assert [one.first_offset for one in found] == list(range(1000, 2000, 10))
    assert turns.long_texts() == []
    assert not cold
    log.release()


@pytest.mark.parametrize("is_read_before", [True, False])
def test_a_cold_index_is_read_in_the_thread_alone(tmp_path: Path, is_read_before: bool) -> None:
    filesystem = ColdFilesystem()
    log = with_entries(tmp_path, 1000, filesystem)
    if is_read_before:
        log.segments[0].transaction_index.load()
        log.segments[0].release()
    filesystem.drop_caches()
    filesystem.waits.clear()
    cold = ColdLookups()
    assert looked_up(log, cold, 1000, 2000) == []
    filesystem.in_thread(cold.take())
    assert len(looked_up(log, cold, 1000, 2000)) == 100
    assert filesystem.waits == []
    log.release()


@pytest.mark.parametrize("change", ["cut", "deleted", "another range", "another log"])
def test_what_a_thread_found_counts_for_nothing_after_a_change(tmp_path: Path, change: str) -> None:
    log = with_entries(tmp_path, 1000)
    cold = ColdLookups()
    assert looked_up(log, cold, 0, FAR) == []
    cold.take()()
    upper = int(FAR)
    if change == "cut":
        log.truncate_to(Offset(2))
    elif change == "deleted":
        log.increment_log_start_offset(FAR, high_watermark=FAR)
        log.delete_below_start()
    elif change == "another range":
        upper = 50
    else:
        log.release()
        log = Disk(tmp_path).open(was_clean=True)
        log.segments[0].transaction_index.reset()
    expected = {"cut": 0, "deleted": 0, "another range": 5, "another log": 0}[change]
    assert len(looked_up(log, cold, 0, upper)) == expected
    log.release()


def test_entries_that_could_not_be_written_yet_are_found(tmp_path: Path) -> None:
    log = with_entries(tmp_path, 0)
    index = log.segments[0].transaction_index
    for one in entries(ENTRIES_MAX + 100)[:ENTRIES_MAX]:
        index.gather(one)
    index.write()
    for one in entries(ENTRIES_MAX + 100)[ENTRIES_MAX:]:
        index.gather(one)
    cold = ColdLookups()
    assert looked_up(log, cold, 0, FAR) == []
    cold.take()()
    assert looked_up(log, cold, 0, FAR) == entries(ENTRIES_MAX + 100)
    log.release()


@pytest.mark.parametrize("seed", range(3))
def test_an_index_is_searched_as_a_list_is(tmp_path: Path, seed: int) -> None:
    """This holds with entries in the file and in memory, after cuts, and after the index was opened again."""
    draw = random.Random(seed)
    filesystem, path = Filesystem(), str(tmp_path / "0.txnindex")
    index, known = TransactionIndex(filesystem, path, Offset(0)), list[AbortedTransaction]()
    last = stable = 0
    for _ in range(600):
        last += draw.randint(1, 9)
        stable = draw.randint(stable, last + 1)
        one = AbortedTransaction(ProducerId(draw.randrange(9)), Offset(draw.randint(0, last)), Offset(last), Offset(stable))
        (index.append if draw.random() < 0.5 else index.gather)(one)
        known.append(one)
        if draw.random() < 0.02:
            cut = draw.randint(0, last + 1)
            index.truncate_to(Offset(cut))
            known = [each for each in known if each.last_offset < cut]
            last = max([0, *(each.last_offset for each in known)])
            stable = max([0, *(each.last_stable_offset for each in known)])
        if draw.random() < 0.02:
            index.write()
            index = TransactionIndex(filesystem, path, Offset(0))
        fetch, upper = sorted((draw.randint(0, last + 5), draw.randint(0, last + 5)))
        expected = []
        for each in known:
            if each.last_offset >= fetch:
                expected += [each] if each.first_offset < upper else []
                if each.last_stable_offset >= upper:
                    break
        pieces = index.collect(fetch_offset=Offset(fetch), upper_offset=Offset(upper))
        assert [each for piece in pieces for each in piece] == expected
    assert index.entries == known


@pytest.mark.judges_time
def test_the_cleaner_notes_very_many_aborted_transactions_in_slices(tmp_path: Path) -> None:
    log = with_entries(tmp_path, ENTRIES // 10)
    transactions = CleanedTransactions()
    with watched(limit_ms=25) as turns:
        work = _aborted(log, log.segments[0], FAR, transactions)
        while turns.run(next, work, "over") != "over":
            pass
    assert turns.long_texts() == []
    assert len(transactions._known) == ENTRIES // 10
    log.release()
