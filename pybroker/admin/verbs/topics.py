"""Shows topics, makes and removes them, and changes their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.admin import returned, settings, sizes, topic_changes, topics
from pybroker.admin.body import checked, schema_of
from pybroker.admin.route import CREATED, Route
from pybroker.admin.shapes import of_topic
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pybroker.admin.calls import Call, Json
    from pybroker.admin.subject import Subject

VALUE: Final = {"type": ["string", "integer", "boolean", "null"], "description": "null: the value of the broker."}
SETTINGS: Final = {"type": "object", "additionalProperties": VALUE}
COUNT: Final = {"type": "integer", "minimum": 1}
NEW: Final = schema_of(("name",), name={"type": "string"}, partitions=COUNT, replication_factor=COUNT, settings=SETTINGS)
CHANGES: Final = schema_of((), partitions=COUNT, settings=SETTINGS)
BEFORE: Final = schema_of((), partition={"type": "integer", "minimum": 0}, before={"type": "integer", "minimum": 0})


async def list_topics(subject: Subject, _call: Call) -> Json:
    """Return all topics with their partitions and sizes."""
    found = await subject.carry_out(topics.topics())
    known = await subject.carry_out(sizes.sizes())
    return {"topics": [of_topic(one, known) for one in found.values()]}


async def create_topic(subject: Subject, call: Call) -> Json:
    """Create a topic, and return its name when clients can use it."""
    body = checked(call.body, NEW)
    given = {key: value for key, value in body.get("settings", {}).items() if value is not None}
    steps = topics.create_topic(
        body["name"],
        body.get("partitions", -1),
        replication_factor=body.get("replication_factor", -1),
        settings=given,
    )
    await subject.carry_out(steps)
    return {"name": body["name"]}


async def show_topic(subject: Subject, call: Call) -> Json:
    """Return a topic with its settings."""
    name = call.names["topic"]
    found = (await subject.carry_out(topics.topics([name]))).get(name)
    if found is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    known = await subject.carry_out(sizes.sizes(name))
    listed = await subject.carry_out(settings.settings_of_topic(name))
    return {**of_topic(found, known), "settings": [one._asdict() for one in listed]}


async def change_topic(subject: Subject, call: Call) -> Json:
    """Give a topic other settings, and more partitions; return it."""
    body, name = checked(call.body, CHANGES), call.names["topic"]
    if given := body.get("settings"):
        changes = {key: None if value is None else topics.text_of(value) for key, value in given.items()}
        await subject.carry_out(settings.alter_topic(name, changes))
    if (count := body.get("partitions")) is not None:
        await subject.carry_out(topic_changes.enlarge(name, count))
    return await show_topic(subject, call)


async def delete_topic(subject: Subject, call: Call) -> Json:
    """Delete a topic."""
    await subject.carry_out(topics.delete_topics([call.names["topic"]]))
    return {"name": call.names["topic"]}


async def delete_records(subject: Subject, call: Call) -> Json:
    """Remove records from the beginning of partitions, and return where these begin now."""
    body = checked(call.body, BEFORE)
    partition, before = body.get("partition"), body.get("before", topic_changes.END)
    wanted = None if partition is None else {partition: before}
    starts = await subject.carry_out(topic_changes.delete_records(call.names["topic"], wanted))
    return {"starts": {str(index): start for index, start in sorted(starts.items())}}


_NO_TOPIC: Final = {404: "There is no such topic."}

ROUTES: Final = (
    Route("GET", "/v1/topics", list_topics, "All topics with their partitions and sizes.", returned.TOPICS),
    Route(
        "POST",
        "/v1/topics",
        create_topic,
        "Create a topic; the response comes when clients can use it.",
        returned.TOPIC_NAME,
        body=NEW,
        errors={400: "The name or a setting cannot be.", 409: "There is such a topic already."},
        status=CREATED,
    ),
    Route("GET", "/v1/topics/{topic}", show_topic, "A topic with its partitions and settings.", returned.TOPIC, errors=_NO_TOPIC),
    Route(
        "PATCH",
        "/v1/topics/{topic}",
        change_topic,
        "Give a topic other settings, or more partitions.",
        returned.TOPIC,
        body=CHANGES,
        errors={400: "A setting or the number of partitions cannot be.", **_NO_TOPIC},
    ),
    Route("DELETE", "/v1/topics/{topic}", delete_topic, "Delete a topic.", returned.TOPIC_NAME, errors=_NO_TOPIC),
    Route(
        "POST",
        "/v1/topics/{topic}/delete-records",
        delete_records,
        "Remove all records, or those of a partition, or those of a partition before an offset.",
        returned.STARTS,
        body=BEFORE,
        errors={400: "The offset is not in the partition.", **_NO_TOPIC},
    ),
)
