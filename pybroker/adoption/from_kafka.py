"""Plans the adoption of a whole data directory of Apache Kafka: what its metadata has, held against what its directories have.

Where a directory has KRaft's metadata, the plan takes topics, their ids, their partitions and all settings from it, and the
directories must agree. Without it (a Kafka with ZooKeeper, or a lost metadata file of ours) `adoption` makes the topics of the
directories' names, and settings come from the administrator's file.

What the plan refuses, unless `is_partial`
    a partition that the metadata places on other brokers as well, or that is in no directory; gaps in the partition numbers
What the plan refuses always
    a topic all of whose logs have another topic id
What no topic takes, as with Kafka: the start keeps it aside as a stray, and a note names it
    a log of another topic id than its topic's, of a number that the topic does not have, or of a name that is no topic's
What the plan does not take over, and names in a note
    settings that this broker does not have or accept, settings of brokers, quotas, credentials, access control entries and tokens
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pybroker.adoption import kafka_lockout
from pybroker.adoption.lost_metadata import (
    COMPACT,
    NO_HOLDING,
    NOT_NEW,
    AdoptionError,
    adopt,
    convert_old_formats,
    holds_logs,
    missing_numbers,
    survey,
    topic_image,
    topics_of,
)
from pybroker.broker.old_data import was_given_back
from pybroker.config.dynamic import check_client_metrics_configs
from pybroker.config.group_configs import check_group_configs
from pybroker.config.setting import ConfigError
from pybroker.config.topic import TopicConfig
from pybroker.listed import listed
from pybroker.metadata.entries import CLUSTER_ID_KEY, LEFT_PREFIX, TOPIC_PREFIX, configs_key, decode_topic, encode_configs
from pybroker.metadata.image import CLIENT_METRICS_KIND, GROUP_KIND, ConfigResource
from pybroker.metadata.internal_topics import automatic_topic
from pybroker.metadata.kraft.cluster_records import is_own_setting
from pybroker.metadata.kraft.reading import METADATA_DIRECTORY, DamagedMetadataError, has_metadata, metadata_records
from pybroker.metadata.kraft.state import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    KraftState,
    state_of,
)
from pybroker.metadata.names import is_internal
from pybroker.model import ProducerId, TopicId, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pybroker.adoption.lost_metadata import Holding, Survey
    from pybroker.config.broker import BrokerConfig
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.metadata.image import TopicImage
    from pybroker.metadata.kraft.state import KraftTopic
    from pybroker.metadata.store.base import Listing, Store

RESERVED_DIRECTORY_ID_MAX: Final = (99).to_bytes(16, "big")
"""The largest id that Kafka uses for what is no directory: unassigned, lost, migrating (DirectoryId.reserved)."""
_NAMES_OF_DEFAULTS: Final = ("cleanup.policy", "retention.ms", "retention.bytes", "segment.bytes", "max.message.bytes")


@dataclass(slots=True, kw_only=True)
class Plan:
    """The changes of an adoption. `others` are entries of the store that are no topics; a note is one line for a person."""

    topics: list[TopicImage] = field(default_factory=list)
    others: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    has_kraft: bool = False


@dataclass(slots=True, kw_only=True)
class Adoption:
    """The findings of `prepare`. `plan` is None if the directories are this broker's and only formats are converted."""

    found: Survey
    plan: Plan | None
    directories: Sequence[LogDirectory] = ()
    """Those that a Kafka could start with, until `carry_out`."""

    @property
    def notes(self) -> list[str]:
        """Lines about what the plan does not take over, and about what becomes of Kafka's metadata."""
        return [*(self.plan.notes if self.plan is not None else ()), *map(kafka_lockout.note, self.directories)]

    @property
    def old_files(self) -> list[str]:
        """The paths of the files that are converted."""
        return [f"{one.directory}/{name}" for one in self.found.old_formats for name in one.names]


async def prepare(
    store: Store,
    config: BrokerConfig,
    directories: Sequence[LogDirectory],
    configs: Mapping[str, Mapping[str, str]],
    *,
    is_partial: bool,
) -> Adoption:
    """Return what the adoption of the locked `directories` does, and change nothing. Raises AdoptionError, OSError."""
    if all(one.properties is None for one in directories) and not any(holds_logs(one) for one in directories):
        raise AdoptionError(
            f"{', '.join(config.log_dirs)}: no log directory of Kafka: neither meta.properties nor a log is there"
        )
    is_ours = await store.get(CLUSTER_ID_KEY) is not None
    found = survey(directories)
    open_to_kafka = [one for one in directories if kafka_lockout.is_open(one)]
    if is_ours and not found.old_formats and not open_to_kafka:
        raise AdoptionError(NOT_NEW)
    if is_ours:
        return Adoption(found=found, plan=None, directories=open_to_kafka)
    if await was_given_back(store):
        found.was_used_here = False  # the metadata is what `pybroker leave` wrote and Kafka continued
    state = read_kraft(directories, was_clean=found.is_clean)
    left = left_settings(await store.list(LEFT_PREFIX))
    plan = plan_of(found, state, config, configs, left, is_partial=is_partial)
    return Adoption(found=found, plan=plan, directories=open_to_kafka)


