"""Turns the environment of a container, written for another image of Kafka, into properties.

    KAFKA_LOG_DIRS, KAFKA_CFG_LOG_DIRS      log.dirs: of apache/kafka and confluentinc/cp-kafka, of Bitnami
    CLUSTER_ID, KAFKA_KRAFT_CLUSTER_ID      cluster.id; the second is Bitnami's
    KAFKA_ADVERTISED_HOST_NAME, ..._PORT    advertised.listeners, from before Kafka 3, as wurstmeister's image has them
    PYBROKER_ADVERTISED                     pybroker.advertised.outside, as without a container

Variables that the other images' scripts use for themselves are no properties and are left out; a line shows it where a user would
wonder. Some of them imply several brokers or ask for access control: `others` holds them for `several_brokers` and
`access_control`.

Source: KafkaDockerWrapper of Apache Kafka; kafka.properties.template of confluentinc's image; libkafka.sh of Bitnami's;
start-kafka.sh of wurstmeister's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pybroker.config.environment import ADVERTISED, PREFIX, is_for_scripts, properties_of_environment, property_name
from pybroker.container import access_control, several_brokers
from pybroker.container.jaas_file import JAVA_OPTIONS, file_of

DEFAULT_PORT: Final = "9092"
BITNAMI_PREFIX: Final = "KAFKA_CFG_"
CONFLUENT_PREFIX: Final = "CONFLUENT_"
"""The prefix of variables that confluentinc's image turns into properties without Kafka's prefix."""
OWN_PREFIX: Final = "PYBROKER_"
TOPIC_VARIABLES: Final = ("PYBROKER_TOPICS", "KAFKA_CREATE_TOPICS")
SEPARATOR_VARIABLE: Final = "KAFKA_CREATE_TOPICS_SEPARATOR"
OWN: Final = frozenset(
    {
        ADVERTISED,
        "PYBROKER_BOOTSTRAP",  # read by the commands
        "PYBROKER_LOG_FORMAT",
        "PYBROKER_LOG_LEVEL",
        "PYBROKER_READY_FILE",
        "PYBROKER_TOPICS",
        access_control.VARIABLE,
    }
)
COMMANDS: Final = ("HOSTNAME_COMMAND", "PORT_COMMAND", "RACK_COMMAND", several_brokers.NUMBERING, "CUSTOM_INIT_SCRIPT")
"""Commands that wurstmeister's image runs, for a value or for their own sake."""

_ZOOKEEPER: Final = "zookeeper."
_SILENT: Final = re.compile(  # set by images for themselves, and by Kubernetes and links in every container
    r"KAFKA_(HOME|VERSION|MODE|DEBUG|BASE_DIR|VOLUME_DIR|MOUNTED_CONF_DIR|DATA_DIRS?|ENABLE_KRAFT|KRAFT_CLUSTER_ID"
    r"|SKIP_KRAFT_STORAGE_INIT|EXTRA_FLAGS|CREATE_TOPICS(_SEPARATOR)?|(ADVERTISED_)?(HOST_NAME|PORT)"
    r"|SSL_(KEYSTORE|TRUSTSTORE)_FILENAME|SSL_(KEY|KEYSTORE|TRUSTSTORE)_CREDENTIALS"  # of `secret_files`
    r"|(\w+_)?SERVICE_(HOST|PORT(_\w+)?)|(\w+_)?PORT_\d+_(TCP|UDP)(_\w+)?)"
)
_OF_IMAGES: Final = re.compile(  # users, certificates and the REST proxy of other images
    r"KAFKA_((INTER_BROKER|CONTROLLER)_(USER|PASSWORD)|(CLIENT|BROKER)_(USERS?|PASSWORDS?|LISTENER(_NAME)?)"
    r"|(ADVERTISED_)?PROTOCOL_NAME|CERTIFICATE_PASSWORD|TLS_\w+|KRAFT_\w+|INITIAL_CONTROLLERS|REST_\w+|CONFLUENT_\w+|METRIC_REPORTERS)"
)


@dataclass(slots=True, frozen=True, kw_only=True)
class Variables:
    """The settings and remarks that an environment yields.

    `properties` name the variable that sets each, and so do `others`, which pybroker's broker does not read: ZooKeeper's, and
    those of other images and their parts. `topics` are of `TOPIC_VARIABLES`.
    """

    properties: Mapping[str, tuple[str, str]]
    others: Mapping[str, tuple[str, str]]
    topics: Mapping[str, str]
    remarks: tuple[str, ...]
    warnings: tuple[str, ...]


