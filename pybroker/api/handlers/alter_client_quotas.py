"""AlterClientQuotas (key 49), v0-1: set and remove quotas.

Behaviour
    The changes that make sense are made in one commit, and are in force on this broker when it responds; on the others, when
    their watch of the metadata store has the commit. A quota that is removed and does not exist is no error.
Versions
    v1 flexible.
Not done
    Quotas of a host's name: an address is an IP.
Source: ControllerApis.handleAlterClientQuotas, ClientQuotaControlManager; KIP-546.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.metadata.quota_changes import QuotaChange, alter_quotas
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.alter_client_quotas import AlterClientQuotasResponse, ResponseEntryData

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData


async def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: AlterClientQuotasRequest,
) -> AlterClientQuotasResponse:
    """Make the changes, then respond."""
    changes = list(map(_change_of, request.entries))
    errors = await alter_quotas(broker.controller, changes, validate_only=request.validate_only)
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(error_code=ErrorCode.NONE, error_message=None, entity=entry.entity)
            if error is None
            else ResponseEntryData(error_code=error.code, error_message=error.message, entity=entry.entity)
            for entry, error in zip(request.entries, errors, strict=True)
        ]
    )


def _change_of(entry: EntryData) -> QuotaChange:
    return QuotaChange(
        [(part.entity_type, part.entity_name) for part in entry.entity],
        [(op.key, None if op.remove else op.value) for op in entry.ops],
    )
