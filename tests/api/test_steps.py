"""Requests with very many elements are handled in short steps, and what they were is freed in steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from pybroker.api.produce_layout import ProduceLayout
from pybroker.api.produce_response import failures
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from testing.steps import steps_of

if TYPE_CHECKING:
    from pybroker.metadata.image import ClusterImage

MANY = 5_000


def test_the_failures_of_many_topics_are_found_and_a_layout_is_freed_in_steps() -> None:
    laid_out = ProduceLayout()
    partitions = [PartitionProduceData(index=0, records=None)]
    topics = [TopicProduceData(name=f"t{number}", partition_data=[*partitions]) for number in range(MANY)]
    request, image = ProduceRequest(topic_data=topics), SimpleNamespace(topics_by_id={})
    steps, _ = steps_of(laid_out.steps(cast("ClusterImage", image), request, has_topic_ids=False))
    assert steps >= MANY // 500
    steps, failed = steps_of(failures(laid_out.topics, laid_out.refused))
    assert steps >= MANY // 500
    assert [one.topic for one, _ in failed] == [topic.name for topic in topics]
    steps, _ = steps_of(laid_out._refuse_all())
    assert steps >= MANY // 500
    assert len(laid_out.refused) == MANY
    steps, _ = steps_of(laid_out.discard({}))
    assert steps >= 2 * MANY // 1_000
    assert (laid_out.refused, laid_out.topics) == ({}, [])