async def carry_out(store: Store, config: BrokerConfig, adoption: Adoption) -> None:
    """Do what `prepare` returned: convert the files, commit, and lock Kafka out. Raises AdoptionError, OSError, StoreError."""
    convert_old_formats(adoption.found)
    if adoption.plan is not None:
        await adopt(store, config, adoption.found, adoption.plan.topics, adoption.plan.others)
    kafka_lockout.lock_out(adoption.directories)


def left_settings(listing: Listing) -> dict[TopicId, dict[str, str]]:
    """Return the settings that Kafka does not have, of topics that this broker once gave back. Raises StoreError."""
    found = {}
    for key, value, revision in listing.entries:
        if key.startswith(LEFT_PREFIX + TOPIC_PREFIX):
            topic = decode_topic(key.removeprefix(LEFT_PREFIX + TOPIC_PREFIX), value, revision)
            found[topic.topic_id] = {name: text for name, text in topic.configs.items() if is_own_setting(TOPIC_RESOURCE, name)}
    return found


def read_kraft(directories: Sequence[LogDirectory], *, was_clean: bool) -> KraftState | None:
    """Return what KRaft's metadata in one of the directories amounts to; None if no directory has it.

    Raises AdoptionError if it is damaged, or lies in two of them; OSError.
    """
    paths = [
        (one.filesystem, f"{one.path}/{METADATA_DIRECTORY}") for one in directories if has_metadata(one.filesystem, one.path)
    ]
    if not paths:
        return None
    if len(paths) > 1:
        raise AdoptionError(f"Kafka's metadata lies in {' and in '.join(path for _, path in paths)}: which one counts is unknown")
    filesystem, path = paths[0]
    try:
        return state_of(metadata_records(filesystem, path, was_clean=was_clean))
    except DamagedMetadataError as error:
        raise AdoptionError(
            f"{error}. Put {METADATA_DIRECTORY} back from a copy; if there is none, move it out of the log directory, and give "
            "the topics' settings with --configs"
        ) from error


def plan_of(
    found: Survey,
    state: KraftState | None,
    config: BrokerConfig,
    configs: Mapping[str, Mapping[str, str]],
    left: Mapping[TopicId, Mapping[str, str]] = MappingProxyType({}),
    *,
    is_partial: bool,
) -> Plan:
    """Return the plan; `configs`, settings by topic, win over the metadata's, which win over `left`. Raises AdoptionError."""
    plan = Plan(has_kraft=state is not None)
    if state is None:
        _refuse_lost_settings(found, configs)
        topics = topics_of(found, config, {}, are_gaps_allowed=is_partial, gaps_option="--partial")
    else:
        _refuse_outdated_settings(found, state, configs)
        epochs = [part.leader_epoch for topic in state.topics.values() for part in topic.partitions.values()]
        found.largest_epoch = max([found.largest_epoch, *epochs])
        found.largest_producer_id = ProducerId(max(found.largest_producer_id, state.next_producer_id - 1))
        topics = _topics_of_kraft(plan, found, state, config, is_partial=is_partial)
        _plan_others(plan, state, config)
    unknown = sorted(configs.keys() - {topic.name for topic in topics})
    if unknown:
        raise AdoptionError(f"The file of settings names {listed(unknown)}, which the directories do not have")
    for topic in topics:
        is_outdated = state is not None and found.was_used_here and topic.name in configs
        own = {} if is_outdated else {**left.get(topic.topic_id, {}), **topic.configs}
        accepted = _accepted(plan, config, topic.name, {**own, **configs.get(topic.name, {})})
        _keep_compacted(plan, found, config, topic=topic.name, accepted=accepted, given=configs.get(topic.name, {}))
        number = len(topic.partitions)
        plan.topics.append(topic_image(found, config, name=topic.name, topic_id=topic.topic_id, count=number, configs=accepted))
    _note_open_transactions(plan, found)
    return plan


