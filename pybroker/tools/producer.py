"""kafka-console-producer: sends each line of standard input as a record.

Source: kafka.tools.ConsoleProducer of Kafka 3.9. Unlike there, the exit code is 1 when a record was not delivered.
"""

from __future__ import annotations

import io
import sys
from typing import Any, Final

from pybroker.tools.client_settings import given_properties, library, librdkafka_of, made
from pybroker.tools.connection import servers
from pybroker.tools.errors import FAILED, CommandError, not_supported
from pybroker.tools.line_reader import LineReader
from pybroker.tools.options import FLAG, MAYBE, VALUE, Options, parse
from pybroker.tools.target import instead_of_bootstrap

MERGED: Final = {
    "timeout": ("linger.ms", "1000"),
    "request-required-acks": ("acks", "-1"),
    "request-timeout-ms": ("request.timeout.ms", "1500"),
    "message-send-max-retries": ("retries", "3"),
    "retry-backoff-ms": ("retry.backoff.ms", "100"),
    "socket-buffer-size": ("send.buffer.bytes", "102400"),
    "max-memory-bytes": ("buffer.memory", "33554432"),
    "batch-size": ("batch.size", "16384"),
    "max-partition-memory-bytes": ("batch.size", "16384"),
    "metadata-expiry-ms": ("metadata.max.age.ms", "300000"),
    "max-block-ms": ("message.timeout.ms", "60000"),
}
"""Options that are settings: the setting, and its value when neither is given."""

KINDS: Final = {
    **dict.fromkeys(("topic", "bootstrap-server", "broker-list", "property", "reader-property", "reader-config"), VALUE),
    **dict.fromkeys(
        ("producer-property", "command-property", "producer.config", "command-config", "line-reader", *MERGED), VALUE
    ),
    **dict.fromkeys(("sync", "version", "help"), FLAG),
    "compression-codec": MAYBE,
}
READERS: Final = {"kafka.tools.ConsoleProducer$LineMessageReader", "org.apache.kafka.tools.LineMessageReader"}

HELP = """This tool helps to read data from standard input and publish it to Kafka.
--bootstrap-server HOST:PORT  the brokers to connect to; --broker-list is the same
--topic NAME                  the topic that gets the records
--property NAME=VALUE         parse.key, key.separator, parse.headers, headers.delimiter, headers.separator,
                              headers.key.separator, ignore.error, null.marker; --reader-config FILE
--producer-property NAME=VALUE, --producer.config FILE  settings of the producer
--compression-codec [CODEC]   none, gzip, snappy, lz4 or zstd; gzip without a value
--sync                        wait for each record
--request-required-acks, --timeout (linger), --request-timeout-ms, --batch-size, --message-send-max-retries, ...
"""


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    options = parse(tool, KINDS, arguments)
    options.require("topic")
    topic = options.value("topic") or ""
    reader_class = options.value("line-reader")
    if reader_class is not None and reader_class not in READERS:
        raise not_supported(f"--line-reader {reader_class}")
    reader = LineReader(given_properties(options, ("reader-config",), ("property", "reader-property")))
    producer = made(library().Producer, settings_of(tool, options))
    failed = Failures(topic)
    lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace", newline=None)
    is_prompted = sys.stdin.isatty() and sys.stdout.isatty()
    try:
        while True:
            if is_prompted:
                print(">", end="", flush=True)
            line = lines.readline()
            if not line:
                break
            _send(producer, topic, reader.record(line.removesuffix("\n")), failed)
            if options.has("sync"):
                producer.flush()
                if failed.count:
                    return FAILED
    finally:
        producer.flush()
    return FAILED if failed.count else 0


def settings_of(tool: str, options: Options) -> dict[str, Any]:
    """Return the settings for librdkafka. Raises CommandError."""
    properties = given_properties(options, ("producer.config", "command-config"), ("producer-property", "command-property"))
    codec = "none"
    if options.has("compression-codec"):
        codec = options.value("compression-codec") or "gzip"
    properties["compression.type"] = codec
    properties.setdefault("client.id", "console-producer")
    properties.setdefault("partitioner", "murmur2_random")  # as in the Java client, so that a key has the same partition
    for option, (setting, default) in MERGED.items():
        given = options.value(option)
        if given is not None:
            properties[setting] = given
        elif setting != "batch.size" or option == "batch-size":
            properties.setdefault(setting, default)
    settings = librdkafka_of(tool, properties)
    _let_linger(settings)
    settings["bootstrap.servers"] = bootstrap_of(tool, options)
    return settings


def _let_linger(settings: dict[str, Any]) -> None:
    """Shorten the time that a record lingers where it must: librdkafka wants a record to live longer than it lingers."""
    lingers_ms, lives_ms = str(settings["linger.ms"]), str(settings["message.timeout.ms"])
    if lingers_ms.isdecimal() and lives_ms.isdecimal() and 0 < int(lives_ms) <= int(lingers_ms):
        settings["linger.ms"] = int(lives_ms) // 2


def bootstrap_of(tool: str, options: Options) -> str:
    """Return the brokers in librdkafka's form, which has no protocol before a host. Raises CommandError."""
    given = options.value("bootstrap-server") or options.value("broker-list") or instead_of_bootstrap(tool, options)
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers(given))


class Failures:
    """Counts the records that were not delivered, and reports each."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.count = 0

    def delivered(self, error: Any, message: Any) -> None:
        """Count a record that was not delivered; called by librdkafka at the end of each record."""
        if error is not None:
            self.count += 1
            key, value = message.key(), message.value()
            print(
                f"ERROR Error when sending message to topic {self._topic} with key: {_size(key)}, value: {_size(value)} "
                f"with error: {error.str()}",
                file=sys.stderr,
            )


def _size(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data)} bytes"


def _send(producer: Any, topic: str, record: Any, failed: Failures) -> None:
    while True:
        try:
            producer.produce(topic, key=record.key, value=record.value, headers=record.headers, on_delivery=failed.delivered)
        except BufferError:  # the queue is full: let some of it be sent
            producer.poll(1)
        except library().KafkaException as error:
            raise CommandError(f"the record cannot be sent: {error.args[0].str()}") from error
        else:
            producer.poll(0)
            return
