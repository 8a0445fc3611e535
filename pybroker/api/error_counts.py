"""The error codes that a response says, for counting them.

Source: AbstractResponse.errorCounts of each response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    create_topics,
    delete_topics,
    describe_topic_partitions,
    fetch,
    list_offsets,
    metadata,
    produce,
)


def error_codes(response: Any) -> Sequence[int]:
    """Every code in `response`, NONE (0) included, one for each thing that can fail by itself."""
    codes = _CODES.get(type(response))
    return (response.error_code,) if codes is None else codes(response)


ERROR_NAMES: Final[dict[int, str]] = {int(code): code.name for code in ErrorCode}


_CODES: Final[dict[type, Callable[[Any], Sequence[int]]]] = {
    produce.ProduceResponse: lambda r: [p.error_code for t in r.responses for p in t.partition_responses],
    fetch.FetchResponse: lambda r: [r.error_code, *(p.error_code for t in r.responses for p in t.partitions)],
    list_offsets.ListOffsetsResponse: lambda r: [p.error_code for t in r.topics for p in t.partitions],
    metadata.MetadataResponse: lambda r: [t.error_code for t in r.topics],
    create_topics.CreateTopicsResponse: lambda r: [t.error_code for t in r.topics],
    delete_topics.DeleteTopicsResponse: lambda r: [t.error_code for t in r.responses],
    describe_topic_partitions.DescribeTopicPartitionsResponse: lambda r: [t.error_code for t in r.topics],
}
