"""The error codes of a response that count, as the declarations of its messages define them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.api.error_counts import ALWAYS, Places, error_codes, places_of
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.messages import MESSAGES, message_classes
from pybroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from pybroker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pybroker.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from pybroker.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from pybroker.protocol.schema import schema_of
from testing.scenes.messages import full, messages

RESPONSES = [message_classes(key)[1] for key in MESSAGES if key != ApiKey.ADD_PARTITIONS_TO_TXN]


def test_fetch_counts_its_own_code_always() -> None:
    partitions = [PartitionData(error_code=3), PartitionData()]
    assert sorted(error_codes(FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)]))) == [0, 0, 3]
    assert list(error_codes(FetchResponse(error_code=70))) == [70]


def test_metadata_counts_topics_only() -> None:
    topic = MetadataResponseTopic(error_code=5, partitions=[MetadataResponsePartition(error_code=9)])
    assert list(error_codes(MetadataResponse(topics=[topic]))) == [5]


def test_produce_counts_partitions() -> None:
    partitions = [PartitionProduceResponse(error_code=2), PartitionProduceResponse()]
    assert list(error_codes(ProduceResponse(responses=[TopicProduceResponse(partition_responses=partitions)]))) == [2, 0]
    assert list(error_codes(ProduceResponse())) == []


def test_add_partitions_counts_the_partitions_by_the_name_that_their_field_has() -> None:
    partitions = [AddPartitionsToTxnPartitionResult(partition_error_code=code) for code in (0, 48)]
    topics = [AddPartitionsToTxnTopicResult(results_by_partition=partitions)]
    assert list(error_codes(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics))) == [0, 48]
    transactions = [AddPartitionsToTxnResult(topic_results=topics)]
    assert list(error_codes(AddPartitionsToTxnResponse(results_by_transaction=transactions))) == [0, 48]
    assert list(error_codes(AddPartitionsToTxnResponse(error_code=31))) == [31]


def codes_of(message: Any, places: Places) -> list[int]:
    """Return the codes by the rule, without the loops that are generated for a class."""
    codes = [code for name, inner in places.inner for one in getattr(message, name) or () for code in codes_of(one, inner)]
    if places.own and (places.own == ALWAYS or not codes or message.error_code):
        codes.append(message.error_code)
    return codes


@pytest.mark.parametrize("cls", RESPONSES)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_every_response_is_read_by_the_rule(cls: type[Any], data: st.DataObject) -> None:
    version = schema_of(cls).versions.highest
    message = data.draw(st.just(full(cls, version)) | st.just(cls()) | messages(cls, version))  # type: ignore[arg-type]  # mypy: a class is not hashable
    assert list(error_codes(message)) == codes_of(message, places_of(cls))
