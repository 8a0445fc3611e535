"""UnregisterBroker (key 64): take a broker out of the cluster."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, field
from pybroker.protocol.wire import Int16, Int32


class UnregisterBrokerRequest(Request, api_key=ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+"):
    """The broker."""

    broker_id: Int32 = field()


class UnregisterBrokerResponse(Response, api_key=ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+"):
    """The result."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