def _refuse_lost_settings(found: Survey, configs: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse directories of KRaft without their metadata: retention by default settings would delete what Kafka kept."""
    has_ids = any(holding.ids for holding in found.topics.values())
    if has_ids and not found.is_of_zookeeper and not found.was_used_here and not configs:
        raise AdoptionError(
            f"The topics' settings are not in these directories: {METADATA_DIRECTORY} lies elsewhere. Name its directory "
            "(metadata.log.dir of Kafka) too, or give the settings with --configs"
        )


def _refuse_outdated_settings(found: Survey, state: KraftState, configs: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse Kafka's metadata from before this broker used the directories: by its settings, retention would delete records."""
    unsettled = [name for name in sorted(found.topics) if name not in configs and not is_internal(name)]
    if found.was_used_here and state.topics and unsettled:
        raise AdoptionError(
            f"Kafka's metadata is older than what this broker did with the directories, so the settings of {listed(unsettled)} "
            "are unknown: give the settings of every topic with --configs ({} in JSON for a topic that has none)"
        )


def _keep_compacted(
    plan: Plan, found: Survey, config: BrokerConfig, *, topic: str, accepted: dict[str, str], given: Mapping[str, str]
) -> None:
    """Set `cleanup.policy=compact` for a topic that this broker has compacted, unless the administrator gave the policy."""
    is_compacted = found.was_used_here and found.topics.get(topic, NO_HOLDING).is_compacted
    if is_compacted and "cleanup.policy" not in given and COMPACT not in TopicConfig.resolve(config, accepted).cleanup_policy:
        accepted["cleanup.policy"] = COMPACT
        plan.notes.append(
            f"{topic}: cleanup.policy=compact, because the cleaner has worked on it; --configs can name another policy"
        )


def defaults_line(config: BrokerConfig, topics: Sequence[TopicImage]) -> str:
    """Return the line that names the settings of topics that have none of their own."""
    resolved = TopicConfig.resolve(config, {})
    values = {name: getattr(resolved, name.replace(".", "_")) for name in _NAMES_OF_DEFAULTS}
    values["cleanup.policy"] = ",".join(sorted(resolved.cleanup_policy))
    shown = " ".join(f"{name}={value}" for name, value in values.items())
    without = [topic.name for topic in topics if not topic.configs]
    of = f"; all of them for {listed(without)}" if without else ""
    return f"Settings that a topic does not have come from this broker's configuration: {shown}{of}"


# --- topics of KRaft's metadata ---


def _topics_of_kraft(plan: Plan, found: Survey, state: KraftState, config: BrokerConfig, *, is_partial: bool) -> list[TopicImage]:
    topics = []
    elsewhere: list[str] = []
    missing: list[str] = []
    strays: list[str] = []
    for topic in sorted(state.topics.values(), key=lambda one: one.name):
        holding = found.topics.get(topic.name, NO_HOLDING)
        if not holding.numbers and found.was_used_here:
            plan.notes.append(
                f"{topic.name} is in Kafka's metadata alone: it was deleted after this broker took over, and is left out"
            )
            continue
        topic_id = _id_of_kraft(topic, holding, found)
        present = holding.partitions_of(topic_id)
        count = max([*topic.partitions, *(present if found.was_used_here else ())], default=-1) + 1
        elsewhere += [
            f"{topic.name}-{number} (replicas {','.join(map(str, part.replicas))})"
            for number, part in sorted(topic.partitions.items())
            if part.replicas != (config.node_id,)
        ]
        missing += [
            f"{topic.name}-{number}{_place(found, topic, number)}" for number in missing_numbers(topic.name, present, count)
        ]
        strays += holding.strays_of(topic.name, topic_id, count)
        configs = _configs_of(state, topic, config)
        topics.append(topic_image(found, config, name=topic.name, topic_id=topic_id, count=count, configs=configs))
    _refuse(plan, elsewhere, "have replicas on other brokers", is_partial=is_partial)
    _refuse(plan, missing, "are in no directory: is a disk not mounted, or is this one broker of several?", is_partial=is_partial)
    if strays:
        plan.notes.append(f"{listed(strays)} belong to no partition of Kafka's metadata: the start keeps them aside, as -stray")
    return sorted([*topics, *_topics_of_names(plan, found, state, config, is_partial=is_partial)], key=lambda one: one.name)


def _id_of_kraft(topic: KraftTopic, holding: Holding, found: Survey) -> TopicId:
    """Return the id of the topic's logs: that of the metadata, or another if this broker has made the topic again."""
    if not holding.ids or topic.topic_id in holding.ids:
        return topic.topic_id
    other = holding.ids.most_common(1)[0][0]
    if not found.was_used_here:
        raise AdoptionError(
            f"{topic.name} has the topic id {topic_id_text(topic.topic_id)} in Kafka's metadata, and {topic_id_text(other)} in "
            "its directories: the metadata does not belong to these logs"
        )
    return other


def _place(found: Survey, topic: KraftTopic, number: int) -> str:
    """Return which log directory Kafka's metadata places a partition in, if that directory is not among the named ones."""
    known = {one.directory_id for one in found.known}
    part = topic.partitions.get(number)
    places = [one for one in part.directories if one > RESERVED_DIRECTORY_ID_MAX] if part is not None else []
    absent = [topic_id_text(TopicId(one)) for one in places if topic_id_text(TopicId(one)) not in known]
    return f" (of the log directory with directory.id={absent[0]})" if absent else ""


def _topics_of_names(plan: Plan, found: Survey, state: KraftState, config: BrokerConfig, *, is_partial: bool) -> list[TopicImage]:
    """Return the topics that Kafka's metadata does not have and this broker may have made. Kafka's own strays are none."""
    others = {name: holding for name, holding in found.topics.items() if state.topic_named(name) is None}
    if not others:
        return []
    if not found.was_used_here:
        plan.notes.append(
            f"Kafka's metadata does not have {listed(sorted(others))}: no topic is made, and the start keeps the logs aside, "
            "as -stray"
        )
        return []
    topics = topics_of(replace(found, topics=others), config, {}, are_gaps_allowed=is_partial, gaps_option="--partial")
    plan.notes.append(
        f"Kafka's metadata does not have {listed(sorted(others))}: kept with default settings; delete what is not wanted"
    )
    return topics


def _configs_of(state: KraftState, topic: KraftTopic, config: BrokerConfig) -> dict[str, str]:
    automatic = {name: value for name, value in automatic_topic(topic.name, config).configs.items() if value is not None}
    return automatic | state.configs.get((TOPIC_RESOURCE, topic.name), {})


def _refuse(plan: Plan, partitions: Sequence[str], reason: str, *, is_partial: bool) -> None:
    if not partitions:
        return
    text = f"{listed(partitions)} {reason}"
    if not is_partial:
        raise AdoptionError(f"{text}. With --partial this broker becomes their only replica, and what is not here is made empty")
    plan.notes.append(f"{text}; this broker becomes their only replica, and what is not here is made empty")


# --- settings ---


def _accepted(plan: Plan, config: BrokerConfig, topic: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that this broker has and accepts; the others become notes."""
    accepted: dict[str, str] = {}
    for name, value in sorted(wanted.items()):
        try:
            TopicConfig.resolve(config, {name: value})
        except ConfigError as error:
            plan.notes.append(f"{topic}: a setting is not taken over: {error}")
        else:
            accepted[name] = value
    try:
        TopicConfig.resolve(config, accepted)
    except ConfigError as error:  # two settings that contradict each other
        raise AdoptionError(f"{topic}: the settings do not fit together: {error}") from error
    return accepted


def _plan_others(plan: Plan, state: KraftState, config: BrokerConfig) -> None:
    for (resource, name), values in sorted(state.configs.items()):
        if not values or resource == TOPIC_RESOURCE:
            continue
        shown = " ".join(f"{key}={value}" for key, value in sorted(values.items()))
        try:
            if resource == GROUP_RESOURCE:
                check_group_configs(config, values)
                plan.others[configs_key(ConfigResource(GROUP_KIND, name))] = encode_configs(values)
            elif resource == CLIENT_METRICS_RESOURCE:
                check_client_metrics_configs(values)
                plan.others[configs_key(ConfigResource(CLIENT_METRICS_KIND, name))] = encode_configs(values)
            elif resource == BROKER_RESOURCE:
                plan.notes.append(
                    f"Settings of {f'broker {name}' if name else 'all brokers'} are not taken over: {', '.join(sorted(values))}; "
                    "put those that you need into the configuration of this broker's start"
                )
        except ConfigError as error:
            plan.notes.append(f"Settings of {name} are not taken over: {shown}: {error}")
    plan.notes += [f"{count} {kind} in Kafka's metadata are not taken over" for kind, count in sorted(state.not_carried.items())]


def _note_open_transactions(plan: Plan, found: Survey) -> None:
    for partition, producer_id, first_offset in sorted(found.open_transactions):
        plan.notes.append(f"{partition}: the transaction of producer {producer_id} from offset {first_offset} on has no end")
    if found.open_transactions:
        plan.notes.append(
            "The coordinator of this broker aborts an open transaction that Kafka's __transaction_state has, when its timeout is "
            "over. Until a transaction has an end, consumers with read_committed wait at its first record"
        )
