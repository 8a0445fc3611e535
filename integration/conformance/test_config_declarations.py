"""Our table of settings beside Kafka's own definitions: names, types, defaults, what is refused, and with which message.

Kafka 3.9 is the reference; for groups it is 4.3, the first release that has settings of groups. The differences are listed here
with their reasons.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import pytest

from pybroker.config.dynamic import CLIENT_METRICS_CONFIGS, DYNAMIC_ONLY_SETTINGS
from pybroker.config.group_configs import GROUP_CONFIGS
from pybroker.config.sasl_settings import OAUTHBEARER_SETTINGS
from pybroker.config.setting import ConfigError, Setting, Update
from pybroker.config.table import BROKER_SETTINGS, family_of
from pybroker.config.tls_settings import TLS_SETTINGS
from pybroker.config.topic_settings import TOPIC_SETTINGS
from pybroker.config.unread_settings import UNREAD_SETTINGS
from pybroker.metadata.kraft.cluster_records import is_own_setting
from pybroker.metadata.kraft.state import BROKER_RESOURCE, TOPIC_RESOURCE
from testing.places import JAVA_SOURCES
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
)

PROGRAM = JAVA_SOURCES / "ConfigDefinitions.java"
TEXTS = (
    "", "-131073", "-131072", "-3", "-2", "-1", "0", "1", "2", "3", "4", "9", "10", "13", "14", "17", "18", "22", "23", "99",
    "100", "1000", "3600001", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "0.5", "1.5", "2.0",
    "true", "TRUE", "yes", "abc", "delete", "compact", "compact,delete", "compact,shred", "zstd", "rar", "uncompressed",
    "CreateTime", "LogAppendTime", "1:2", "1:2,3:x", "*", "3.0-IV1", "latest", "read_committed",
)  # fmt: skip
"""Texts, each of which every setting gets as its value."""

OF_THE_AUTHORIZER = dict.fromkeys(("super.users", "allow.everyone.if.no.acl.found"), "Kafka's authorizer reads it undefined")
OURS = OF_THE_AUTHORIZER | {
    "cluster.id": "Kafka's is made by a tool before the first start",
    "metadata.store": "our own", "metadata.store.user": "our own", "metadata.store.password": "our own",
    "metadata.store.password.file": "our own", "metadata.store.ssl.ca.file": "our own",
    "metadata.store.ssl.certificate.file": "our own", "metadata.store.ssl.key.file": "our own",
    "log.retention.granularity": "our own",
    "metadata.memory.set.logs.aside": "our own", "metrics.listener": "our own", "pybroker.down.conversion.chunk.bytes": "our own",
    "pybroker.down.conversion.padding": "our own", "pybroker.down.conversion.eager": "our own",
    "pybroker.advertised.by.peer": "our own", "pybroker.advertised.outside": "our own",
    "pybroker.produce.inflation.max": "our own", "pybroker.replication.factor.accept": "our own",
    "pybroker.request.elements.max": "our own", "pybroker.scram.users": "our own",
    "pybroker.fetch.session.cache.partitions": "our own", "pybroker.first.request.timeout.ms": "our own",
    "pybroker.request.progress.timeout.ms": "our own", "pybroker.unsent.response.bytes.max": "our own",
    "pybroker.admin.listener": "our own", "pybroker.admin.requests": "our own", "pybroker.admin.token": "our own",
    "pybroker.as.version": "our own", "pybroker.faults.file": "our own", "pybroker.virtual.time": "our own",
    "pybroker.metrics.groups": "our own", "pybroker.metrics.internal.topics": "our own",
    "pybroker.metrics.token": "our own", "pybroker.metrics.topics": "our own",
}  # fmt: skip
"""Properties of a broker that Kafka does not have."""

OTHER_DEFAULTS = {
    "group.consumer.assignors": "the names as of 4.x, instead of Java's classes",
    "group.consumer.migration.policy": "as 4.x",
    "group.coordinator.rebalance.protocols": "as 4.x: both kinds of groups are served",
    "group.initial.rebalance.delay.ms": "no wait: documented",
    "listener.security.protocol.map": "the same in another order",
    "listeners": "loopback, because a client that reaches the port can do anything: documented",
    "log.dir": "not where a reboot empties it: documented",
    "node.id": "Kafka has none, and does not start without",
    "offsets.topic.replication.factor": "one broker is enough: documented",
    "replica.socket.receive.buffer.bytes": "large batches cost less: documented",
    "socket.listen.backlog.size": "a storm of connects loses none: documented",
    "socket.receive.buffer.bytes": "large requests cost less: documented",
}
OTHER_TYPES = dict.fromkeys(("log.dirs", "controller.listener.names"), "a list that Kafka takes as a text and splits later")

NULL = "an empty text is the null that the default is"
EARLIER = "refused when the table is read, by Kafka when it is used"
LATER = "refused when the controllers are started, by Kafka when the table is read"
_NULL_OF_TLS = tuple(row.name for row in TLS_SETTINGS if row.default is None)
OTHER_CHECKS = {
    **dict.fromkeys(
        ("log.flush.interval.ms", "log.retention.minutes", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms"), NULL
    ),
    **dict.fromkeys(
        ("num.replica.alter.log.dirs.threads", "alter.config.policy.class.name", "create.topic.policy.class.name"), NULL
    ),
    **dict.fromkeys(("ssl.keystore.type", "ssl.truststore.type", "ssl.enabled.protocols", "ssl.protocol"), EARLIER),
    **dict.fromkeys(("ssl.endpoint.identification.algorithm", "ssl.client.auth"), EARLIER),
    **dict.fromkeys(("broker.id", "node.id", "default.replication.factor", "listeners", "log.dir"), EARLIER),
    **dict.fromkeys(("leader.imbalance.per.broker.percentage", "offsets.commit.required.acks"), EARLIER),
    **dict.fromkeys(("offsets.topic.compression.codec", "socket.receive.buffer.bytes", "socket.send.buffer.bytes"), EARLIER),
    **dict.fromkeys(("interval.ms", "match"), EARLIER),  # the settings of client metrics
    **dict.fromkeys(("broker.heartbeat.interval.ms", "broker.session.timeout.ms", "num.replica.fetchers"), EARLIER),
    **dict.fromkeys(("controller.quorum.voters", "controller.quorum.bootstrap.servers"), LATER),
    "authorizer.class.name": "Kafka's own classes, no others",
    "group.consumer.assignors": "the two that there are, no classes",
    "group.consumer.migration.policy": "in our words",
    "group.coordinator.append.linger.ms": "-1 as in 4.x",
    **dict.fromkeys(_NULL_OF_TLS, NULL),
    "group.coordinator.rebalance.protocols": "streams, as in 4.x",
    "share.auto.offset.reset": "in our words",
    **dict.fromkeys(tuple(row.name for row in OAUTHBEARER_SETTINGS if row.default is None), NULL),
    **dict.fromkeys(tuple(row.name for row in OAUTHBEARER_SETTINGS if row.name.endswith(".ms")), EARLIER),
    "sasl.oauthbearer.clock.skew.seconds": "never below 0, which Kafka takes for a smaller time of life",
    "sasl.server.callback.handler.class": NULL,
}


def test_settings_that_kafka_does_not_have_are_not_given_back_to_it() -> None:
    assert {name for name in BROKER_SETTINGS if is_own_setting(BROKER_RESOURCE, name)} == OURS.keys() - OF_THE_AUTHORIZER.keys()
    assert {name for name in TOPIC_SETTINGS if is_own_setting(TOPIC_RESOURCE, name)} == {"retention.granularity"}


_OF_LISTENERS = ("listeners", "advertised.listeners", "listener.security.protocol.map")
_TLS = {
    row.name: "changed as listener.name.NAME.ssl.*, as Kafka demands too"
    for row in TLS_SETTINGS
    if row.name != "ssl.principal.mapping.rules"
}
NOT_DYNAMIC = (
    dict.fromkeys(
        (*_OF_LISTENERS, "sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol"),
        "listeners are opened at the start only",
    )
    | _TLS
)


@lru_cache
def kafka(release: str) -> dict[str, Any]:
    command = [*quick_java(classpath(release), PROGRAM), PROGRAM.stem, *TEXTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def refusal(setting: Setting, text: str) -> str | None:
    try:
        setting.parse(text)
    except ConfigError as error:
        return error.client_message
    return None


def differences(ours: Mapping[str, Setting], theirs: Mapping[str, Any]) -> Iterator[str]:
    for name in ours.keys() & theirs.keys():
        setting, wanted = ours[name], theirs[name]
        if setting.kind.value != wanted["type"] and name not in OTHER_TYPES:
            yield f"{name} is a {setting.kind.value}, Kafka's a {wanted['type']}"
        default = setting.format(setting.default)
        if default != (wanted["default"] or "") and name not in OTHER_DEFAULTS:
            yield f"{name} is {default!r} by default, Kafka's {wanted['default']!r}"
        for text, words in zip(TEXTS, wanted["refusals"], strict=True):
            if (problem := refusal(setting, text)) != words and name not in OTHER_CHECKS:
                yield f"{name}={text}: {problem!r}, Kafka says {words!r}"


def named(theirs: Mapping[str, Any]) -> set[str]:
    return {name for name, one in theirs.items() if not one["internal"]}


def test_settings_of_topics_are_those_of_kafka() -> None:
    theirs = kafka("3.9.2")["topic"]
    assert named(theirs) == TOPIC_SETTINGS.keys() - {"retention.granularity"}, "that one is our own"
    assert list(differences(TOPIC_SETTINGS, theirs)) == []


def test_kafka_4_changed_two_settings_of_topics() -> None:
    """Assert that 4.x has no new ones, and that it changed only these; docs/configuration.md has it that 3.9 is the reference."""
    theirs = kafka("4.3.1")["topic"]
    assert named(theirs) <= TOPIC_SETTINGS.keys()
    changed = {one.split()[0].split("=")[0] for one in differences(TOPIC_SETTINGS, theirs)}
    assert changed == {"message.timestamp.after.max.ms", "segment.bytes"}


def test_settings_of_groups_are_those_of_kafka() -> None:
    theirs = kafka("4.3.1")["group"]
    assert named(theirs) == GROUP_CONFIGS.keys()
    assert list(differences(GROUP_CONFIGS, theirs)) == []


@pytest.mark.parametrize("release", ["3.9.2", "4.3.1"])
def test_settings_of_client_metrics_are_those_of_kafka(release: str) -> None:
    theirs = kafka(release)["metrics"]
    assert named(theirs) == CLIENT_METRICS_CONFIGS.keys()
    assert list(differences(CLIENT_METRICS_CONFIGS, theirs)) == []


def test_settings_of_brokers_are_those_of_kafka_and_our_own() -> None:
    theirs = kafka("3.9.2")["broker"]
    assert BROKER_SETTINGS.keys() - theirs.keys() == OURS.keys()
    assert list(differences(BROKER_SETTINGS, theirs)) == []


@pytest.mark.parametrize("release", ["3.9.2", "4.3.1"])
def test_the_broker_knows_every_name_of_kafkas_settings(release: str) -> None:
    names = named(kafka(release)["broker"])
    assert [name for name in sorted(names) if name not in BROKER_SETTINGS and family_of(name) is None] == []


def test_settings_that_are_only_shown_are_kafkas_others() -> None:
    """Compare names, types and defaults; null and the empty text differ, because DescribeConfigs shows both."""
    theirs = {name: one for name, one in kafka("3.9.2")["broker"].items() if name not in BROKER_SETTINGS and not one["internal"]}
    ours = {
        name: (row.kind.value, None if row.default is None else row.format(row.default)) for name, row in UNREAD_SETTINGS.items()
    }
    assert ours == {name: (one["type"], one["default"]) for name, one in theirs.items()}


def test_dynamic_settings_of_brokers_are_those_of_kafka() -> None:
    """Compare the settings that have a row. The settings that are accepted and not read may also be set while the broker runs."""
    theirs = set(kafka("3.9.2")["dynamic"])
    rows = {**BROKER_SETTINGS, **DYNAMIC_ONLY_SETTINGS}
    ours = {name for name, setting in rows.items() if setting.update is Update.CLUSTER_WIDE}
    assert ours - OURS.keys() <= theirs
    assert theirs & rows.keys() - ours == NOT_DYNAMIC.keys()


def test_every_reason_is_for_a_setting_that_exists() -> None:
    known = {**BROKER_SETTINGS, **TOPIC_SETTINGS, **GROUP_CONFIGS, **CLIENT_METRICS_CONFIGS}
    assert {*OURS, *OTHER_DEFAULTS, *OTHER_TYPES, *OTHER_CHECKS, *NOT_DYNAMIC} <= known.keys()
