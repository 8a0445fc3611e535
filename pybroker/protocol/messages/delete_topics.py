"""DeleteTopics (key 20): delete topics by name or, from v6, by id."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32, Uuid


class DeleteTopicState(Struct):
    """A topic by name or by id."""

    name: str | None = field("6+", default=None)
    topic_id: Uuid = field("6+")  # zero: by name


class DeleteTopicsRequest(Request, api_key=ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+"):
    """Topics to delete, each on its own."""

    topics: list[DeleteTopicState] = field("6+")
    topic_names: list[str] = field("0-5", ignorable=True)
    timeout_ms: Int32 = field()


class DeletableTopicResult(Struct):
    """The result for one topic."""

    name: str | None = field(nullable="6+")
    topic_id: Uuid = field("6+", ignorable=True)
    error_code: Int16 = field()
    error_message: str | None = field("5+", default=None, ignorable=True)


class DeleteTopicsResponse(Response, api_key=ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+"):
    """One result per topic."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    responses: list[DeletableTopicResult] = field()
