"""The aborted transactions of a fetch are those that its records need, and not those of the whole log behind it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pybroker.log.log import Log
from pybroker.log.results import AppendOrigin
from pybroker.model import CoordinatorEpoch, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.records.batch import batches
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from testing.scenes.logs import START_MS, Disk, Producer, append, batch, content

BATCHES = 400


def end(log: Log, producer_id: int, kind: ControlType) -> None:
    marker = build_transaction_marker(
        TransactionMarker(kind, CoordinatorEpoch(0)),
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=START_MS,
    )
    log.append_as_leader(memoryview(marker), leader_epoch=LeaderEpoch(0), now_ms=START_MS, origin=AppendOrigin.COORDINATOR)


def fill(log: Log, draw: random.Random) -> None:
    sequences = dict.fromkeys(range(1, 6), 0)
    is_open = set()
    for _ in range(BATCHES):
        producer_id, count = draw.choice(list(sequences)), draw.randint(1, 5)
        if producer_id in is_open and draw.random() < 0.6:
            end(log, producer_id, draw.choice([ControlType.ABORT, ControlType.COMMIT]))
            is_open.discard(producer_id)
            continue
        append(log, batch(count, producer=Producer(producer_id), sequence=sequences[producer_id], is_transactional=True))
        sequences[producer_id] += count
        is_open.add(producer_id)
    for producer_id in is_open:
        end(log, producer_id, ControlType.ABORT)


@pytest.mark.parametrize("is_opened_again", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_fetch_has_the_aborted_transactions_of_its_records(tmp_path: Path, seed: int, is_opened_again: bool) -> None:
    draw = random.Random(seed)
    disk = Disk(tmp_path, segment_bytes=8_000, index_interval_bytes=draw.choice([1, 300, 2_000]))
    log = disk.create()
    fill(log, draw)
    if is_opened_again:
        log.release()
        log = disk.open()
    upper = log.log_end_offset
    of_log = log.aborted_transactions(fetch_offset=Offset(0), upper_offset=upper)
    assert len(log.segments) > 4
    assert len(of_log) > 50
    counts = []
    for offset in range(0, upper, 7):
        fetched = log.read(Offset(offset), bytes_max=draw.choice([1, 500, 3_000]), upper_offset=upper, min_one_batch=True)
        found = log.aborted_transactions(fetch_offset=Offset(offset), upper_offset=upper, fetched=fetched)
        last_offset = list(batches(content(fetched)))[-1].next_offset - 1
        needed = [one for one in of_log if one.last_offset >= offset and one.first_offset <= last_offset]
        assert [one for one in found if one in needed] == needed
        counts.append(len(found))
    assert sum(counts) / len(counts) < len(of_log) / 4
