"""The changes of partitions that CreateTopics, CreatePartitions and DeleteTopics want, and the topics that must wait.

A topic counts with its partitions, also if its change then fails: a client that sends requests which cannot be made costs the
controller as much.

Source: ControllerApis, ReplicationControlManager, ControllerMutationQuotaManager.newQuotaFor of Kafka; KIP-599.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.api.parts import respond_in_parts
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pybroker.api.context import Services
    from pybroker.api.parts import Divided, Verdict
    from pybroker.security.quotas.usage import Mutations

STRICT_SINCE: Final[Mapping[ApiKey, int]] = {ApiKey.CREATE_TOPICS: 6, ApiKey.CREATE_PARTITIONS: 3, ApiKey.DELETE_TOPICS: 5}
"""The first version of each API whose clients know THROTTLING_QUOTA_EXCEEDED."""

_STATES_VERSION: Final = 6
"""The first version of DeleteTopics that names topics by id, too."""


def respond(request: Divided, broker: Services, message: Any, mutations: Mutations) -> Any:
    """Respond to a request, with an error for each topic that must wait."""
    key, version = request.api.key, request.context.api_version
    is_strict = version >= STRICT_SINCE[key]
    count_of, lists = _counts(key, version, broker)

    def verdict(topic: Any) -> Verdict:
        return None if mutations.may(count_of(topic), is_strict=is_strict) else ErrorCode.THROTTLING_QUOTA_EXCEEDED

    return respond_in_parts(request, message, lists, verdict)


def _counts(key: ApiKey, version: int, broker: Services) -> tuple[Callable[[Any], int], tuple[str, str]]:
    """Return what counts the partitions that one topic of a request changes, and the lists of topics and results."""
    image = broker.controller.image

    def partitions_of(name: str | None, topic_id: Any = None) -> int:
        topic = image.topics_by_id.get(topic_id) if name is None else image.topics.get(name)
        return 0 if topic is None else len(topic.partitions)

    if key == ApiKey.CREATE_TOPICS:
        default = broker.config.num_partitions

        def new_partitions(one: Any) -> int:
            return len(one.assignments) or (default if one.num_partitions < 0 else int(one.num_partitions))

        return new_partitions, ("topics", "topics")
    if key == ApiKey.CREATE_PARTITIONS:
        return lambda one: max(one.count - partitions_of(one.name), 0), ("topics", "results")
    if version < _STATES_VERSION:
        return partitions_of, ("topic_names", "responses")
    return lambda one: partitions_of(one.name, one.topic_id), ("topics", "responses")
