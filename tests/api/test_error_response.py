"""An error that a handler raises fits into a response of every version of every API that the codec knows, and is counted."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.api.error_counts import error_codes
from pybroker.api.error_response import error_response
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import encode_response, request_class, response_class
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages import MESSAGES, alter_client_quotas, fetch, produce
from pybroker.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from pybroker.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, PartitionResult, TopicPartitions
from pybroker.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from pybroker.protocol.messages.leave_group import LeaveGroupResponse, MemberResponse
from pybroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from pybroker.protocol.messages.produce import ProduceRequest
from testing.scenes.messages import full

CODE = ErrorCode.NOT_CONTROLLER
ERROR = KafkaError(CODE, "why")
NO_PLACE = {(ApiKey.DESCRIBE_LOG_DIRS, version) for version in (0, 1, 2)}


@pytest.mark.parametrize("key", sorted(MESSAGES), ids=lambda key: ApiKey(key).name)
def test_every_api_can_report_an_error_in_every_version(key: int) -> None:
    versions = MESSAGES[key].versions
    for version in range(versions.lowest, versions.highest + 1):
        response = error_response(full(request_class(key), version), response_class(key), version, ERROR)
        assert type(response) is response_class(key)
        assert encode_response(response, version, 1)
        codes = set(error_codes(response)) - {ErrorCode.NONE}  # which Fetch has for itself before v7
        assert codes == {CODE} or (key, version) in NO_PLACE


def test_what_expects_no_response_gets_none() -> None:
    assert error_response(ProduceRequest(acks=0), response_class(ApiKey.PRODUCE), 9, ERROR) is None


def test_partitions_of_old_and_of_new_requests_have_the_error() -> None:
    asked = fetch.FetchRequest(topics=[fetch.FetchTopic(topic="t", partitions=[fetch.FetchPartition(partition=3)])])
    found = fetch.PartitionData(partition_index=3, error_code=CODE, high_watermark=-1, records=b"")
    topic = fetch.FetchableTopicResponse(topic="t", partitions=[found])
    assert error_response(asked, fetch.FetchResponse, 6, ERROR) == fetch.FetchResponse(responses=[topic])
    asked.session_id = 9
    assert error_response(asked, fetch.FetchResponse, 7, ERROR) == fetch.FetchResponse(error_code=CODE, session_id=9)
    data = produce.TopicProduceData(name="t", partition_data=[produce.PartitionProduceData(index=3)])
    result = produce.PartitionProduceResponse(index=3, error_code=CODE, base_offset=-1, error_message="why")
    responses = [produce.TopicProduceResponse(name="t", partition_responses=[result])]
    assert error_response(ProduceRequest(acks=1, topic_data=[data]), produce.ProduceResponse, 9, ERROR) == (
        produce.ProduceResponse(responses=responses)
    )


def test_the_response_names_what_was_asked() -> None:
    offsets = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[3])])
    partition = OffsetFetchResponsePartition(partition_index=3, committed_offset=-1, error_code=CODE)
    topic = OffsetFetchResponseTopic(name="t", partitions=[partition])
    assert error_response(offsets, OffsetFetchResponse, 1, ERROR) == OffsetFetchResponse(topics=[topic])
    assert error_response(offsets, OffsetFetchResponse, 7, ERROR) == OffsetFetchResponse(error_code=CODE)
    group = OffsetFetchRequestGroup(group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[3])])
    assert error_response(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, 8, ERROR) == OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup(group_id="g", error_code=CODE)]
    )
    coordinator = Coordinator(key="k", node_id=-1, port=-1, error_code=CODE, error_message="why")
    assert error_response(
        FindCoordinatorRequest(coordinator_keys=["k"]), FindCoordinatorResponse, 6, ERROR
    ) == FindCoordinatorResponse(coordinators=[coordinator])
    election = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[5])])
    response = error_response(election, ElectLeadersResponse, 0, ERROR)
    assert isinstance(response, ElectLeadersResponse)
    result = PartitionResult(partition_id=5, error_code=CODE, error_message="why")
    assert response.replica_election_results[0].partition_result == [result]
    quota = alter_client_quotas.EntityData(entity_type="user", entity_name=None)
    asked = alter_client_quotas.AlterClientQuotasRequest(entries=[alter_client_quotas.EntryData(entity=[quota])])
    entry = alter_client_quotas.ResponseEntryData(error_code=CODE, error_message="why", entity=[quota])
    wanted = alter_client_quotas.AlterClientQuotasResponse(entries=[entry])
    assert error_response(asked, type(wanted), 1, ERROR) == wanted


def test_a_request_for_everything_gets_a_response_without_elements() -> None:
    assert error_response(ElectLeadersRequest(topic_partitions=None), ElectLeadersResponse, 0, ERROR) == ElectLeadersResponse()
    assert error_response(DescribeGroupsRequest(), DescribeGroupsResponse, 0, ERROR) == DescribeGroupsResponse()


def test_the_code_of_a_whole_response_counts_when_it_means_more_than_its_elements() -> None:
    members = [MemberResponse(error_code=0), MemberResponse(error_code=25)]
    assert error_codes(LeaveGroupResponse(members=members)) == [0, 25]
    assert error_codes(LeaveGroupResponse(members=members, error_code=16)) == [0, 25, 16]
    assert error_codes(LeaveGroupResponse()) == [0]
    assert error_codes(DescribeGroupsResponse()) == []


def test_a_message_that_only_repeats_the_code_is_left_out_where_kafka_leaves_it_out() -> None:
    key = ApiKey.DESCRIBE_CLIENT_QUOTAS
    for error, message in ((KafkaError(CODE), None), (ERROR, "why")):
        response: Any = error_response(full(request_class(key), 1), response_class(key), 1, error)
        assert (response.error_code, response.error_message) == (CODE, message)
    found: Any = error_response(FindCoordinatorRequest(coordinator_keys=["k"]), FindCoordinatorResponse, 4, KafkaError(CODE))
    assert found.coordinators[0].error_message == CODE.message
