"""Bad requests get Kafka's error, and afterwards everything is as it was: state, timers, requests that wait, and log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.join_group import JoinGroupRequest
from pybroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pybroker.protocol.messages.list_groups import ListGroupsRequest
from pybroker.protocol.messages.offset_commit import OffsetCommitRequest
from pybroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from testing.error_codes import error_code
from testing.scenes.api.groups import GROUP, broker, commit_request, join_request, member
from testing.scenes.api.whole import Whole

NEW_KIND = "of KIP-848"
INSTANCE = "i"


def shown(thing: Any) -> Any:
    """Return an object with everything that it holds, in a form that can be compared; otherwise its representation."""
    if hasattr(thing, "__slots__") and not isinstance(thing, tuple):
        return {name: shown(getattr(thing, name)) for name in thing.__slots__ if name not in {"_replays", "settings"}}
    if isinstance(thing, dict):
        return {key: shown(value) for key, value in thing.items()}
    return repr(thing)


def everything(whole: Whole) -> Any:
    """Return everything that a request could change."""
    state = []
    for number, active in sorted(whole.groups.runtime._active.items()):
        log = whole.replicas.partition_or_raise(TopicPartition("__consumer_offsets", number)).log
        timers = {key: getattr(timer, "expiration_ms", None) for key, timer in active.timers.items()}
        state.append((number, log.log_end_offset, shown(active.shard), timers, active.replayed_end_offset))
    return state


async def populated(folder: Path, max_size: int = 2) -> tuple[Whole, str]:
    """Make a stable group of a single static member with an offset, and a KIP-848 group. Returns the id of the member."""
    whole = await broker(folder, offset_metadata_max_bytes=10, group_max_size=max_size)
    member_id = await member(whole, INSTANCE)
    fields: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": member_id}
    assert code_of(await whole.ask(commit_request(offset=7, **fields), 8)) is ErrorCode.NONE
    beat = ConsumerGroupHeartbeatRequest(
        group_id=NEW_KIND,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert code_of(await whole.ask(beat, 1)) is ErrorCode.NONE
    whole.pass_time(1000)
    return whole, member_id


def code_of(response: Any) -> ErrorCode:
    """Return the first error in the response, in whatever place."""
    if getattr(response, "error_code", 0):
        return error_code(response.error_code)
    for name in ("topics", "partitions", "members", "groups", "results"):
        for part in getattr(response, name, None) or ():
            if code := code_of(part):
                return code
    return ErrorCode.NONE


def heartbeat(**fields: Any) -> HeartbeatRequest:
    return HeartbeatRequest(**{"group_id": GROUP, "generation_id": 1, **fields})


def sync(**fields: Any) -> SyncGroupRequest:
    return SyncGroupRequest(
        **{"group_id": GROUP, "generation_id": 1, "protocol_type": "consumer", "protocol_name": "range", **fields}
    )


def commit(member_id: str, generation: int = 1, **fields: Any) -> OffsetCommitRequest:
    return commit_request(generation_id_or_member_epoch=generation, member_id=member_id, **fields)


def leave(*members: MemberIdentity, group: str = GROUP) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id=group, members=list(members))


def join(member_id: str = "", **changed: Any) -> JoinGroupRequest:
    request = join_request(member_id)
    for name, value in changed.items():
        setattr(request, name, value)
    return request


def new_beat(epoch: int, member_id: str = "m", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(**{"group_id": NEW_KIND, "member_id": member_id, "member_epoch": epoch, **fields})


def forget(group: str, topic: str = "t") -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    return OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)])


def fetch_as(member_id: str, epoch: int) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=NEW_KIND, member_id=member_id, member_epoch=epoch, topics=None)]
    )


E = ErrorCode
CASES: dict[str, tuple[Callable[[str], Any], int, ErrorCode]] = {
    "heartbeat of an older generation": (lambda me: heartbeat(member_id=me, generation_id=0), 4, E.ILLEGAL_GENERATION),
    "heartbeat of a later generation": (lambda me: heartbeat(member_id=me, generation_id=2), 4, E.ILLEGAL_GENERATION),
    "heartbeat of a stranger": (lambda _: heartbeat(member_id="x"), 4, E.UNKNOWN_MEMBER_ID),
    "heartbeat in no group": (lambda me: heartbeat(member_id=me, group_id="none"), 4, E.UNKNOWN_MEMBER_ID),
    "heartbeat without a group": (lambda me: heartbeat(member_id=me, group_id=""), 4, E.INVALID_GROUP_ID),
    "heartbeat of an old instance": (
        lambda _: heartbeat(member_id="old", group_instance_id=INSTANCE), 4, E.FENCED_INSTANCE_ID),
    "heartbeat of no instance": (lambda me: heartbeat(member_id=me, group_instance_id="j"), 4, E.UNKNOWN_MEMBER_ID),
    "sync of another generation": (lambda me: sync(member_id=me, generation_id=2), 5, E.ILLEGAL_GENERATION),
    "sync of a stranger": (lambda _: sync(member_id="x"), 5, E.UNKNOWN_MEMBER_ID),
    "sync of another protocol": (lambda me: sync(member_id=me, protocol_name="x"), 5, E.INCONSISTENT_GROUP_PROTOCOL),
    "sync of another type": (lambda me: sync(member_id=me, protocol_type="x"), 5, E.INCONSISTENT_GROUP_PROTOCOL),
    "sync without protocol": (lambda me: sync(member_id=me, protocol_name=None), 5, E.INCONSISTENT_GROUP_PROTOCOL),
    "sync of an old instance": (lambda _: sync(member_id="old", group_instance_id=INSTANCE), 5, E.FENCED_INSTANCE_ID),
    "join of a stranger": (lambda _: join("x"), 9, E.UNKNOWN_MEMBER_ID),
    "join of a stranger to no group": (lambda _: join("x", group_id="none"), 9, E.UNKNOWN_MEMBER_ID),
    "join of an old instance": (lambda _: join("old", group_instance_id=INSTANCE), 9, E.FENCED_INSTANCE_ID),
    "join without a group": (lambda _: join(group_id=""), 9, E.INVALID_GROUP_ID),
    "join for too short a session": (lambda _: join(session_timeout_ms=5_999), 9, E.INVALID_SESSION_TIMEOUT),
    "join for too long a session": (lambda _: join(session_timeout_ms=1_800_001), 9, E.INVALID_SESSION_TIMEOUT),
    "join without protocols": (lambda _: join(group_id="none", protocols=[]), 9, E.INCONSISTENT_GROUP_PROTOCOL),
    "join without a type": (lambda _: join(group_id="none", protocol_type=""), 9, E.INCONSISTENT_GROUP_PROTOCOL),
    "join with another type": (lambda me: join(me, protocol_type="connect"), 9, E.INCONSISTENT_GROUP_PROTOCOL),
    "join of one too many": (lambda _: join(), 9, E.GROUP_MAX_SIZE_REACHED),
    "leaving of a stranger": (lambda _: leave(MemberIdentity(member_id="x")), 5, E.UNKNOWN_MEMBER_ID),
    "leaving of no group": (lambda me: leave(MemberIdentity(member_id=me), group="none"), 5, E.UNKNOWN_MEMBER_ID),
    "leaving of an old instance": (
        lambda _: leave(MemberIdentity(member_id="old", group_instance_id=INSTANCE)), 5, E.FENCED_INSTANCE_ID),
    "leaving of no instance": (
        lambda _: leave(MemberIdentity(member_id="", group_instance_id="j")), 5, E.UNKNOWN_MEMBER_ID),
    "commit of an older generation": (lambda me: commit(me, 0), 9, E.ILLEGAL_GENERATION),
    "commit of a later generation": (lambda me: commit(me, 2), 9, E.ILLEGAL_GENERATION),
    "commit of a stranger": (lambda _: commit("x"), 9, E.UNKNOWN_MEMBER_ID),
    "commit without a member": (lambda _: commit("", -1), 9, E.UNKNOWN_MEMBER_ID),
    "commit of an old instance": (lambda _: commit("old", group_instance_id=INSTANCE), 9, E.FENCED_INSTANCE_ID),
    "commit to no group": (lambda _: commit("x", group_id="none"), 9, E.GROUP_ID_NOT_FOUND),
    "commit to no group, before v9": (lambda _: commit("x", group_id="none"), 8, E.ILLEGAL_GENERATION),
    "commit for an unknown topic": (lambda me: commit(me, topic="x"), 9, E.UNKNOWN_TOPIC_OR_PARTITION),
    "commit for an unknown id": (lambda me: commit(me, topic="", topic_id=b"x" * 16), 10, E.UNKNOWN_TOPIC_ID),
    "commit for an unknown partition": (lambda me: commit(me, partition=2), 9, E.UNKNOWN_TOPIC_OR_PARTITION),
    "commit for a negative partition": (lambda me: commit(me, partition=-1), 9, E.UNKNOWN_TOPIC_OR_PARTITION),
    "forgetting of no group": (lambda _: forget("none"), 0, E.GROUP_ID_NOT_FOUND),
    "forgetting of no topic": (lambda _: forget(GROUP, "x"), 0, E.UNKNOWN_TOPIC_OR_PARTITION),
    "forgetting of what is read": (lambda _: forget(GROUP), 0, E.GROUP_SUBSCRIBED_TO_TOPIC),
    "forgetting of what is read, KIP-848": (lambda _: forget(NEW_KIND), 0, E.GROUP_SUBSCRIBED_TO_TOPIC),
    "deletion with members": (lambda _: DeleteGroupsRequest(groups_names=[GROUP]), 2, E.NON_EMPTY_GROUP),
    "deletion with members, KIP-848": (lambda _: DeleteGroupsRequest(groups_names=[NEW_KIND]), 2, E.NON_EMPTY_GROUP),
    "deletion of no group": (lambda _: DeleteGroupsRequest(groups_names=["none"]), 2, E.GROUP_ID_NOT_FOUND),
    "a stale epoch": (lambda _: new_beat(7), 1, E.FENCED_MEMBER_EPOCH),
    "an epoch of a stranger": (lambda _: new_beat(1, "x"), 1, E.UNKNOWN_MEMBER_ID),
    "an epoch in no group": (lambda _: new_beat(1, group_id="none"), 1, E.GROUP_ID_NOT_FOUND),
    "commit in a stale epoch": (lambda _: commit("m", 7, group_id=NEW_KIND), 9, E.STALE_MEMBER_EPOCH),
    "commit of a stranger, KIP-848": (lambda _: commit("x", 1, group_id=NEW_KIND), 9, E.UNKNOWN_MEMBER_ID),
    "fetch in a stale epoch": (lambda _: fetch_as("m", 7), 9, E.STALE_MEMBER_EPOCH),
    "fetch of a stranger, KIP-848": (lambda _: fetch_as("x", 1), 9, E.UNKNOWN_MEMBER_ID),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
async def test_an_error_and_nothing_changed(case: str, tmp_path: Path) -> None:
    make, version, code = CASES[case]
    whole, member_id = await populated(tmp_path, max_size=1 if code is ErrorCode.GROUP_MAX_SIZE_REACHED else 2)
    before = everything(whole)
    assert code_of(await whole.ask(make(member_id), version)) is code
    assert everything(whole) == before


async def test_a_text_that_is_too_long_only_prolongs_the_session(tmp_path: Path) -> None:
    whole, member_id = await populated(tmp_path)
    before = everything(whole)
    response = await whole.ask(commit(member_id, committed_metadata="x" * 11), 9)
    assert code_of(response) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    after = everything(whole)
    assert [(number, end, state) for number, end, state, *_ in after] == [
        (number, end, state) for number, end, state, *_ in before
    ]


@pytest.mark.parametrize(
    ("text", "code"), [("x" * 10, E.NONE), ("é" * 10, E.NONE), ("😀" * 5, E.NONE), ("😀" * 6, E.OFFSET_METADATA_TOO_LARGE)]
)
async def test_the_length_of_a_text_is_javas(text: str, code: ErrorCode, tmp_path: Path) -> None:
    whole, member_id = await populated(tmp_path)
    assert code_of(await whole.ask(commit(member_id, committed_metadata=text), 9)) is code


async def test_what_is_compared_would_show_a_change(tmp_path: Path) -> None:
    whole, member_id = await populated(tmp_path)
    before = everything(whole)
    assert code_of(await whole.ask(heartbeat(member_id=member_id), 4)) is ErrorCode.NONE
    assert everything(whole) != before, "a timer"
    before = everything(whole)
    assert code_of(await whole.ask(commit(member_id), 9)) is ErrorCode.NONE
    assert everything(whole) != before
    before = everything(whole)
    whole.send(join(member_id, protocols=join_request().protocols), 9)
    assert everything(whole) != before, "a rebalance"


async def test_a_subscription_that_cannot_be_read_is_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    whole = await broker(tmp_path)
    joining = join_request()
    joining.protocols[0].metadata = b"of another kind"
    joined = await whole.ask(joining, 3)
    assert code_of(joined) is ErrorCode.NONE
    assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")]
    await whole.ask(sync(member_id=joined.member_id, assignments=assignments), 0)
    line = f"Group {GROUP} counts as reading every topic, because a subscription cannot be read or is too long"
    assert caplog.messages.count(line) == 1
    caplog.clear()
    whole.serve()
    assert GROUP in [group.group_id for group in (await whole.ask(ListGroupsRequest(), 0)).groups]
    assert line not in caplog.messages, "a start repeats no line about a client"

    beat = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert code_of(await whole.ask(beat, 1)) is ErrorCode.GROUP_ID_NOT_FOUND
    beat.group_id = NEW_KIND
    assert code_of(await whole.ask(beat, 1)) is ErrorCode.NONE
    joining.group_id = NEW_KIND
    assert code_of(await whole.ask(joining, 3)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert [one for one in caplog.messages if "cannot become a consumer group" in one]
    assert [one for one in caplog.messages if f"Group {NEW_KIND} refuses client" in one]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
