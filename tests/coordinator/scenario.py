"""Plays a story of requests and time, and writes down which client got which response.

A story has lines that do something, each followed by indented lines with all responses that it caused, in the order of the
clients' names. `#` begins a comment. The actors are clients, each with a single group membership, and `admin`:

    set group.max.size=2                        properties of the broker, before anything else
    topic t 3                                   create a topic with 3 partitions
    delete topic t
    alice joins g [instance=i] [session=10s] [rebalance=30s] [protocols=range,sticky] [topics=t,u] [version=9] [type=consumer]
                  [owns=t-0,t-1]                what it has, as members report that give up nothing before they join
                  [once] [fresh] [as=ID]        `once`: do not join again after MEMBER_ID_REQUIRED; `fresh`: as after a start;
                  `-` is a group without a name
    alice syncs [alice=x bob=t-0,t-1]           with assignments, if it is the leader
    alice beats [generation=7] [as=ID] [in=g]
    alice leaves
    alice commits t-0=5 [t-1=6] [generation=7] [metadata=TEXT] [retention=60s] [version=9] [in=g]
    admin removes i from g                      a static member by its instance
    admin commits g t-0=5 [retention=60s] [version=4] [metadata=TEXT]
    admin fetches g [t-0 t-1] [version=9]
    admin describes g | lists [state=stable] [type=classic] | deletes g | forgets g t
    after 10s
    log refuses | accepts                       from now on, whatever the coordinator appends
    restart [group.max.size=1]                  the coordinator starts again with what is in the log, and with these properties

KIP-848 members: see `consumer_story`.

A response is `waits` while there is none. The names of clients stand for their member ids.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from pybroker.config.broker import BrokerConfig
from pybroker.model import TopicPartition
from pybroker.protocol.codec import decode, encode
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pybroker.protocol.messages.consumer_protocol import TopicPartition as ConsumerPartitions
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.describe_groups import DescribeGroupsRequest
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pybroker.protocol.messages.list_groups import ListGroupsRequest
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from testing.error_codes import error_code
from testing.scenes.api.groups import unwritable
from testing.scenes.api.whole import Whole
from tests.coordinator.consumer.consumer_story import ConsumerStory

INDENT = "    "


@dataclass
class Client:
    name: str
    group: str = ""
    member_id: str = ""
    generation: int = -1
    instance: str | None = None
    protocol: tuple[str | None, str | None] = (None, None)
    options: dict[str, str] = field(default_factory=dict)


def milliseconds(text: str) -> int:
    """Return a time such as `10s`, `500ms`, `2m`, `3h` or `7d` in milliseconds."""
    for unit, factor in (("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)):
        if text.endswith(unit) and text[: -len(unit)].isdigit():
            return int(text[: -len(unit)]) * factor
    raise ValueError(f"not a time: {text}")


def partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def subscription(topics: str, owned: str = "") -> bytes:
    """Return the metadata of a consumer, in version 1 if it reports what it owns."""
    content = ConsumerProtocolSubscription(
        topics=[name for name in topics.split(",") if name], owned_partitions=_topic_partitions(owned) if owned else []
    )
    return _with_version(content, 1 if owned else 0)


def assignment(text: str) -> bytes:
    """Return what a leader assigns to a member: partitions, or any other text, which the coordinator does not read."""
    if not re.fullmatch(r"[a-z]+-\d+(,[a-z]+-\d+)*", text):
        return text.encode()
    return _with_version(ConsumerProtocolAssignment(assigned_partitions=_topic_partitions(text)), 0)


def assigned(data: bytes) -> str:
    """Return as text what `assignment` has written."""
    if not data.startswith(b"\x00"):
        return data.decode() or "nothing"
    content = decode(ConsumerProtocolAssignment, data[1], memoryview(data), 2)
    return " ".join(f"{one.topic}-{','.join(map(str, one.partitions))}" for one in content.assigned_partitions) or "no partitions"


def _topic_partitions(text: str) -> list[ConsumerPartitions]:
    where = [partition(one) for one in text.split(",") if one != "none"]
    topics = dict.fromkeys(one.topic for one in where)
    return [
        ConsumerPartitions(topic=topic, partitions=[one.partition for one in where if one.topic == topic]) for topic in topics
    ]


def _with_version(message: object, version: int) -> bytes:
    return version.to_bytes(2) + b"".join(bytes(part) for part in encode(message, version))  # type: ignore[arg-type]  # no late parts


class Story(ConsumerStory):
    """A broker and its clients. `play` returns the story with the responses that came."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._settings: dict[str, str] = {}
        self._clients: dict[str, Client] = {}
        self._names: dict[str, str] = {}  # client by member id
        self._waiting: list[tuple[str, Any, Callable[[bytes], str]]] = []
        self._responses: list[tuple[str, str]] = []
        self._refusal = contextlib.ExitStack()  # holds what makes appends fail
        self.whole: Whole | None = None

    async def play(self, text: str) -> str:
        with self._refusal:
            return await self._play(text)

    async def _play(self, text: str) -> str:
        lines: list[str] = []
        for line in text.splitlines():
            if line.startswith(INDENT):
                continue
            lines.append(line)
            words = line.partition("#")[0].split()
            if words:
                await self._do(words)
                lines += [f"{INDENT}{sender}: {what}" for sender, what in await self._take_responses()]
        return "\n".join(lines) + "\n"

    async def _take_responses(self) -> list[tuple[str, str]]:
        for _ in range(3):  # the callbacks of a future that is done run in the loop's next iteration
            await asyncio.sleep(0)
        still = []
        for sender, response, describe in self._waiting:
            if response.done():
                self._responses.append((sender, describe(response.result())))
            else:
                still.append((sender, response, describe))
        self._waiting = still
        responses, self._responses = sorted(self._responses, key=itemgetter(0)), []
        return responses

    async def _start(self) -> Whole:
        if self.whole is None:
            self.whole = await Whole(self._folder, **self._properties()).start()
            await self.whole.ask(FindCoordinatorRequest(key="g"), 3)
        return self.whole

    def _properties(self) -> dict[str, Any]:
        return {"offsets_topic_num_partitions": 3, **{key.replace(".", "_"): value for key, value in self._settings.items()}}

    async def _do(self, words: list[str]) -> None:
        if words[0] == "set":
            key, _, value = words[1].partition("=")
            self._settings[key] = value
            return
        whole = await self._start()
        match words:
            case ["topic", name, count]:
                await whole.create(name, int(count))
            case ["delete", "topic", name]:
                await whole.controller.delete_topics([whole.controller.image.topics[name].topic_id])
            case ["after", delay]:
                whole.pass_time(milliseconds(delay))
            case ["log", "refuses"]:
                self._refusal.enter_context(unwritable())
            case ["log", "accepts"]:
                self._refusal.close()
            case ["restart", *changed]:
                self._settings |= _split(changed)[1]
                whole.config = BrokerConfig(node_id=1, log_dirs=whole.config.log_dirs, **self._properties())
                whole.serve()
            case ["admin", verb, *rest]:
                getattr(self, f"_admin_{verb}")(*_split(rest))
            case [name, verb, *rest]:
                client = self._clients.setdefault(name, Client(name))
                getattr(self, f"_{verb}")(client, *_split(rest))

    def _send(self, sender: str, request: object, version: int, describe: Callable[[Any], str]) -> None:
        assert self.whole is not None
        whole = self.whole
        response = whole.send(request, version, sender)

        def read(response: Any) -> str:
            return describe(whole.read(response, request, version))

        if isinstance(response, asyncio.Future):
            self._responses.append((sender, "waits"))
            self._waiting.append((sender, response, read))
        else:
            self._responses.append((sender, read(response)))

    def _name(self, member_id: str) -> str:
        return self._names.get(member_id, member_id or "nobody")

    # Members

    def _joins(self, client: Client, words: list[str], options: dict[str, str]) -> None:
        if "fresh" in words:
            client.member_id, client.generation, client.options = "", -1, {}
        client.group = words[0] if words[0] != "-" else ""
        client.member_id = options.pop("as", client.member_id)
        client.options |= options
        options = client.options
        client.instance = options.get("instance")
        version = int(options.get("version", 9))
        request = JoinGroupRequest(
            group_id=client.group,
            session_timeout_ms=milliseconds(options.get("session", "10s")),
            rebalance_timeout_ms=milliseconds(options.get("rebalance", "30s")),
            member_id=client.member_id,
            group_instance_id=client.instance,
            protocol_type=options.get("type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=subscription(options.get("topics", ""), options.get("owns", "")))
                for name in options.get("protocols", "range").split(",")
                if name
            ],
        )

        def describe(response: Any) -> str:
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = response.member_id
                self._names[response.member_id] = client.name
                if "once" not in words:
                    asyncio.get_running_loop().call_soon(self._joins, client, [client.group], {})
                    return "gets an id and joins with it"
            if response.error_code:
                return error_code(response.error_code).name
            client.member_id, client.generation = response.member_id, response.generation_id
            client.protocol = (response.protocol_type, response.protocol_name)
            self._names[response.member_id] = client.name
            members = ",".join(sorted(self._name(member.member_id) for member in response.members))
            among = f" of {members}" if members else ""
            skip = ", keeps the assignment" if response.skip_assignment else ""
            leads = "leader" if response.leader == response.member_id else "member" if response.leader else "without a leader"
            return f"generation {response.generation_id} by {response.protocol_name}, {leads}{among}{skip}"

        self._send(client.name, request, version, describe)

    def _syncs(self, client: Client, _words: list[str], options: dict[str, str]) -> None:
        ids = {other.name: other.member_id for other in self._clients.values()}
        request = SyncGroupRequest(
            group_id=client.group,
            generation_id=int(options.pop("generation", client.generation)),
            member_id=client.member_id,
            group_instance_id=client.instance,
            protocol_type=client.protocol[0],
            protocol_name=options.pop("protocol", client.protocol[1]),
            assignments=[
                SyncGroupRequestAssignment(member_id=ids.get(name, name), assignment=assignment(what))
                for name, what in options.items()
            ],
        )

        def describe(response: Any) -> str:
            if response.error_code:
                return error_code(response.error_code).name
            return f"assigned {assigned(response.assignment)}"

        self._send(client.name, request, 5, describe)

    def _beats(self, client: Client, _words: list[str], options: dict[str, str]) -> None:
        request = HeartbeatRequest(
            group_id=options.get("in", client.group),
            generation_id=int(options.get("generation", client.generation)),
            member_id=options.get("as", client.member_id),
            group_instance_id=client.instance,
        )
        self._send(client.name, request, 4, lambda response: error_code(response.error_code).name)

    def _leaves(self, client: Client, _words: list[str], _options: dict[str, str]) -> None:
        self._leave(client.name, client.group, MemberIdentity(member_id=client.member_id, group_instance_id=client.instance))

    def _admin_removes(self, words: list[str], _options: dict[str, str]) -> None:
        instance, _from, group = words
        self._leave("admin", group, MemberIdentity(member_id="", group_instance_id=instance))

    def _leave(self, sender: str, group: str, identity: MemberIdentity) -> None:
        request = LeaveGroupRequest(group_id=group, members=[identity])
        self._send(sender, request, 5, lambda r: error_code(r.error_code or r.members[0].error_code).name)

    # Offsets

    def _commits(self, client: Client, words: list[str], options: dict[str, str]) -> None:
        generation = int(options.pop("generation", client.generation))
        self._commit(
            client.name, options.pop("in", client.group), (generation, client.member_id, client.instance), words, options
        )

    def _admin_commits(self, words: list[str], options: dict[str, str]) -> None:
        self._commit("admin", words[0], (int(options.pop("generation", "-1")), "", None), words[1:], options)

    def _commit(
        self, sender: str, group: str, member: tuple[int, str, str | None], words: list[str], options: dict[str, str]
    ) -> None:
        version = int(options.pop("version", "4" if "retention" in options else "9"))
        retention = options.pop("retention", None)
        metadata = options.pop("metadata", "")
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for name, offset in options.items():
            where = partition(name)
            topics.setdefault(where.topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=where.partition, committed_offset=int(offset), committed_metadata=metadata
                )
            )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=member[0],
            member_id=member[1],
            group_instance_id=member[2],
            retention_time_ms=-1 if retention is None else milliseconds(retention),
            topics=[OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        )
        self._send(sender, request, version, _per_partition)

    def _admin_fetches(self, words: list[str], options: dict[str, str]) -> None:
        topics = None
        if words[1:]:
            topics = [
                OffsetFetchRequestTopics(name=where.topic, partition_indexes=[where.partition])
                for where in map(partition, words[1:])
            ]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=words[0], topics=topics)])

        def describe(response: Any) -> str:
            (group,) = response.groups
            if group.error_code:
                return error_code(group.error_code).name
            found = sorted(
                f"{topic.name}-{p.partition_index}={p.committed_offset}{' ' + p.metadata if p.metadata else ''}"
                for topic in group.topics
                for p in topic.partitions
            )
            return " ".join(found) or "nothing"

        self._send("admin", request, int(options.get("version", 9)), describe)

    def _admin_forgets(self, words: list[str], _options: dict[str, str]) -> None:
        group, *partitions = words
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=where.topic, partitions=[OffsetDeleteRequestPartition(partition_index=where.partition)]
                )
                for where in map(partition, partitions)
            ],
        )
        self._send("admin", request, 0, lambda r: error_code(r.error_code).name if r.error_code else _per_partition(r))

    # Administration

    def _admin_describes(self, words: list[str], options: dict[str, str]) -> None:
        def describe(response: Any) -> str:
            (group,) = response.groups
            if group.error_code:
                return f"{group.group_state} {error_code(group.error_code).name}"
            members = [
                f"{self._name(m.member_id)}{'/' + m.group_instance_id if m.group_instance_id else ''}"
                f"{'=' + assigned(m.member_assignment) if m.member_assignment else ''}"
                for m in group.members
            ]
            return " ".join(filter(None, [group.group_state, group.protocol_type, group.protocol_data, *members]))

        self._send("admin", DescribeGroupsRequest(groups=[words[0]]), int(options.get("version", 6)), describe)

    def _admin_lists(self, _words: list[str], options: dict[str, str]) -> None:
        request = ListGroupsRequest(
            states_filter=[options["state"]] if "state" in options else [],
            types_filter=[options["type"]] if "type" in options else [],
        )

        def describe(response: Any) -> str:
            return " ".join(sorted(f"{g.group_id}:{g.group_state}" for g in response.groups)) or "nothing"

        self._send("admin", request, 5, describe)

    def _admin_deletes(self, words: list[str], _options: dict[str, str]) -> None:
        request = DeleteGroupsRequest(groups_names=words)
        self._send("admin", request, 3, lambda r: " ".join(error_code(one.error_code).name for one in r.results))


def _split(words: list[str]) -> tuple[list[str], dict[str, str]]:
    plain = [word for word in words if "=" not in word]
    return plain, dict(word.split("=", 1) for word in words if "=" in word)


def _per_partition(response: Any) -> str:
    codes = [error_code(p.error_code).name for topic in response.topics for p in topic.partitions]
    return codes[0] if len(set(codes)) == 1 else " ".join(codes)
