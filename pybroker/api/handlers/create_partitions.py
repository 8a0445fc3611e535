"""CreatePartitions (key 37), v0-3: let topics have more partitions.

Behaviour
    The broker responds when the logs of the new partitions exist, so the request's timeout never passes. Each topic grows or is
    refused as a whole, and all that grow do so in one step. INVALID_PARTITIONS unless the number grows. A name that the request
    has twice is INVALID_REQUEST, once in the response. More than 10,000 new partitions in one request are POLICY_VIOLATION.
Versions
    v1 throttle time. v2 flexible.
Not done
    Quotas of v3 (KIP-599).
Source: ControllerApis.createPartitions, ReplicationControlManager.createPartitions; KIP-195.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.wanted_topics import apart, assignments_of, replicas_of
from pybroker.metadata.more_partitions import MorePartitions
from pybroker.metadata.slices import finish, mapped
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from pybroker.slicing import emptied

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pybroker.api.context import RequestContext, Services


async def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse:
    """Add the partitions that can be added, then respond."""
    topics, again = await finish(apart(request.topics))
    wanted = await finish(_more_partitions(topics))
    errors = await broker.controller.create_partitions(wanted, validate_only=request.validate_only)
    results = await mapped(_duplicate, again)
    results += await mapped(lambda one: _result(one[0].name, one[1]), zip(wanted, errors, strict=True))
    await finish(emptied(wanted, count=1))
    return CreatePartitionsResponse(results=results)


def _more_partitions(topics: Sequence[CreatePartitionsTopic]) -> Generator[None, None, list[MorePartitions]]:
    wanted = []
    for topic in topics:
        assignments = None if topic.assignments is None else (yield from assignments_of(topic.assignments, replicas_of))
        wanted.append(MorePartitions(name=topic.name, count=topic.count, assignments=assignments))
        yield
    return wanted


def _duplicate(name: str) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name.")


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NONE)
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)
