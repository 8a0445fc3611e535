"""The verbs of kafka-topics that change topics or print more than their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pybroker.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pybroker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest
from pybroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from pybroker.protocol.messages.metadata import MetadataRequest
from pybroker.tools.admin import Admin, RefusedError, check, shown_id
from pybroker.tools.configs_admin import TOPIC, configs_of
from pybroker.tools.kafka_errors import TOPIC_ALREADY_EXISTS, exception_of
from pybroker.tools.topics import REPORTS, TopicError, listed, wanted

if TYPE_CHECKING:
    from pybroker.tools.options import Options
    from pybroker.tools.target import Target

TIMEOUT_MS: Final = 30_000
DEFAULT_CONFIG: Final = 5
COLLISION: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)


def run(target: Target, options: Options) -> None:
    """Run the verb that was given. Raises TopicError, ClientError and CommandError."""
    verb = next(verb for verb in (_create, _alter, _delete, _describe) if options.has(verb.__name__[1:]))
    try:
        verb(target, options)
    except RefusedError as error:
        raise TopicError(str(error), exception_of(error.code)) from error


# --- create ---


def _create(target: Target, options: Options) -> None:
    topic = options.value("topic") or ""
    partitions, replication = options.number("partitions"), options.number("replication-factor")
    assigned = assignment(options.value("replica-assignment") or "")
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in new_configs(options.values("config")).items()]
    if "." in topic or "_" in topic:
        print(COLLISION)
    if replication is not None and not 0 < replication < 32768:
        raise TopicError("The replication factor must be between 1 and 32767 inclusive")
    if partitions is not None and partitions < 1:
        raise TopicError("The partitions must be greater than 0")
    creatable = CreatableTopic(
        name=topic,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if replication is None else replication,
        assignments=[CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(assigned)],
        configs=configs,
    )
    with Admin(target) as admin:
        (made,) = admin.ask(CreateTopicsRequest(topics=[creatable], timeout_ms=TIMEOUT_MS, validate_only=False), 7).topics
    if made.error_code == TOPIC_ALREADY_EXISTS and options.has("if-not-exists"):
        return
    check(made.error_code, made.error_message)
    print(f"Created topic {topic}.")


def assignment(text: str) -> list[list[int]]:
    """Return the brokers of each partition out of `1:2,2:1`. Raises TopicError."""
    if not text:
        return []
    try:
        partitions = [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError as error:
        raise TopicError(f"--replica-assignment {text}: {error}") from None
    for index, brokers in enumerate(partitions):
        twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if twice:
            raise TopicError(f"Partition replica lists may not contain duplicate entries: {','.join(map(str, twice))}")
        if len(brokers) != len(partitions[0]):
            raise TopicError(f"Partition {index} has different replication factor: {brokers}")
    return partitions


def new_configs(given: Sequence[str]) -> dict[str, str]:
    """Parse the settings of --config. Raises TopicError."""
    configs = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not value.strip() or "=" in value:
            raise TopicError('requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".')
        configs[name.strip()] = value.strip()
    return configs


# --- alter and delete ---


def _found(target: Target, options: Options) -> list[str]:
    """Return the topics that the options mean. Raises TopicError where there is none, unless that is allowed."""
    names = listed(target, options)
    expression = options.value("topic")
    if expression and not names and not options.has("if-exists"):
        raise TopicError(f"Topic 'Optional[{expression}]' does not exist as expected")
    return names


def _alter(target: Target, options: Options) -> None:
    count = options.number("partitions") or 0
    assigned = assignment(options.value("replica-assignment") or "")
    names = _found(target, options)
    if not names:
        return
    with Admin(target) as admin:
        held = {topic.name: len(topic.partitions) for topic in _described(admin, names)} if assigned else {}
        topics = [
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=[CreatePartitionsAssignment(broker_ids=ids) for ids in assigned[held[name] :]] if assigned else None,
            )
            for name in names
        ]
        for result in admin.ask(CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=False), 3).results:
            check(result.error_code, result.error_message)


def _delete(target: Target, options: Options) -> None:
    names = _found(target, options)
    if not names:
        return
    with Admin(target) as admin:
        for result in admin.ask(DeleteTopicsRequest(topics=[], topic_names=names, timeout_ms=TIMEOUT_MS), 5).responses:
            check(result.error_code, result.error_message)


# --- describe ---


def _describe(target: Target, options: Options) -> None:
    with Admin(target) as admin:
        names = _of_id(admin, options) if options.has("topic-id") else None
        if names is None:
            names = _found(target, options)
        topics = list(_described(admin, names, options.number("partition-size-limit-per-response") or 2000)) if names else []
        configs = configs_of(admin, TOPIC, names) if names else {}
        live = {broker.node_id for broker in admin.ask(MetadataRequest(topics=[]), 9).brokers}
    for topic in sorted(topics, key=lambda topic: str(topic.name)):
        for line in described(topic, configs[topic.name], options, live):
            print(line)


def _of_id(admin: Admin, options: Options) -> list[str] | None:
    """Return the topic with an id; None when the id is zero, which means no id."""
    wanted_id = options.value("topic-id") or ""
    if wanted_id == shown_id(bytes(16)):
        return None
    topics = admin.ask(MetadataRequest(topics=None), 12).topics
    kept = wanted([(t.name, t.is_internal) for t in topics], None, is_internal_left_out=options.has("exclude-internal"))
    found = [topic.name for topic in topics if shown_id(topic.topic_id) == wanted_id and topic.name in kept]
    if not found and not options.has("if-exists"):
        raise TopicError(f"TopicId '{wanted_id}' does not exist as expected")
    return found


def _described(admin: Admin, names: Sequence[str], limit: int = 2000) -> Iterator[Any]:
    """Yield topics with all their partitions, which come in pages. Raises RefusedError."""
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in sorted(names)], response_partition_limit=limit
    )
    begun: Any = None
    while True:
        response = admin.ask(request, 0)
        for topic in response.topics:
            check(topic.error_code)
            if begun is not None and begun.name == topic.name:
                begun.partitions.extend(topic.partitions)
                continue
            if begun is not None:
                yield begun
            begun = topic
        if response.next_cursor is None:
            break
        request.cursor = response.next_cursor
        request.topics = [one for one in request.topics if one.name >= response.next_cursor.topic_name]
    if begun is not None:
        yield begun


def described(topic: Any, configs: Sequence[Any], options: Options, live: set[int]) -> Iterator[str]:
    """Yield the lines of one topic."""
    changed = [f"{config.name}={config.value}" for config in configs if config.config_source != DEFAULT_CONFIG]
    partitions = sorted(topic.partitions, key=lambda partition: int(partition.partition_index))
    is_report = options.has(*REPORTS)
    is_overrides = options.has("topics-with-overrides")
    if not is_report and (changed or not is_overrides):
        yield (
            f"Topic: {topic.name}\tTopicId: {shown_id(topic.topic_id)}\tPartitionCount: {len(partitions)}"
            f"\tReplicationFactor: {len(partitions[0].replica_nodes)}\tConfigs: {','.join(changed)}"
        )
    if is_overrides:
        return
    isr_min = next((int(config.value) for config in configs if config.name == "min.insync.replicas"), 1)
    for partition in partitions:
        if not is_report or _is_reported(partition, options, isr_min, live):
            yield _partition_line(topic.name, partition)


def _is_reported(partition: Any, options: Options, isr_min: int, live: set[int]) -> bool:
    has_leader, in_sync = partition.leader_id >= 0, len(partition.isr_nodes)
    return (
        (options.has("under-replicated-partitions") and len(partition.replica_nodes) > in_sync)
        or (options.has("unavailable-partitions") and (not has_leader or partition.leader_id not in live))
        or (options.has("under-min-isr-partitions") and (not has_leader or in_sync < isr_min))
        or (options.has("at-min-isr-partitions") and in_sync == isr_min)
    )


def _partition_line(topic: str, partition: Any) -> str:
    leader = partition.leader_id if partition.leader_id >= 0 else "none"
    return (
        f"\tTopic: {topic}\tPartition: {partition.partition_index}\tLeader: {leader}"
        f"\tReplicas: {_ids(partition.replica_nodes)}\tIsr: {_ids(partition.isr_nodes)}"
        f"\tElr: {_ids(partition.eligible_leader_replicas)}\tLastKnownElr: {_ids(partition.last_known_elr)}"
    )


def _ids(brokers: Sequence[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))
