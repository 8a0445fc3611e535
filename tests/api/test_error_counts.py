"""Which codes of a response count: the same natively and in Python."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.api.error_counts import error_codes, native_reader, places_of, pure_reader
from pybroker.protocol.messages import MESSAGES, message_classes
from pybroker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pybroker.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from pybroker.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from pybroker.protocol.schema import schema_of
from testing.scenes.messages import full, messages

RESPONSES = [message_classes(key)[1] for key in MESSAGES]


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


@pytest.mark.skipif(find_spec("pybroker.protocol._codec_native") is None, reason="the extension was not built")
@pytest.mark.parametrize("cls", RESPONSES)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_both_readers_find_the_same(cls: type[Any], data: st.DataObject) -> None:
    version = schema_of(cls).versions.highest
    places = places_of(cls)
    message = data.draw(st.just(full(cls, version)) | st.just(cls()) | messages(cls, version))
    assert sorted(native_reader(places)(message)) == sorted(pure_reader(places)(message))


@pytest.mark.skipif(find_spec("pybroker.protocol._codec_native") is None, reason="the extension was not built")
def test_another_class_is_refused() -> None:
    with pytest.raises(TypeError, match="FetchResponse in place of ProduceResponse"):
        native_reader(places_of(ProduceResponse))(FetchResponse())
