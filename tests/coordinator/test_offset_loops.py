"""The native loops over a usual commit find what the general way makes of it, and leave everything else to the general way. The
hash of a name is Java's, and takes few steps of the interpreter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.coordinator import _offset_loops_python, offset_loops, offsets
from pybroker.coordinator.committed import NO_TIMESTAMP, CommittedOffset
from pybroker.coordinator.offsets import Refused
from pybroker.coordinator.state.group import Committer
from pybroker.coordinator.state.records import OffsetsOfTopic
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
    refused, bulks = offsets._accept(COMMITTER, new, metadata_max_bytes=8, retention_ms=retention_ms, now_ms=NOW_MS)
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


HASHES = [offset_loops.java_hash, _offset_loops_python.java_hash]


def hash_by_definition(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[position : position + 2])) % 2**32
    return (value + 2**31) % 2**32 - 2**31


LETTERS = [st.characters(max_codepoint=255), st.characters(max_codepoint=0xFFFF, categories=("L", "Cs")), st.characters()]


@pytest.mark.parametrize("java_hash", HASHES)
@given(text=st.one_of([st.text(letters) for letters in LETTERS]), times=st.sampled_from([1, 1, 300]))
def test_the_hash_is_by_its_definition(java_hash: Callable[[str], int], text: str, times: int) -> None:
    assert java_hash(text * times) == hash_by_definition(text * times)


@pytest.mark.parametrize("java_hash", HASHES)
@pytest.mark.parametrize("letter", ["g", "\uffff", "\U0010ffff"])
@pytest.mark.parametrize("length", [1_023, 1_024, 1_025, 32_767])
def test_the_hash_of_a_long_name_is_by_its_definition(java_hash: Callable[[str], int], letter: str, length: int) -> None:
    assert java_hash(letter * length) == hash_by_definition(letter * length)


@pytest.mark.parametrize("java_hash", HASHES)
def test_the_hash_of_a_long_name_takes_few_steps_of_the_interpreter(java_hash: Callable[[str], int]) -> None:
    lines = 0

    def count(_frame: object, event: str, _arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    name, before = "g" * 32_767, sys.gettrace()
    sys.settrace(count)
    try:
        java_hash(name)
    finally:
        sys.settrace(before)
    assert lines < 500
