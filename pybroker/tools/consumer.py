"""kafka-console-consumer: prints each record as a line of standard output.

Source: org.apache.kafka.tools.consumer.ConsoleConsumer, ConsoleConsumerOptions of Kafka 3.9.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from pybroker.tools.client_settings import given_properties, library, librdkafka_of, made, pairs
from pybroker.tools.errors import FAILED, CommandError
from pybroker.tools.formatter import Formatter, NoFormatter, formatter_of
from pybroker.tools.kafka_errors import exception_of
from pybroker.tools.options import FLAG, VALUE, Options, parse
from pybroker.tools.producer import bootstrap_of

KINDS: Final = {
    **dict.fromkeys(("topic", "include", "whitelist", "partition", "offset", "bootstrap-server", "group", "zookeeper"), VALUE),
    **dict.fromkeys(("consumer-property", "command-property", "consumer.config", "command-config", "formatter"), VALUE),
    **dict.fromkeys(("property", "formatter-property", "formatter-config", "max-messages", "timeout-ms"), VALUE),
    **dict.fromkeys(("key-deserializer", "value-deserializer", "isolation-level"), VALUE),
    **dict.fromkeys(
        ("from-beginning", "skip-message-on-error", "enable-systest-events", "new-consumer", "version", "help"), FLAG
    ),
}

HELP = """This tool helps to read data from Kafka topics and outputs it to standard output.
--bootstrap-server HOST:PORT  the brokers to connect to
--topic NAME                  the topic to read; or --include REGEX
--from-beginning              from the earliest record where the group has no offset
--partition N --offset OFFSET one partition, from an offset, from earliest or from latest
--group NAME                  the consumer's group
--max-messages N, --timeout-ms N  when to stop
--property NAME=VALUE         print.key, print.value, print.timestamp, print.partition, print.offset, print.headers,
                              key.separator, line.separator, headers.separator, null.literal, key.deserializer, ...
--consumer-property NAME=VALUE, --consumer.config FILE  settings of the consumer
--isolation-level LEVEL       read_committed leaves out aborted records
--formatter CLASS             the DefaultMessageFormatter or the NoOpMessageFormatter
"""

POLL_S: Final = 0.2
BATCH: Final = 500
METADATA_S: Final = 5.0
DENIED: Final = {29: "Not authorized to access topics: [{topic}]", 30: "Not authorized to access group: {group}"}
"""The errors of brokers that end the consumer, and the sentences of the exceptions that the Java client has for them."""
ENDS: Final = (signal.SIGTERM, signal.SIGINT)


class EndedError(Exception):
    """The consumer cannot read any more. As in Kafka's, the exit code is 0 all the same."""


class Stop:
    """Remembers the signal that ends the consumer."""

    def __init__(self) -> None:
        self.signal = 0
        for number in ENDS:
            signal.signal(number, self._come)

    def _come(self, number: int, _frame: object) -> None:
        self.signal = number


class Limits:
    """The limits at which to stop: a number of records, or a time without a record."""

    def __init__(self, options: Options) -> None:
        self.messages = options.number("max-messages")
        if self.messages is not None and self.messages < 0:
            self.messages = None
        timeout_ms = options.number("timeout-ms", is_long=True)
        self.silence_s = None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    options = parse(tool, KINDS, arguments)
    _check(options)
    formatter = formatter_of(options.value("formatter"), _formatter_properties(options))
    limits, stop = Limits(options), Stop()
    settings = settings_of(tool, options)
    consumer = made(library().Consumer, settings)
    count = 0
    try:
        _begin(consumer, options)
        for message in messages(consumer, settings["group.id"], limits, stop):
            count += 1
            if not _printed(message, formatter, is_lenient=options.has("skip-message-on-error")):
                print("Unable to write to standard out, closing consumer.", file=sys.stderr)
                break
    except EndedError as error:
        print(f"ERROR Error processing message, terminating consumer process: \n{error}", file=sys.stderr)
    finally:
        consumer.close()
        print(f"Processed a total of {count} messages", file=sys.stderr)
    return 128 + stop.signal if stop.signal else 0


def messages(consumer: Any, group: str, limits: Limits, stop: Stop) -> Iterator[Any]:
    """Yield records until it is time to stop; librdkafka's other messages go to stderr. Raises EndedError."""
    left = limits.messages
    silent_since = time.monotonic()
    while (left is None or left > 0) and not stop.signal:
        silence_s = time.monotonic() - silent_since
        if limits.silence_s is not None and silence_s > limits.silence_s:
            return
        wait_s = POLL_S if limits.silence_s is None else min(POLL_S, max(0.001, limits.silence_s - silence_s))
        # no more than are wanted: a record that is taken counts as read, and the group's offset moves behind it
        for message in consumer.consume(BATCH if left is None else min(left, BATCH), wait_s):
            if message.error() is not None:
                _report(message.error(), topic=message.topic(), group=group)
                continue
            if left is not None:
                left -= 1
            yield message
        sys.stdout.flush()


