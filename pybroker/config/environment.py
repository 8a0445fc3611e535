"""`KAFKA_*` environment variables, with the meaning that they have in the apache/kafka container image.

    KAFKA_LOG_DIRS=/data                 log.dirs=/data
    KAFKA_LISTENER_NAME_A__B_C           listener.name.a_b.c      two underscores are one
    KAFKA_X___Y                          x-y                      three are a hyphen
    CLUSTER_ID                           cluster.id, with which the image formats its storage
    PYBROKER_ADVERTISED                  pybroker.advertised.outside

When KAFKA_ADVERTISED_LISTENERS is set and KAFKA_LISTENERS is not, the broker listens on the same ports of all interfaces, as the
image does.

Variables that control the image's scripts and Java (KAFKA_HEAP_OPTS, KAFKA_LOG4J_ROOT_LOGLEVEL...) are no properties.

Source: KafkaDockerWrapper and docker/resources/common-scripts/configure of Apache Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

PREFIX: Final = "KAFKA_"
OWN_PREFIX: Final = "PYBROKER_"
CLUSTER_ID: Final = "CLUSTER_ID"
ADVERTISED: Final = "PYBROKER_ADVERTISED"
ADVERTISED_LISTENERS: Final = "ADVERTISED_LISTENERS"
"""The end of a variable's name from which the listeners are derived when none are set."""

_SCRIPTS: Final = frozenset(
    {
        "KAFKA_DEBUG",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_HOME",
        "KAFKA_MODE",
        "KAFKA_OPTS",
        "KAFKA_VERSION",
    }
)
_SCRIPT_PREFIXES: Final = ("KAFKA_JMX_", "KAFKA_JVM_", "KAFKA_LOG4J_", "KAFKA_DEBUG_", "KAFKA_TOOLS_")
_HOST: Final = re.compile(r"://[^:]*:")


def properties_of_environment(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the properties in the environment by Kafka's names, each as its variable and its text."""
    found: dict[str, tuple[str, str]] = {}
    if environment.get(CLUSTER_ID):
        found["cluster.id"] = (CLUSTER_ID, environment[CLUSTER_ID])
    if environment.get(ADVERTISED, "").strip():
        found["pybroker.advertised.outside"] = (ADVERTISED, environment[ADVERTISED])
    for variable, text in environment.items():
        if variable.startswith(PREFIX) and len(variable) > len(PREFIX) and not is_for_scripts(variable):
            found[property_name(variable)] = (variable, text)
    if "advertised.listeners" in found and "listeners" not in found:
        variable, text = found["advertised.listeners"]
        found["listeners"] = (variable, _HOST.sub("://0.0.0.0:", text))
    return found


def own_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that no program but pybroker reads, so that they are meant for it wherever they are set."""
    return {name: text for name, text in environment.items() if name.startswith(OWN_PREFIX)}


def is_for_scripts(variable: str) -> bool:
    """Return whether a variable controls Kafka's scripts rather than the broker."""
    return variable in _SCRIPTS or variable.startswith(_SCRIPT_PREFIXES)


def property_name(variable: str) -> str:
    """Return the property that a variable stands for."""
    dotted = variable.removeprefix(PREFIX).lower().replace("_", ".")
    return dotted.replace("...", "-").replace("..", "_")
