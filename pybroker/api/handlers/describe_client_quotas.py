"""DescribeClientQuotas (key 48), v0-1: the quotas of users, clients and addresses.

Behaviour
    The entities that have every part which the filter wants; `strict` wants them to have no other part.
Versions
    v1 flexible.
Not done
    Nothing.
Source: KafkaApis.handleDescribeClientQuotas, ClientQuotasImage.describe; KIP-546.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.alter_client_quotas import EntityData
from pybroker.protocol.messages.describe_client_quotas import DescribeClientQuotasResponse, EntryData, ValueData
from pybroker.security.quotas.entity import IP, TYPES
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Mapping, Sequence

    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
    from pybroker.security.quotas.quotas import Quotas
    from pybroker.sharing.work import Pausing

_EXACT, _DEFAULT, _SPECIFIED = range(3)
_NAMES: Final = {_EXACT: "EXACT", _DEFAULT: "DEFAULT", _SPECIFIED: "SPECIFIED"}


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse | Future[DescribeClientQuotasResponse]:
    """Respond from the image of the cluster."""
    wanted = _wanted(request.components)
    return in_slices(_describe(broker.controller.image.quotas, wanted, is_strict=request.strict))


def _wanted(components: Sequence[ComponentData]) -> dict[str, set[str | None] | None]:
    """Return the names that each part may have; None for any. Raises KafkaError."""
    wanted: dict[str, set[str | None] | None] = {}
    for component in components:
        kind, how, match = component.entity_type, component.match_type, component.match
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in wanted:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if how not in _NAMES:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {how}")
        if (how == _EXACT) != (match is not None):
            reason = "but set match string to null." if match is None else "but also specified a match string."
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Request specified MATCH_TYPE_{_NAMES[how]}, {reason}")
        wanted[kind] = None if how == _SPECIFIED else {match}
    if IP in wanted and len(wanted) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component.",
        )
    return wanted


def _describe(
    quotas: Quotas, wanted: Mapping[str, set[str | None] | None], *, is_strict: bool
) -> Pausing[DescribeClientQuotasResponse]:
    entries = []
    for entity, values in quotas.by_entity.items():
        yield
        parts = dict(entity)
        if is_strict and len(parts) != len(wanted):
            continue
        if all(kind in parts and (names is None or parts[kind] in names) for kind, names in wanted.items()):
            entries.append(
                EntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
                )
            )
    return DescribeClientQuotasResponse(error_code=ErrorCode.NONE, entries=entries)