def _report(error: Any, *, topic: str | None, group: str) -> None:
    if error.code() in DENIED:
        raise EndedError(f"{exception_of(error.code())}: {DENIED[error.code()].format(topic=topic, group=group)}")
    if error.fatal():
        raise EndedError(error.str())
    print(f"WARN {error.name()}: {error.str()}", file=sys.stderr)


def _printed(message: Any, formatter: Formatter | NoFormatter, *, is_lenient: bool) -> bool:
    """Print a record; return False when standard output is closed. Raises CommandError for a record that cannot be shown."""
    try:
        line = formatter.line(message)
    except CommandError as error:
        if not is_lenient:
            raise
        print(f"ERROR Error processing message, skipping this message: {error}", file=sys.stderr)
        return True
    try:
        sys.stdout.buffer.write(line)
    except BrokenPipeError:
        return False
    return True


def _begin(consumer: Any, options: Options) -> None:
    topic = options.value("topic")
    partition = options.number("partition")
    if topic is not None and partition is not None:
        _check_access(consumer, topic)
        consumer.assign([library().TopicPartition(topic, partition, offset_of(options))])
    elif topic is not None:
        consumer.subscribe([topic])
    else:
        consumer.subscribe([f"^({options.value('include') or options.value('whitelist')})$"])


def _check_access(consumer: Any, topic: str) -> None:
    """Report a topic that this user may not read: of one that is assigned, librdkafka reports nothing. Raises EndedError."""
    try:
        error = consumer.list_topics(topic, METADATA_S).topics[topic].error
    except library().KafkaException:  # no broker is there yet
        return
    if error is not None and error.code() in DENIED:
        _report(error, topic=topic, group="")


def offset_of(options: Options) -> int:
    """Return where one partition is read from, in librdkafka's form. Raises CommandError."""
    beginning, end = -2, -1
    text = options.value("offset")
    if text is None:
        return beginning if options.has("from-beginning") else end
    if text.lower() in ("earliest", "latest"):
        return beginning if text.lower() == "earliest" else end
    if not text.isdecimal():
        raise CommandError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long."
        )
    return int(text)


def settings_of(tool: str, options: Options) -> dict[str, Any]:
    """Return the settings for librdkafka. Raises CommandError."""
    properties = given_properties(options, ("consumer.config", "command-config"), ())
    extra = pairs(options.values("consumer-property") + options.values("command-property"))
    groups = {one for one in (options.value("group"), properties.get("group.id"), extra.get("group.id")) if one is not None}
    if len(groups) > 1:
        shown = ", ".join(f"'{group}'" for group in sorted(groups))
        raise CommandError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: {shown}"
        )
    if groups and options.has("partition"):
        raise CommandError("Options group and partition cannot be specified together.")
    properties |= extra
    reset = properties.setdefault("auto.offset.reset", "earliest" if options.has("from-beginning") else "latest")
    if options.has("from-beginning") and reset != "earliest":
        raise CommandError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    properties.setdefault("client.id", "console-consumer")
    level = options.value("isolation-level")
    if level is not None or "isolation.level" not in properties:
        properties["isolation.level"] = level or "read_uncommitted"
    if groups:
        properties["group.id"] = groups.pop()
    else:
        properties["group.id"] = f"console-consumer-{random.randrange(100000)}"  # noqa: S311
        properties.setdefault("enable.auto.commit", "false")
    properties.setdefault("allow.auto.create.topics", "true")
    settings = librdkafka_of(tool, properties)
    settings["bootstrap.servers"] = bootstrap_of(tool, options)
    return settings


def _formatter_properties(options: Options) -> dict[str, str]:
    properties = given_properties(options, ("formatter-config",), ())
    for name in ("key-deserializer", "value-deserializer"):
        if value := options.value(name):
            properties[name.replace("-", ".")] = value
    return properties | pairs(options.values("property") + options.values("formatter-property"))


def _check(options: Options) -> None:
    """Refuse options that exclude each other, and missing ones. Raises CommandError."""
    if options.has("topic") == options.has("include", "whitelist"):
        raise CommandError("Exactly one of --include/--topic is required. ", FAILED)
    if options.has("partition"):
        if not options.has("topic"):
            raise CommandError("The topic is required when partition is specified.")
        if options.has("from-beginning") and options.has("offset"):
            raise CommandError("Options from-beginning and offset cannot be specified together.")
    elif options.has("offset"):
        raise CommandError("The partition is required when offset is specified.")
