"""Shows the records and batches of a topic, and writes records."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

from pybroker.admin import records, returned, window
from pybroker.admin.body import checked, schema_of
from pybroker.admin.calls import BAD_REQUEST, AdminError
from pybroker.admin.route import CREATED, Route
from pybroker.admin.shapes import of_batch, of_seen
from pybroker.admin.texts import SCHEMA, bytes_of
from pybroker.admin.topics import leaders_of
from pybroker.client.partitioner import partition_of
from pybroker.clock import SystemClock
from pybroker.model import Offset
from pybroker.records.batch import Record

if TYPE_CHECKING:
    from pybroker.admin.calls import Call, Json
    from pybroker.admin.subject import Subject

LIMIT: Final = 100
LIMIT_MAX: Final = 1_000
WAIT_MS_MAX: Final = 30_000
BYTES: Final = 65_536
BYTES_MAX: Final = 16 << 20
NUMBER_MAX: Final = 2**63 - 1

HEADER: Final = schema_of(("name", "value"), name={"type": "string"}, value=SCHEMA)
RECORD: Final = schema_of(
    (),
    key=SCHEMA,
    value=SCHEMA,
    headers={"type": "array", "items": HEADER},
    partition={
        "type": "integer",
        "minimum": 0,
        "description": "Left out: by the hash of the key, as Kafka's clients do.",
    },
    timestamp_ms={"type": "integer", "minimum": 0},
)
NEW: Final = schema_of(("records",), records={"type": "array", "items": RECORD, "minItems": 1})


async def list_records(subject: Subject, call: Call) -> Json:
    """Return some records of a topic, by their timestamps, and from where on to read the next ones."""
    limit = call.number("limit", default=LIMIT, most=LIMIT_MAX)
    bytes_max = call.number("bytes", default=BYTES, most=BYTES_MAX)
    partition = call.number("partition", default=0, most=NUMBER_MAX) if "partition" in call.query else None
    steps = window.window(
        call.names["topic"],
        _begin(call, limit=limit, partition=partition),
        partition=partition,
        limit=limit,
        wait_ms=call.number("wait_ms", default=0, most=WAIT_MS_MAX),
        committed=call.query.get("committed", "false") == "true",
    )
    found = await subject.carry_out(steps)
    return {
        "records": [of_seen(one, bytes_max) for one in found.records],
        "next": ",".join(f"{partition}:{offset}" for partition, offset in sorted(found.positions.items())),
        "left": sum(max(0, found.ends[partition] - offset) for partition, offset in found.positions.items()),
    }


async def list_batches(subject: Subject, call: Call) -> Json:
    """Return some batches of a partition as they lie in the log."""
    partition = call.number("partition", default=0, most=NUMBER_MAX)
    offset = call.number("offset", default=0, most=NUMBER_MAX)
    limit = call.number("limit", default=LIMIT, most=LIMIT_MAX)
    found = await subject.carry_out(window.batches(call.names["topic"], partition, offset=offset, limit=limit))
    return {"batches": [of_batch(one) for one in found]}


async def write_records(subject: Subject, call: Call) -> Json:
    """Write records, acknowledged by all replicas in sync, and return where they are."""
    given = checked(call.body, NEW)["records"]
    if not given:
        raise AdminError(BAD_REQUEST, "records needs at least one record")
    topic = await subject.carry_out(leaders_of(call.names["topic"]))
    count = len(topic.partitions)
    fallback, now_ms = random.randrange(count), SystemClock().time_ms()  # noqa: S311  (spreading, not secrecy)
    by_partition: dict[int, list[int]] = {}
    made = []
    for number, one in enumerate(given):
        record = _record(one, now_ms)
        by_key = fallback if record.key is None else partition_of(record.key, count)
        by_partition.setdefault(one.get("partition", by_key), []).append(number)
        made.append(record)
    places: dict[int, Json] = {}
    for partition, numbers in sorted(by_partition.items()):
        batch = [made[number]._replace(offset=Offset(place)) for place, number in enumerate(numbers)]
        base_offset = await subject.carry_out(records.append(topic, partition, batch))
        places |= {number: {"partition": partition, "offset": base_offset + place} for place, number in enumerate(numbers)}
    return {"records": [places[number] for number in range(len(given))]}


def _begin(call: Call, *, limit: int, partition: int | None) -> window.From:
    """Return where the records begin. Raises AdminError."""
    chosen = [name for name in ("next", "offset", "timestamp_ms", "from") if name in call.query]
    if len(chosen) > 1:
        raise AdminError(BAD_REQUEST, f"{chosen[0]} and {chosen[1]} exclude each other")
    if "next" in chosen:
        return window.From(positions=_positions(call.query["next"]))
    if "offset" in chosen:
        if partition is None:
            raise AdminError(BAD_REQUEST, "offset needs partition")
        return window.From(positions={partition: call.number("offset", default=0, most=NUMBER_MAX)})
    if "timestamp_ms" in chosen:
        return window.From(timestamp_ms=call.number("timestamp_ms", default=0, most=NUMBER_MAX))
    place = call.query.get("from", "last")
    if place not in ("start", "last", "end"):
        raise AdminError(BAD_REQUEST, f"from={place}: it must be start, last or end")
    return window.From(last={"start": None, "last": limit, "end": 0}[place])


def _positions(text: str) -> dict[int, int]:
    pairs = [one.split(":") for one in text.split(",")]
    if not all(len(one) == 2 and all(part.isascii() and part.isdecimal() for part in one) for one in pairs):
        raise AdminError(BAD_REQUEST, f"next={text}: it must be what a response has there, such as 0:17,1:20")
    return {int(partition): int(offset) for partition, offset in pairs}


def _record(given: dict[str, Any], now_ms: int) -> Record:
    headers = tuple((one["name"], bytes_of(one["value"], one["name"])) for one in given.get("headers", ()))
    timestamp_ms = given.get("timestamp_ms", now_ms)
    return Record(Offset(0), timestamp_ms, bytes_of(given.get("key"), "key"), bytes_of(given.get("value"), "value"), headers)


_NO_TOPIC: Final = {404: "There is no such topic, or no such partition."}

ROUTES: Final = (
    Route(
        "GET",
        "/v1/topics/{topic}/records",
        list_records,
        "Records by their timestamps, the last ones unless something else is asked for.",
        returned.RECORDS,
        query={
            "partition": "Of this partition.",
            "from": "start, last or end.",
            "offset": "From this offset of the partition on.",
            "timestamp_ms": "From the first record of each partition on that is not before this time.",
            "next": "From where an earlier response ended.",
            "limit": f"At most this many, {LIMIT} by default, {LIMIT_MAX} at most.",
            "bytes": f"Of each key, value and header at most this many bytes, {BYTES} by default.",
            "wait_ms": f"If there is none, wait so long for one, at most {WAIT_MS_MAX}; only if one broker leads all partitions.",
            "committed": "true: no records of transactions that are open or aborted.",
        },
        errors={400: "A parameter cannot be.", **_NO_TOPIC},
    ),
    Route(
        "POST",
        "/v1/topics/{topic}/records",
        write_records,
        "Write records, one batch for each partition.",
        returned.PLACES,
        body=NEW,
        errors={400: "A record cannot be.", **_NO_TOPIC},
        status=CREATED,
    ),
    Route(
        "GET",
        "/v1/topics/{topic}/batches",
        list_batches,
        "Batches of a partition as they lie in the log.",
        returned.BATCHES,
        query={
            "partition": "The partition, 0 by default.",
            "offset": "From the batch with this offset on, the first one by default.",
            "limit": f"At most this many, {LIMIT} by default, {LIMIT_MAX} at most.",
        },
        errors={400: "A parameter cannot be.", **_NO_TOPIC},
    ),
)
