"""Ranges of partitions for the members of a group, and where the offsets of an import have gone."""

from __future__ import annotations

import pytest

from pybroker.terminal.importing import Moves
from pybroker.terminal.membership import ranges
from pybroker.tools.groups_admin import Partition


def test_members_get_ranges_of_the_topics_that_they_want() -> None:
    found = ranges({"b": ["t", "u"], "a": ["t"], "c": []}, {"t": 3, "u": 2})
    assert {member: [(one.topic, one.number) for one in partitions] for member, partitions in found.items()} == {
        "a": [("t", 0), ("t", 1)],
        "b": [("t", 2), ("u", 0), ("u", 1)],
        "c": [],
    }


def test_more_members_than_partitions_leave_some_without() -> None:
    assert [len(partitions) for partitions in ranges({"a": ["t"], "b": ["t"], "c": ["t"]}, {"t": 2}).values()] == [1, 1, 0]
    assert ranges({"a": ["t"]}, {"t": 1}) == {"a": [Partition("t", 0)]}


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, 100), (5, 100), (6, 101), (7, 102), (8, 102), (9, 102), (10, 102), (11, 103), (12, 200), (99, 200)],
)
def test_an_offset_moves_to_the_first_record_at_or_after_it(offset: int, expected: int) -> None:
    """The source has the offsets 5, 6, 10 and 11; they are at 100 to 103, and the target ends at 200."""
    moves = Moves()
    for source, target in ((5, 100), (6, 101), (10, 102), (11, 103)):
        moves.add(source, target=target, count=1)
    assert moves.moved(offset, end=200) == expected


def test_without_records_an_offset_moves_to_the_end() -> None:
    assert Moves().moved(3, end=7) == 7
