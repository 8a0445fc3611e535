"""The partitions of a cluster as its brokers report them: each has one fault, or none."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pybroker.client.connection import Connection
from pybroker.client.errors import ClosedError
from pybroker.doctor.findings import Partitions
from pybroker.doctor.health import partitions_of
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from pybroker.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

MIN_ISR = {"a": "2", "strict": "3"}


class Settings:
    """A connection to a broker that describes topics; it is closed where `is_closed`."""

    def __init__(self, *, is_closed: bool = False) -> None:
        self.is_closed, self.asked = is_closed, list[str]()

    def call(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        self.asked += [one.resource_name for one in request.resources]
        if self.is_closed:
            raise ClosedError("closed")
        return DescribeConfigsResponse(results=[self._result(one.resource_name) for one in request.resources])

    @staticmethod
    def _result(topic: str) -> DescribeConfigsResult:
        result = DescribeConfigsResult(resource_type=2, resource_name=topic)
        if topic in MIN_ISR:
            result.configs = [DescribeConfigsResourceResult(name="min.insync.replicas", value=MIN_ISR[topic])]
        else:
            result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return result


def metadata(**topics: list[tuple[int, list[int], list[int]]]) -> MetadataResponse:
    """Return the response of brokers 1 and 2; a partition is its leader, its replicas and those in sync."""
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=number, host="h", port=number) for number in (1, 2)],
        topics=[
            MetadataResponseTopic(
                name=name,
                partitions=[
                    MetadataResponsePartition(partition_index=number, leader_id=leader, replica_nodes=replicas, isr_nodes=isr)
                    for number, (leader, replicas, isr) in enumerate(partitions)
                ],
            )
            for name, partitions in topics.items()
        ],
    )


def found(settings: Settings, **topics: list[tuple[int, list[int], list[int]]]) -> Partitions:
    return partitions_of(metadata(**topics), cast("Connection", cast("Any", settings)))


def test_a_cluster_without_faults_is_not_asked_for_settings() -> None:
    settings = Settings()
    assert found(settings, a=[(1, [1, 2], [1, 2]), (2, [2], [2])]) == Partitions(count=2)
    assert settings.asked == []


def test_each_fault_is_found() -> None:
    settings = Settings()
    whole = found(
        settings,
        strict=[(1, [1, 2], [1]), (1, [1, 2, 3], [1, 2])],
        a=[(-1, [4], [4]), (3, [3], [3]), (1, [1, 2, 3], [1, 2]), (2, [2, 3], [2]), (-1, [3, 4], [4])],
        hidden=[(1, [1, 2], [1])],
    )
    assert whole == Partitions(
        count=8,
        without_leader=(TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("a", 4)),
        under_min_isr=(TopicPartition("a", 3), TopicPartition("strict", 0), TopicPartition("strict", 1)),
        under_replicated=tuple(
            TopicPartition(topic, number)
            for topic, number in (("a", 2), ("a", 3), ("a", 4), ("hidden", 0), ("strict", 0), ("strict", 1))
        ),
        missing=(3, 4),  # type: ignore[arg-type]
    )
    assert settings.asked == ["a", "hidden", "strict"]


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_broker_that_does_not_describe_topics_hides_only_what_needs_it(is_closed: bool) -> None:
    whole = found(Settings(is_closed=is_closed), a=[(2, [2, 3], [2])])
    short = (TopicPartition("a", 0),)
    assert (whole.under_replicated, whole.under_min_isr) == (short, () if is_closed else short)
