"""ListPartitionReassignments (key 46), v0: which partitions are being moved to other brokers.

Behaviour
    No partition ever is: see AlterPartitionReassignments. Topics that do not exist are left out, as in Kafka, so the response is
    empty for every request.
Versions
    Only one.
Not done
    Moves between brokers.
Source: ReplicationControlManager.listPartitionReassignments; KIP-455.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services


def handle(
    broker: Services,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    request: ListPartitionReassignmentsRequest,  # noqa: ARG001
) -> ListPartitionReassignmentsResponse:
    """Respond that no partition is being moved."""
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=[])
