"""Makes the clients of librdkafka on which the console producer and consumer are built, with the settings of a Java client.

Most names are the same in both. Names that mean nothing to librdkafka are left out, and a line on stderr reports it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pybroker import extras
from pybroker.tools.errors import NOT_SUPPORTED, CommandError
from pybroker.tools.target import properties_of

if TYPE_CHECKING:
    from pybroker.tools.options import Options

RENAMED: Final = {
    "buffer.memory": ("queue.buffering.max.kbytes", 1024),
    "fetch.max.wait.ms": ("fetch.wait.max.ms", 1),
    "max.request.size": ("message.max.bytes", 1),
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", 1),
    "send.buffer.bytes": ("socket.send.buffer.bytes", 1),
}
"""librdkafka's name, and how many of Java's units are one of its own."""

WITHOUT_MEANING: Final = {
    "default.api.timeout.ms", "interceptor.classes", "key.deserializer", "key.serializer", "max.block.ms", "max.poll.records",
    "metadata.max.idle.ms", "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
    "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "partitioner.ignore.keys",
    "value.deserializer", "value.serializer",
}  # fmt: skip
"""Settings of the Java client's own machinery."""

CLASSES: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
    "StickyAssignor": "cooperative-sticky",
}


TLS_STORES: Final = {
    "ssl.keystore.location", "ssl.keystore.type", "ssl.truststore.location", "ssl.truststore.type", "ssl.protocol",
    "ssl.enabled.protocols", "ssl.truststore.password", "ssl.truststore.certificates",
}  # fmt: skip
"""Settings of stores, whose names are others in librdkafka."""

JAAS: Final = "sasl.jaas.config"

CRITICAL: Final = 2
"""The level up to which librdkafka logs by itself; `Troubles` reports the rest."""
SILENCE_S: Final = 10.0


def pairs(given: Iterable[str]) -> dict[str, str]:
    """Parse `--property name=value`; the last value of each name wins, and a missing value is an empty one."""
    found = {}
    for one in given:
        name, _, value = one.partition("=")
        found[name] = value
    return found


def given_properties(options: Options, files: Iterable[str], given: Iterable[str]) -> dict[str, str]:
    """Return the properties of the first file that one of the options `files` names, and over them those of the options `given`.

    Raises CommandError.
    """
    file = next(filter(None, map(options.value, files)), None)
    return (properties_of(file) if file is not None else {}) | pairs(one for name in given for one in options.values(name))


def librdkafka_of(tool: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings for librdkafka. Raises CommandError."""
    settings: dict[str, Any] = _tls_of(properties) | _login_of(properties)
    for name, value in properties.items():
        if name in TLS_STORES or name == JAAS:
            continue
        if name in WITHOUT_MEANING:
            print(f"WARN {tool}: {name} has no meaning for this client and is ignored", file=sys.stderr)
        elif name in RENAMED:
            renamed, units = RENAMED[name]
            settings[renamed] = _scaled(name, value, units)
        elif name == "partition.assignment.strategy":
            settings[name] = ",".join(CLASSES.get(one.strip().rpartition(".")[2], one.strip()) for one in value.split(","))
        else:
            settings[name] = value
    return settings


def _tls_of(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's names for the stores of a Java client. Raises CommandError for a trust store that is not PEM."""
    settings: dict[str, Any] = {}
    if (trusted := properties.get("ssl.truststore.location")) is not None:
        if properties.get("ssl.truststore.type") != "PEM":
            raise CommandError(f"ssl.truststore.location={trusted}: this client reads PEM only, with ssl.truststore.type=PEM")
        settings["ssl.ca.location"] = trusted
    if (certificates := properties.get("ssl.truststore.certificates")) is not None:
        settings["ssl.ca.pem"] = certificates
    if (keys := properties.get("ssl.keystore.location")) is not None:
        if properties.get("ssl.keystore.type") == "PEM":
            settings["ssl.certificate.location"] = settings["ssl.key.location"] = keys
        else:
            settings["ssl.keystore.location"] = keys
    return settings


def _login_of(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the user and the password of a Java client's login module. Raises CommandError for one that cannot be read."""
    if JAAS not in properties:
        return {}
    from pybroker.config.setting import ConfigError
    from pybroker.security.sasl.client_login import user_of_client

    try:
        user, password = user_of_client(properties)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    return {"sasl.username": user, "sasl.password": password}


def _scaled(name: str, value: str, units: int) -> int:
    try:
        return max(1, int(value) // units)
    except ValueError:
        raise CommandError(f"Invalid value {value} for configuration {name}: Not a number of type INT") from None


def library() -> Any:
    """Import confluent_kafka from where packages are installed. Raises CommandError when it is not installed."""
    import site

    if sys.flags.no_site:
        site.main()
    try:
        import confluent_kafka
    except ImportError as error:
        raise CommandError(f"confluent-kafka is not installed: {extras.command('console')} ({error})", NOT_SUPPORTED) from None
    return confluent_kafka


class Troubles:
    """Reports the client's troubles on stderr, each kind only now and then: a connection may be refused many times a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._warned_at: dict[str, float] = {}

    def __call__(self, error: Any) -> None:
        """Report an error that concerns the client as a whole; called by librdkafka."""
        name, now = error.name(), self._clock()
        if now - self._warned_at.get(name, now - SILENCE_S) >= SILENCE_S:
            self._warned_at[name] = now
            print(f"WARN {name}: {error.str()}", file=sys.stderr)


def made(kind: Any, settings: Mapping[str, Any]) -> Any:
    """Make a producer or consumer. Raises CommandError for settings that it does not accept."""
    log_level = {} if "debug" in settings else {"log_level": CRITICAL}
    try:
        return kind({**log_level, **settings, "error_cb": Troubles()})
    except library().KafkaException as error:
        raise CommandError(f"the client cannot be created: {error.args[0].str()}", NOT_SUPPORTED) from error