def read_variables(environment: Mapping[str, str]) -> Variables:
    """Sort the environment's variables. Nothing is refused here."""
    remarks: list[str] = []
    plain, origins = _without_bitnami_prefix(environment, remarks)
    taken, left_out = _without_scripts_own(plain)
    empty = [name for name in taken if name.startswith(PREFIX) and not taken[name].strip()]
    taken = {name: text for name, text in taken.items() if name not in empty}
    everything = {
        name: (origins.get(variable, variable), text) for name, (variable, text) in properties_of_environment(taken).items()
    }
    properties = {name: setting for name, setting in everything.items() if not name.startswith(_ZOOKEEPER)}
    others = {name: setting for name, setting in everything.items() if name.startswith(_ZOOKEEPER)}
    others |= dict(_of_other_images(plain, left_out, origins))
    if "cluster.id" not in properties and (cluster_id := plain.get("KAFKA_KRAFT_CLUSTER_ID")):
        properties["cluster.id"] = ("KAFKA_KRAFT_CLUSTER_ID", cluster_id)
    properties |= _bitnamis_listener(properties)
    properties |= _advertised_host(plain, properties)
    if left_out:
        names = ", ".join(sorted(origins.get(variable, variable) for variable in left_out))
        remarks.append(f"Variables without effect, because they are for Java or for parts of other images: {names}")
    if empty:
        names = ", ".join(sorted(origins.get(variable, variable) for variable in empty))
        remarks.append(f"Empty variables count as not set: {names}")
    unknown = sorted(variable for variable in environment if variable.startswith(OWN_PREFIX) and variable not in OWN)
    remarks += [f"Unknown variable {variable}" for variable in unknown]
    return Variables(
        properties=properties,
        others=others,
        topics={name: environment[name] for name in TOPIC_VARIABLES if environment.get(name, "").strip()},
        remarks=tuple(remarks),
        warnings=tuple(_commands(plain)),
    )


def _of_other_images(
    plain: Mapping[str, str], left_out: list[str], origins: Mapping[str, str]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield `left_out` as properties, and the variables that are no property of Kafka but have to do with brokers."""
    for variable in left_out:
        yield property_name(variable), (origins.get(variable, variable), plain[variable])
    for variable, text in plain.items():
        if variable.startswith(CONFLUENT_PREFIX):
            yield property_name(variable), (variable, text)
    if plain.get(several_brokers.NUMBERING, "").strip():
        yield several_brokers.NUMBERING, (several_brokers.NUMBERING, plain[several_brokers.NUMBERING])


def _commands(plain: Mapping[str, str]) -> list[str]:
    names = [name for name in COMMANDS if plain.get(name, "").strip()]
    instead = "write what it prints into the variable that it is for (KAFKA_BROKER_RACK, ...)"
    return [f"{', '.join(names)}: ignored, because no command is run; {instead}"] if names else []


def _without_bitnami_prefix(environment: Mapping[str, str], remarks: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables with their names without `CFG_`, and for these variables their real names."""
    plain = {name: text for name, text in environment.items() if not name.startswith(BITNAMI_PREFIX)}
    origins: dict[str, str] = {}
    for name, text in environment.items():
        if not name.startswith(BITNAMI_PREFIX) or name == BITNAMI_PREFIX:
            continue
        short = PREFIX + name.removeprefix(BITNAMI_PREFIX)
        if short not in environment:
            plain[short], origins[short] = text, name
        elif environment[short] != text:
            remarks.append(f"{name} is ignored, because {short} has another value")
    return plain, origins


def _without_scripts_own(plain: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that can be properties, and those of the others whose lack of effect could surprise a user."""
    taken, left_out = {}, []
    for name, text in plain.items():
        if _SILENT.fullmatch(name):
            continue
        if name == JAVA_OPTIONS and file_of(plain) is not None:
            continue
        if name.startswith(PREFIX) and (is_for_scripts(name) or _OF_IMAGES.fullmatch(name)):
            if text:
                left_out.append(name)
            continue
        taken[name] = text
    return taken, left_out


def _bitnamis_listener(properties: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the listener that Bitnami's image has: port 9092 whatever one advertised address is; other images take its
    port.
    """
    origin, text = properties.get("listeners", ("", ""))
    if origin != BITNAMI_PREFIX + "ADVERTISED_LISTENERS" or "," in text:
        return {}
    return {"listeners": (origin, f"{text.partition('://')[0]}://:{DEFAULT_PORT}")}


def _advertised_host(plain: Mapping[str, str], properties: Mapping[str, object]) -> dict[str, tuple[str, str]]:
    """Return advertised.listeners from the host and port that Kafka had for it before version 3."""
    host = plain.get("KAFKA_ADVERTISED_HOST_NAME", "").strip()
    if not host or "advertised.listeners" in properties:
        return {}
    inner, outer = (plain.get(name, "").strip() for name in ("KAFKA_PORT", "KAFKA_ADVERTISED_PORT"))
    inner = inner if inner.isdigit() else DEFAULT_PORT  # a link's KAFKA_PORT is a URL
    found = {"advertised.listeners": ("KAFKA_ADVERTISED_HOST_NAME", f"PLAINTEXT://{host}:{outer or inner}")}
    if "listeners" not in properties:
        found["listeners"] = ("KAFKA_PORT", f"PLAINTEXT://:{inner}")
    return found
