"""The native loops over a usual commit find what the general way makes of it, and leave everything else to the general way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.coordinator import _offset_loops_python, offset_loops, offsets
from pybroker.coordinator.offsets import Committer, Refused
from pybroker.coordinator.records import NO_TIMESTAMP, CommittedOffset, OffsetsOfTopic
from pybroker.model import GenerationId, GroupId, LeaderEpoch, MemberId, Offset
from pybroker.protocol.codec import EncodeError
from pybroker.protocol.messages.offset_commit import OffsetCommitRequestPartition

COMMITTER = Committer(GroupId("g"), GenerationId(-1), MemberId(""), None)
NOW_MS = 1_700_000_000_000
INT64 = st.integers(-(2**63), 2**63 - 1)

needs_native = pytest.mark.skipif(not offset_loops.IS_NATIVE, reason="the extension was not built")


@contextmanager
def only_the_general_way() -> Iterator[None]:
    with (
        mock.patch.object(offset_loops, "usual_offsets", _offset_loops_python.usual_offsets),
        mock.patch.object(offset_loops, "usual_ends", _offset_loops_python.usual_ends),
    ):
        yield


@st.composite
def partitions(draw: st.DrawFn) -> list[OffsetCommitRequestPartition]:
    """Return what a topic has in a request: usual in most cases, and with a partition twice now and then."""
    texts = st.sampled_from(["", "", "", None, "x", "x" * 9])
    times = st.sampled_from([NO_TIMESTAMP] * 9 + [5])
    return [
        OffsetCommitRequestPartition(
            partition_index=draw(st.integers(0, 20)),
            committed_offset=draw(INT64),
            committed_leader_epoch=draw(st.integers(-(2**31), 2**31 - 1)),
            committed_metadata=draw(texts),
            commit_timestamp=draw(times),
        )
        for _ in range(draw(st.integers(1, 8)))
    ]


def accepted(new: list[tuple[str, list[OffsetCommitRequestPartition]]], retention_ms: int) -> tuple[Refused, list[object]]:
    """Return the errors, and the offsets and bytes of each topic."""
    refused: Refused = {}
    bulks: list[OffsetsOfTopic] = []
    offsets._accept(COMMITTER, new, refused, bulks, place=3, metadata_max_bytes=8, retention_ms=retention_ms, now_ms=NOW_MS)
    return refused, [(bulk.topic, list(bulk.offsets.items()), list(bulk.ends())) for bulk in bulks]


@given(st.lists(st.tuples(st.sampled_from(["t", "u"]), partitions()), min_size=1, max_size=3), st.sampled_from([-1, -1, 1000]))
def test_a_commit_is_accepted_as_the_general_way_accepts_it(
    new: list[tuple[str, list[OffsetCommitRequestPartition]]], retention_ms: int
) -> None:
    found = accepted(new, retention_ms)
    with only_the_general_way():
        assert found == accepted(new, retention_ms)


@needs_native
def test_a_usual_commit_does_not_take_the_general_way() -> None:
    usual = [OffsetCommitRequestPartition(partition_index=3, committed_offset=5, committed_metadata=text) for text in ("", None)]
    found = offset_loops.usual_offsets(CommittedOffset, usual, NOW_MS)
    assert found == {3: CommittedOffset(Offset(5), LeaderEpoch(-1), "", NOW_MS)}
    assert type(found[3]) is CommittedOffset
    assert offset_loops.usual_ends(b"start", found) is not None


@pytest.mark.parametrize(
    "committed",
    [
        CommittedOffset(Offset(1), LeaderEpoch(2**31), "", NOW_MS),
        CommittedOffset(Offset(2**63), LeaderEpoch(0), "", NOW_MS),
        CommittedOffset(Offset(1), LeaderEpoch(0), "", 2**63),
    ],
)
def test_numbers_that_do_not_fit_are_an_error(committed: CommittedOffset) -> None:
    with pytest.raises(EncodeError, match="an offset cannot be written"):
        OffsetsOfTopic(GroupId("g"), "t", {0: committed}).ends()
