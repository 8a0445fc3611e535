"""Which command a name means, and how each of them begins and ends."""

from __future__ import annotations

import sys

from pybroker.commands.errors import FAILED, NOT_SUPPORTED, CommandError
from pybroker.commands.kafka_apis import RELEASE

COMMANDS = {
    "cub": "ready",
    "kafka-broker-api-versions": "versions",
    "kafka-cluster": "cluster",
    "kafka-configs": "configs",
    "kafka-console-consumer": "consumer",
    "kafka-console-producer": "producer",
    "kafka-consumer-groups": "groups",
    "kafka-get-offsets": "offsets",
    "kafka-run-class": "classes",
    "kafka-storage": "storage",
    "kafka-topics": "topics",
    "ub": "ready",
}
"""The modules, each with HELP and main(name, arguments)."""

OTHERS = (
    "kafka-acls", "kafka-client-metrics", "kafka-consumer-perf-test", "kafka-delegation-tokens", "kafka-delete-records",
    "kafka-dump-log", "kafka-features", "kafka-groups", "kafka-jmx", "kafka-leader-election", "kafka-log-dirs",
    "kafka-metadata-quorum", "kafka-metadata-shell", "kafka-mirror-maker", "kafka-producer-perf-test",
    "kafka-reassign-partitions", "kafka-replica-verification", "kafka-share-groups", "kafka-streams-application-reset",
    "kafka-transactions", "kafka-verifiable-consumer", "kafka-verifiable-producer",
)  # fmt: skip
"""Kafka's tools that are not here: they say so, instead of not being found."""

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
        known = ", ".join(sorted(COMMANDS))
        print(f"{name or 'a command without a name'} is not supported; there are {known}", file=sys.stderr)
        return NOT_SUPPORTED
    module = __import__(f"pybroker.commands.{module_name}", fromlist=["main"])
    if not arguments or "--help" in arguments:
        print(module.HELP, end="", file=sys.stderr)
        return FAILED  # as Kafka's tools have it
    if "--version" in arguments:
        from pybroker import __version__  # noqa: PLC0415

        print(f"{RELEASE} (pybroker {__version__})")
        return 0
    try:
        return module.main(name, arguments) or 0
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.code


def _forget_stdout() -> None:
    """Who read it is gone; the interpreter would complain once more when it flushes at its end."""
    import os  # noqa: PLC0415

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
