"""The requests of jobs to a cluster, with made-up responses of the client."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from pybroker.model import Offset
from pybroker.spark import cluster as module
from pybroker.spark.cluster import Cluster, Extent
from pybroker.spark.errors import PipelineError


class Admin:
    """A client that responds with each partition's errors, one after the other, and then with the partition's number."""

    def __init__(self, errors: dict[int, list[int]]) -> None:
        self.errors = errors
        self.asked: list[list[int]] = []

    def list_offsets(self, wanted: Mapping[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        self.asked.append([partition.partition for partition in wanted])
        responses: dict[TopicPartition, Future[Any]] = {}
        for partition in wanted:
            future: Future[Any] = Future()
            responses[partition] = future
            left = self.errors.get(partition.partition)
            if left:
                future.set_exception(KafkaException(KafkaError(left.pop(0))))
            else:
                future.set_result(SimpleNamespace(offset=partition.partition))
        return responses


def cluster_of(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(confluent_kafka.admin, "AdminClient", lambda *_, **__: admin)
    monkeypatch.setattr(module, "_LEADER_PAUSE_S", 0.0)
    return Cluster("nowhere:1")


def test_partitions_without_a_leader_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin({1: [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE]})
    assert cluster_of(admin, monkeypatch).extents({"t": 3}) == {("t", n): Extent(Offset(n), Offset(n)) for n in range(3)}
    assert admin.asked == [[0, 1, 2], [1], [1], [0, 1, 2]]


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.NOT_LEADER_FOR_PARTITION])
def test_other_errors_and_too_many_are_one_line(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESPONSE_TIMEOUT_S", 0.0)
    with pytest.raises(PipelineError, match=r"^cannot list the offsets at nowhere:1: "):
        cluster_of(Admin({0: [code] * 100}), monkeypatch).extents({"t": 1})
