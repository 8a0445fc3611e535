"""CreatePartitions (key 37), v0-3: let topics have more partitions.

Behaviour
    The broker responds when the logs of the new partitions exist and their leaders know them (`new_partitions`). Each topic grows
    or is refused as a whole, and all that grow do so together. INVALID_PARTITIONS unless the number grows. A name that the
    request has twice is INVALID_REQUEST, once in the response. More than 10,000 new partitions in one request are
    POLICY_VIOLATION.
Versions
    v1 throttle time. v2 flexible.
Not done
    Nothing.
Source: ControllerApis.createPartitions, ReplicationControlManager.createPartitions; KIP-195.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pybroker.api.new_partitions import leaders_know
from pybroker.metadata.more_partitions import MorePartitions
from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services


async def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse:
    """Add the partitions that can be added, then respond."""
    counts = Counter(topic.name for topic in request.topics)
    wanted = [_more_partitions(topic) for topic in request.topics if counts[topic.name] == 1]
    errors = await broker.controller.create_partitions(wanted, validate_only=request.validate_only)
    if not request.validate_only:
        topics = broker.controller.image.topics
        grown = [topics[one.name] for one, error in zip(wanted, errors, strict=True) if error is None and one.name in topics]
        await leaders_know(broker, grown, request.timeout_ms)
    duplicate = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results = [_result(name, duplicate) for name, count in counts.items() if count > 1]
    results += [_result(one.name, error) for one, error in zip(wanted, errors, strict=True)]
    return CreatePartitionsResponse(results=results)


def _more_partitions(topic: CreatePartitionsTopic) -> MorePartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = [tuple(map(BrokerId, one.broker_ids)) for one in topic.assignments]
    return MorePartitions(name=topic.name, count=topic.count, assignments=assignments)


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NONE)
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)
