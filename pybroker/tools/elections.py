"""kafka-leader-election: has partitions elect their preferred leaders, or any live replica where there is no leader.

Source: org.apache.kafka.tools.LeaderElectionCommand.
"""

from __future__ import annotations

from pybroker.client.errors import ClientError
from pybroker.tools.errors import CommandError
from pybroker.tools.options import FLAG, VALUE, Options, parse
from pybroker.tools.target import Target, client_properties

HELP = """Elects leaders for partitions of topics.
--bootstrap-server HOST:PORT        a broker of the cluster; --admin.config FILE has settings of the client
--election-type TYPE                preferred: the first replica leads, if it is in sync;
                                    unclean: any live replica leads where there is no leader, even if records are lost
--topic NAME --partition N          one partition, or
--all-topic-partitions              all partitions, or
--path-to-json-file FILE            those of {"partitions": [{"topic": "NAME", "partition": N}]}
"""
OPTIONS = {
    "bootstrap-server": VALUE,
    "admin.config": VALUE,
    "election-type": VALUE,
    "topic": VALUE,
    "partition": VALUE,
    "path-to-json-file": VALUE,
    "all-topic-partitions": FLAG,
}
TYPES = {"PREFERRED": 0, "UNCLEAN": 1}
WHICH = ("topic", "all-topic-partitions", "path-to-json-file")
NO_ELECTION_NEEDED = 84
TIMEOUT_MS = 30_000


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    options = parse(tool, OPTIONS, arguments)
    options.require("bootstrap-server", "election-type")
    name = (options.value("election-type") or "").upper()
    if name not in TYPES:
        raise CommandError(f"election-type={options.value('election-type')}: must be preferred or unclean")
    partitions = _partitions(options)
    target = Target(options.value("bootstrap-server") or "", client_properties(options.value("admin.config")))
    try:
        return _elect(target, name, partitions)
    except ClientError as error:
        raise CommandError(f"Timeout waiting for election results: {error}") from error


def _partitions(options: Options) -> dict[str, list[int]] | None:
    """Return the partitions by topic, None for all. Raises CommandError."""
    given = [one for one in WHICH if options.has(one)]
    if len(given) != 1:
        names = ", ".join(f"--{one}" for one in WHICH)
        text = "One" if not given else "Only one"
        raise CommandError(f"{text} of the following options is required: {names}")
    if options.has("topic") is not options.has("partition"):
        raise CommandError(f"Missing required option(s): {'--partition' if options.has('topic') else '--topic'}")
    if options.has("topic"):
        return {options.value("topic") or "": [options.number("partition") or 0]}
    path = options.value("path-to-json-file")
    return None if path is None else _of_file(path)


def _of_file(path: str) -> dict[str, list[int]]:
    import json
    from pathlib import Path

    found: dict[str, list[int]] = {}
    try:
        for one in json.loads(Path(path).read_text(encoding="utf-8"))["partitions"]:
            found.setdefault(str(one["topic"]), []).append(int(one["partition"]))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        example = '{"partitions": [{"topic": "NAME", "partition": 0}]}'
        raise CommandError(f"{path} is not like {example}: {error!r}") from error
    return found


def _elect(target: Target, name: str, partitions: dict[str, list[int]] | None) -> int:
    """Ask for the elections, and print their outcomes. Raises CommandError, ClientError."""
    from pybroker.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
    from pybroker.tools.admin import Admin
    from pybroker.tools.kafka_errors import exception_of, sentence_of

    asked = None if partitions is None else [TopicPartitions(topic=topic, partitions=all_) for topic, all_ in partitions.items()]
    request = ElectLeadersRequest(election_type=TYPES[name], topic_partitions=asked, timeout_ms=TIMEOUT_MS)
    with Admin(target) as admin:
        response = admin.ask(request, 2)
    if response.error_code:
        raise CommandError(f"{exception_of(response.error_code)}: {sentence_of(response.error_code)}")
    outcomes = [
        (f"{topic.topic}-{one.partition_id}", one)
        for topic in response.replica_election_results
        for one in topic.partition_result
    ]
    elected = [partition for partition, one in outcomes if one.error_code == 0]
    needless = [partition for partition, one in outcomes if one.error_code == NO_ELECTION_NEEDED]
    failed = [(partition, one) for partition, one in outcomes if one.error_code not in {0, NO_ELECTION_NEEDED}]
    if elected:
        print(f"Successfully completed leader election ({name}) for partitions {', '.join(elected)}")
    if needless:
        print(f"Valid replica already elected for partitions {', '.join(needless)}")
    for partition, one in failed:
        error = f"{exception_of(one.error_code)}: {one.error_message or sentence_of(one.error_code)}"
        print(f"Error completing leader election ({name}) for partition: {partition}: {error}")
    if failed:
        raise CommandError(f"{len(failed)} replica(s) could not be elected")
    return 0
