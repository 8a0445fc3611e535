"""The steps of members of KIP-848 groups in stories:

alice enters g [topics=t,u] [regex=R] [instance=i] [assignor=range] [rebalance=30s] [as=ID] [version=1]
alice reports [owns=t-0,t-1] [owns=none] [epoch=7] [topics=t,u] [as=ID]     a heartbeat; without `owns` it has nothing of that
alice quits [awhile]
admin inspects g [version=1]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pybroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from testing.error_codes import error_code
from testing.scenes.api.whole import Whole


def shown(whole: Whole, topics: Any) -> str:
    """Return partitions that are listed by topic id as text: `t-0,1 u-0`."""
    names = {bytes(topic.topic_id): topic.name for topic in whole.controller.image.topics.values()}
    parts = [f"{names.get(bytes(topic.topic_id), 'gone')}-{','.join(map(str, topic.partitions))}" for topic in topics]
    return " ".join(sorted(parts)) or "nothing"


def owned(whole: Whole, text: str) -> list[TopicPartitions]:
    if text == "none":
        return []
    found: dict[str, list[int]] = {}
    for one in text.split(","):
        topic, _, number = one.rpartition("-")
        found.setdefault(topic, []).append(int(number))
    topics = whole.controller.image.topics
    return [TopicPartitions(topic_id=topics[name].topic_id, partitions=numbers) for name, numbers in found.items()]


class ConsumerStory:
    """The part of `Story` that knows members of KIP-848 groups."""

    whole: Whole | None
    _names: dict[str, str]
    _send: Callable[..., None]
    _name: Callable[[str], str]

    def _enters(self, client: Any, words: list[str], options: dict[str, str]) -> None:
        client.group, client.instance = words[0], options.get("instance", client.instance)
        client.member_id = options.get("as", client.member_id or client.name)
        self._names[client.member_id] = client.name
        topics = options.get("topics")
        request = ConsumerGroupHeartbeatRequest(
            group_id=client.group,
            member_id=client.member_id,
            member_epoch=0,
            instance_id=client.instance,
            rebalance_timeout_ms=int(options.get("rebalance", "30s").removesuffix("s")) * 1000,
            subscribed_topic_names=None if topics is None else topics.split(","),
            subscribed_topic_regex=options.get("regex"),
            server_assignor=options.get("assignor"),
            topic_partitions=[],
        )
        self._heartbeat(client, request, int(options.get("version", 1)))

    def _reports(self, client: Any, _words: list[str], options: dict[str, str]) -> None:
        assert self.whole is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=client.group,
            member_id=options.get("as", client.member_id),
            member_epoch=int(options.get("epoch", client.generation)),
            instance_id=client.instance,
            subscribed_topic_names=options["topics"].split(",") if "topics" in options else None,
            topic_partitions=owned(self.whole, options["owns"]) if "owns" in options else None,
        )
        self._heartbeat(client, request, 1)

    def _quits(self, client: Any, words: list[str], _options: dict[str, str]) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=client.group,
            member_id=client.member_id,
            member_epoch=-2 if "awhile" in words else -1,
            instance_id=client.instance,
        )
        self._heartbeat(client, request, 1)

    def _heartbeat(self, client: Any, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        whole = self.whole
        assert whole is not None

        def describe(response: Any) -> str:
            if response.error_code:
                return error_code(response.error_code).name
            client.generation = response.member_epoch
            self._names[response.member_id] = client.name
            client.member_id = response.member_id
            given = response.assignment
            has = "" if given is None else f", has {shown(whole, given.topic_partitions)}"
            return f"epoch {response.member_epoch}{has}"

        self._send(client.name, request, version, describe)

    def _admin_inspects(self, words: list[str], options: dict[str, str]) -> None:
        whole = self.whole
        assert whole is not None

        def describe(response: Any) -> str:
            (group,) = response.groups
            if group.error_code:
                return error_code(group.error_code).name
            members = [
                f"{'classic ' if m.member_type == 0 else ''}"
                f"{self._name(m.member_id)}{'/' + m.instance_id if m.instance_id else ''} in {m.member_epoch}"
                f" has {shown(whole, m.assignment.topic_partitions)},"
                f" shall have {shown(whole, m.target_assignment.topic_partitions)}"
                for m in group.members
            ]
            epochs = f"epoch {group.group_epoch}, target {group.assignment_epoch}"
            return "; ".join([f"{group.group_state} {group.assignor_name} {epochs}", *members])

        self._send("admin", ConsumerGroupDescribeRequest(group_ids=words), int(options.get("version", 1)), describe)
