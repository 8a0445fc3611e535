"""`pybroker groups` on a broker: lists, lag, resets and deletions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from pybroker.testing import Broker, ThreadBroker
from testing.waiting import until
from tests.cli.cluster import commit, lines, objects, refusal


@pytest.fixture
def broker() -> Iterator[ThreadBroker]:
    """Return a broker with a topic of two partitions, of which a group has read one record."""
    with Broker.in_thread() as broker:
        broker.create_topic("a", 2)
        broker.produce("a", b"1", b"2", b"3", timestamp_ms=1_700_000_000_000)
        commit(broker.bootstrap, "readers", "a", {0: 1, 1: 0})
        yield broker


def test_groups_are_listed_with_their_lag(broker: ThreadBroker) -> None:
    (row,) = objects(broker.bootstrap, "groups", "list")
    assert row == {"group": "readers", "state": "Empty", "type": "classic", "topics": ["a"], "partitions": 2, "lag": 2}
    assert lines(broker.bootstrap, "groups", "list")[0].split() == ["GROUP", "STATE", "TYPE", "TOPICS", "LAG"]


def test_a_group_is_described_in_a_row_for_each_partition(broker: ThreadBroker) -> None:
    rows = objects(broker.bootstrap, "groups", "describe", "readers")
    assert [(row["partition"], row["offset"], row["end"], row["lag"]) for row in rows] == [(0, 1, 3, 2), (1, 0, 0, 0)]
    assert lines(broker.bootstrap, "groups", "describe", "readers")[0] == "readers: Empty, 0 members, 2 records behind"
    assert refusal(broker.bootstrap, "groups", "describe", "x") == "group x: GROUP_ID_NOT_FOUND: there is no such group"


@pytest.mark.parametrize(
    ("to", "offset"),
    [("beginning", 0), ("end", 3), ("2", 2), ("-1", 0), ("+1", 2), ("9", 3), ("10m", 3), ("2001-01-01", 0), ("2030-01-01", 3)],
)
def test_a_reset_shows_what_it_would_do_and_does_it_with_execute(broker: ThreadBroker, to: str, offset: int) -> None:
    at = broker.bootstrap
    (planned,) = objects(at, "groups", "reset", "readers", "--topic", "a:0", "--to", to)
    assert (planned["offset"], planned["new_offset"], planned["new_lag"], planned["executed"]) == (1, offset, 3 - offset, False)
    assert objects(at, "groups", "describe", "readers")[0]["offset"] == 1
    assert lines(at, "groups", "reset", "readers", "--to", to, "--execute")[-1] == "The offsets are committed."
    assert objects(at, "groups", "describe", "readers")[0]["offset"] == offset


def test_a_reset_that_cannot_be_is_refused(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    assert "must be beginning, end" in refusal(at, "groups", "reset", "readers", "--to", "soon", code=2)
    assert refusal(at, "groups", "reset", "new", "--to", "end") == "group new has committed no offsets: name topics with --topic"
    assert refusal(at, "groups", "reset", "new", "--to", "+1", "--topic", "a").startswith("a-0: the group has no offset there")
    assert objects(at, "groups", "reset", "new", "--to", "end", "--topic", "a", "--execute")[0]["new_offset"] == 3


def test_a_group_that_has_committed_nothing_has_no_lag(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    member = Consumer({"bootstrap.servers": at, "group.id": "new", "enable.auto.commit": "false"})
    member.subscribe(["a"])
    try:
        until(lambda: member.poll(0.1) is None and len(member.assignment()) == 2, "the member has its partitions")
        assert {row["group"]: row["lag"] for row in objects(at, "groups", "list")} == {"new": None, "readers": 2}
        assert [row["lag"] for row in objects(at, "groups", "describe", "new")] == [None, None]
        assert lines(at, "groups", "list")[1].split()[-1] == "-"
        assert lines(at, "groups", "describe", "new")[0] == "new: Stable, range, 1 member, no offsets committed"
        (found,) = objects(at, "status")
        assert ([one["group"] for one in found["groups_behind"]], found["groups_without_lag"]) == (["readers"], ["new"])
        assert any(line.endswith("2, 1 behind, 1 without committed offsets") for line in lines(at, "status"))
        assert refusal(at, "groups", "reset", "new", "--to", "end") == (
            "group new has committed no offsets, and has 1 member: name topics with --topic"
        )
        member.commit(offsets=[TopicPartition("a", 0, 1)], asynchronous=False)
        assert {row["group"]: row["lag"] for row in objects(at, "groups", "list")}["new"] == 2
    finally:
        member.close()


def test_offsets_and_groups_are_deleted(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    assert lines(at, "groups", "delete-offsets", "readers", "a:1", "--yes") == ["Deleted offsets of group readers"]
    assert [row["partition"] for row in objects(at, "groups", "describe", "readers")] == [0]
    assert lines(at, "groups", "delete", "readers", "--yes") == ["Deleted group readers"]
    assert refusal(at, "groups", "delete", "readers", "--yes").startswith("group readers: GROUP_ID_NOT_FOUND")
    assert lines(at, "groups", "list") == ["There are no groups."]
