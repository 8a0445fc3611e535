"""The checker finds each kind of problem in histories that are written down here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from testing.transactions.checker import kinds, problems
from testing.transactions.history import Claim, Contents, History, Outcome, Reading, StableOffset


def sound() -> History:
    """Return a history of a committed, an aborted and a committed transaction over two partitions, with two readers."""
    history = History()
    last: dict[int, list[tuple[int, bytes]]] = {0: [], 1: []}
    for number, outcome in enumerate((Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNKNOWN)):
        written = history.begin("w", number)
        written.outcome = outcome
        for partition in (0, 1):
            values = written.new_values(partition, 2)
            written.acknowledged.update(values)
            last[partition] += [(10 * number + place, value) for place, value in enumerate(values)]
    committed = {number: [one for one in records if not 10 <= one[0] < 20] for number, records in last.items()}
    history.last = {number: Contents(committed[number], records, 23, 23) for number, records in last.items()}
    history.readings = [Reading("early", 0, committed[0][:2], 3), Reading("late", 1, committed[1][:], 23)]
    history.stable_offsets = [StableOffset(0, 3, 0, 5), StableOffset(0, 0, 1, 2), StableOffset(0, 3, 6, 7)]
    history.transactions[0].claim, history.transactions[2].claim = Claim(0, 0, 3), Claim(0, 3, 5)
    history.last_offsets = {0: 5, 1: 0}
    history.committed_offsets = [StableOffset(0, 0, 0, 1), StableOffset(0, 3, 2, 3)]
    history.made, history.touches, history.last_markers = 5, {7: 4, 8: 6}, [8]
    return history


def damage(change: Callable[[History], object]) -> History:
    history = sound()
    change(history)
    return history


def test_compaction_may_remove_records_of_transactions_that_did_not_commit_and_no_others() -> None:
    history = sound()
    history.is_compacted = True
    history.last[0].uncommitted[:] = history.last[0].committed
    assert problems(history) == []
    history.last[0].uncommitted.pop(0)
    assert kinds(problems(history)) == {"unfinished"}


def test_a_sound_history_has_no_problem() -> None:
    assert problems(sound()) == []


@pytest.mark.parametrize(
    ("kind", "history"),
    [
        ("lost", damage(lambda history: history.last[1].committed.pop(0))),
        ("aborted", damage(lambda history: history.last[0].committed.insert(2, (10, b"w/1/0")))),
        ("torn", damage(lambda history: history.last[0].committed.pop())),
        ("twice", damage(lambda history: history.last[0].uncommitted.append((30, b"w/2/1")))),
        ("order", damage(lambda history: history.last[1].uncommitted.reverse())),
        ("changed", damage(lambda history: history.readings[0].records.pop())),
        ("changed", damage(lambda history: history.readings[1].records.reverse())),
        ("went back", damage(lambda history: history.stable_offsets.append(StableOffset(0, 2, 8, 9)))),
        ("hangs", damage(lambda history: setattr(history.last[0], "last_stable_offset", 20))),
        ("unfinished", damage(lambda history: history.last[0].uncommitted.pop(2))),
        ("invented", damage(lambda history: history.last[0].uncommitted.append((30, b"other")))),
        ("read twice", damage(lambda history: setattr(history.transactions[2], "claim", Claim(0, 2, 5)))),
        ("skipped", damage(lambda history: setattr(history.transactions[2], "claim", Claim(0, 4, 5)))),
        ("skipped", damage(lambda history: setattr(history.transactions[0], "claim", None))),
        ("offset", damage(lambda history: history.last_offsets.update({0: 3}))),
        ("hangs", damage(lambda history: history.last_offsets.update({1: None}))),
        ("went back", damage(lambda history: history.committed_offsets.append(StableOffset(0, 0, 4, 5)))),
        ("stray", damage(lambda history: history.last_markers.append(7))),
        ("hangs", damage(lambda history: setattr(history, "last_removed_open", 1))),
    ],
)
def test_each_kind_is_found(kind: str, history: History) -> None:
    assert kind in kinds(problems(history))
