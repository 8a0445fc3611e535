"""Finds the command that a name means, runs it and ends it."""

from __future__ import annotations

import sys

from pybroker.tools.errors import FAILED, NOT_SUPPORTED, CommandError
from pybroker.tools.kafka_apis import RELEASE

COMMANDS = {
    "cub": "ready",
    "kafka-acls": "acls",
    "kafka-broker-api-versions": "versions",
    "kafka-cluster": "cluster",
    "kafka-configs": "configs",
    "kafka-console-consumer": "consumer",
    "kafka-console-producer": "producer",
    "kafka-consumer-groups": "groups",
    "kafka-delegation-tokens": "tokens",
    "kafka-get-offsets": "offsets",
    "kafka-leader-election": "elections",
    "kafka-run-class": "classes",
    "kafka-storage": "storage",
    "kafka-topics": "topics",
    "ub": "ready",
}
"""The modules, each with HELP and main(name, arguments)."""

STOP = "stop the container to stop the broker"
NO_ZOOKEEPER = "there is no ZooKeeper"
CONNECT = "run Kafka Connect beside the broker"
STATE = "kafka-cluster cluster-id and kafka-broker-api-versions show whether the broker responds"

OTHERS = {
    "connect-distributed": CONNECT,
    "connect-mirror-maker": CONNECT,
    "connect-plugin-path": CONNECT,
    "connect-standalone": CONNECT,
    "kafka-client-metrics": "kafka-configs --entity-type client-metrics does the same",
    "kafka-console-share-consumer": "",
    "kafka-consumer-perf-test": "",
    "kafka-delete-records": "",
    "kafka-dump-log": "",
    "kafka-e2e-latency": "",
    "kafka-features": STATE,
    "kafka-groups": "kafka-consumer-groups --list shows the consumer groups",
    "kafka-jmx": "the broker has no JMX; its metrics are for Prometheus (metrics.listener)",
    "kafka-log-dirs": "",
    "kafka-metadata-quorum": STATE,
    "kafka-metadata-shell": "",
    "kafka-mirror-maker": "",
    "kafka-preferred-replica-election": "kafka-leader-election --election-type preferred does the same",
    "kafka-producer-perf-test": "",
    "kafka-reassign-partitions": "partitions cannot be moved to other brokers yet",
    "kafka-replica-verification": "kafka-topics --describe --under-replicated-partitions shows replicas that are behind",
    "kafka-server-stop": STOP,
    "kafka-share-consumer-perf-test": "",
    "kafka-share-groups": "",
    "kafka-streams-application-reset": "",
    "kafka-streams-groups": "",
    "kafka-transactions": "",
    "kafka-verifiable-consumer": "",
    "kafka-verifiable-producer": "",
    "kafka-verifiable-share-consumer": "",
    "trogdor": "",
    "zookeeper-security-migration": NO_ZOOKEEPER,
    "zookeeper-server-stop": NO_ZOOKEEPER,
    "zookeeper-shell": NO_ZOOKEEPER,
}
"""Other programs of Kafka's bin folder, with what to use instead: they report it, instead of not being found."""

ALL = f"kafka-{{{','.join(sorted(name.removeprefix('kafka-') for name in COMMANDS if name.startswith('kafka-')))}}}, cub, ub"
"""The commands in one short line."""

INTERRUPTED = 130


def main(words: list[str]) -> None:
    """Run the command that the first word names, and exit."""
    try:
        code = run(words[0] if words else "", words[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        code = FAILED
    sys.exit(code)


def run(name: str, arguments: list[str]) -> int:
    """Run a command and return its exit code; `name` may end with .sh and have a path before it."""
    name = name.rpartition("/")[2].removesuffix(".sh")
    module_name = COMMANDS.get(name)
    if module_name is None:
        instead = OTHERS.get(name, "")
        rest = f": {instead}" if instead else f"; there are {ALL}"
        print(f"{name or 'a command without a name'} is not supported{rest}", file=sys.stderr)
        return NOT_SUPPORTED
    module = __import__(f"pybroker.tools.{module_name}", fromlist=["main"])
    if not arguments or "--help" in arguments:
        print(module.HELP, end="", file=sys.stderr)
        return FAILED  # as in Kafka's tools
    if "--version" in arguments:
        from pybroker import __version__

        print(f"{RELEASE} (pybroker {__version__})")
        return 0
    try:
        return module.main(name, arguments) or 0
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.code


def _forget_stdout() -> None:
    """Close standard output, whose reader is gone: the interpreter would complain once more when it flushes at its end."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
