"""DescribeClientQuotas (key 48), v0-1: the quotas of users, clients and addresses.

Behaviour
    There are no quotas (`api/absent_features.py` has why none can be set), so the response is empty for every filter.
Versions
    v1 flexible.
Not done
    Quotas. Kafka refuses a filter with an unknown type of entity, or with one that is named twice.
Source: KafkaApis.handleDescribeClientQuotas, ClientQuotasImage.describe; KIP-546.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services


def handle(
    broker: Services,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    request: DescribeClientQuotasRequest,  # noqa: ARG001
) -> DescribeClientQuotasResponse:
    """Respond that there are no quotas."""
    return DescribeClientQuotasResponse(error_code=ErrorCode.NONE, entries=[])
