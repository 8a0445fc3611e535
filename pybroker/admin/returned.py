"""The schemas of what the API returns, for the OpenAPI document: those of `shapes`, and of the verbs that need no shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.admin.body import schema_of
from pybroker.admin.texts import SCHEMA as BYTES

if TYPE_CHECKING:
    from pybroker.admin.calls import Json

TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "integer"}
FLAG: Final = {"type": "boolean"}
TEXT_OR_NULL: Final = {"type": ["string", "null"]}
NUMBER_OR_NULL: Final = {"type": ["integer", "null"]}


def exactly(**properties: Json) -> Json:
    """Return the schema of an object that has all of these fields, and no others."""
    return schema_of(tuple(properties), **properties)


def list_of(items: Json) -> Json:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def by_name(values: Json) -> Json:
    """Return the schema of an object whose fields may have any name."""
    return {"type": "object", "additionalProperties": values}


STATUS: Final = exactly(status=TEXT)
PARTITION: Final = exactly(topic=TEXT, partition=NUMBER)

_PARTITION_OF_TOPIC: Final = exactly(
    index=NUMBER,
    start=NUMBER,
    end=NUMBER,
    stable=NUMBER,
    size_bytes={**NUMBER_OR_NULL, "description": "null: the user may not know it."},
    leader={**NUMBER, "description": "-1: there is none."},
    replicas=list_of(NUMBER),
    isr=list_of(NUMBER),
)
_OF_TOPIC: Final[Json] = {
    "name": TEXT,
    "topic_id": TEXT,
    "is_internal": FLAG,
    "record_count": NUMBER,
    "size_bytes": NUMBER_OR_NULL,
    "partitions": list_of(_PARTITION_OF_TOPIC),
}
_SETTING: Final = exactly(name=TEXT, value=TEXT_OR_NULL, source=TEXT, is_read_only=FLAG, text=TEXT)
TOPICS: Final = exactly(topics=list_of(exactly(**_OF_TOPIC)))
TOPIC: Final = exactly(**_OF_TOPIC, settings=list_of(_SETTING))
TOPIC_NAME: Final = exactly(name=TEXT)
STARTS: Final = exactly(starts={**by_name(NUMBER), "description": "By partition."})

_OF_GROUP: Final[Json] = {
    "group_id": TEXT,
    "kind": TEXT,
    "state": TEXT,
    "lag": {**NUMBER_OR_NULL, "description": "Of all partitions for which it has committed; null: it has committed nothing."},
}
_MEMBER: Final = exactly(member_id=TEXT, instance_id=TEXT_OR_NULL, client_id=TEXT, host=TEXT, assigned=list_of(PARTITION))
_COMMITTED: Final = exactly(topic=TEXT, partition=NUMBER, offset=NUMBER, end=NUMBER, lag=NUMBER, metadata=TEXT)
GROUP: Final = exactly(**_OF_GROUP, members=list_of(_MEMBER), offsets=list_of(_COMMITTED))
_SHORT: Final = exactly(**_OF_GROUP, member_count=NUMBER, topics=list_of(exactly(topic=TEXT, lag=NUMBER)))
GROUPS: Final = exactly(groups=list_of({"anyOf": [GROUP, _SHORT]}))
GROUP_ID: Final = exactly(group_id=TEXT)
OFFSETS: Final = exactly(topic=TEXT, offsets={**by_name(NUMBER), "description": "By partition."})

TRANSACTION: Final = exactly(
    transactional_id=TEXT,
    state=TEXT,
    is_open=FLAG,
    producer_id=NUMBER,
    producer_epoch=NUMBER,
    timeout_ms=NUMBER,
    partitions=list_of(PARTITION),
)
TRANSACTIONS: Final = exactly(transactions=list_of(TRANSACTION))

_RECORD: Final = exactly(
    partition=NUMBER,
    offset=NUMBER,
    timestamp_ms=NUMBER,
    key=BYTES,
    value=BYTES,
    headers=list_of(exactly(name=TEXT, value=BYTES)),
    size_bytes=NUMBER,
)
RECORDS: Final = exactly(
    records=list_of(_RECORD),
    next={**TEXT, "description": "The parameter next of the request that reads on."},
    left={**NUMBER, "description": "The offsets from there to the ends."},
)
PLACES: Final = exactly(records=list_of(exactly(partition=NUMBER, offset=NUMBER)))
_BATCH: Final = exactly(
    base_offset=NUMBER,
    last_offset=NUMBER,
    record_count=NUMBER,
    size_bytes=NUMBER,
    magic=NUMBER,
    codec=TEXT,
    timestamp_type=TEXT,
    max_timestamp_ms=NUMBER,
    leader_epoch=NUMBER,
    producer_id=NUMBER,
    producer_epoch=NUMBER,
    base_sequence=NUMBER,
    is_transactional=FLAG,
    is_control=FLAG,
    crc=NUMBER,
    is_valid=FLAG,
)
BATCHES: Final = exactly(batches=list_of(_BATCH))

_LISTENER: Final = exactly(name=TEXT, security_protocol=TEXT, address=TEXT, advertised=TEXT_OR_NULL)
_BROKER: Final = exactly(
    listeners=list_of(_LISTENER),
    connections=NUMBER,
    muted_connections=NUMBER,
    request_bytes=NUMBER,
    request_bytes_max=NUMBER_OR_NULL,
    queued_requests=NUMBER,
)
CLUSTER: Final = exactly(
    version=TEXT,
    node_id=NUMBER,
    cluster_id=TEXT_OR_NULL,
    controller_id=NUMBER,
    brokers=list_of(exactly(node_id=NUMBER, host=TEXT, port=NUMBER, rack=TEXT_OR_NULL)),
    topic_count=NUMBER,
    partition_count=NUMBER,
    under_replicated_count=NUMBER,
    offline_count=NUMBER,
    broker={**_BROKER, "description": "The broker that responds."},
)
_CLIENT: Final = exactly(
    client_id=TEXT,
    software_name=TEXT,
    software_version=TEXT,
    host=TEXT,
    connections=NUMBER,
    connections_made=NUMBER,
    first_seen_ms=NUMBER,
    last_seen_ms=NUMBER,
    bytes_in=NUMBER,
    bytes_out=NUMBER,
    requests={**by_name(by_name(NUMBER)), "description": "By API and version."},
    up_converted_requests=NUMBER,
    down_converted_records=NUMBER,
    refused_by_kafka_4=list_of(TEXT),
)
CLIENTS: Final = exactly(clients=list_of(_CLIENT))
_REQUEST: Final = exactly(
    api=TEXT,
    version=NUMBER,
    client_id=TEXT,
    connection=NUMBER,
    topics=list_of(TEXT),
    partitions=list_of(PARTITION),
    groups=list_of(TEXT),
    transactional_ids=list_of(TEXT),
)
REQUESTS: Final = exactly(count=NUMBER, requests=list_of(_REQUEST))
CLOCK: Final = exactly(time_ms=NUMBER, is_virtual=FLAG, offsets_ms=by_name(NUMBER))
