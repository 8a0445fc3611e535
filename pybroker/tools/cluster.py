"""kafka-cluster: prints the id of a cluster.

Source: org.apache.kafka.tools.ClusterTool.
"""

from __future__ import annotations

from pybroker.client.errors import ClientError
from pybroker.tools.errors import CommandError, not_supported
from pybroker.tools.metadata import metadata
from pybroker.tools.options import VALUE, parse
from pybroker.tools.target import Target, client_properties

HELP = """The Kafka cluster tool.
cluster-id --bootstrap-server HOST:PORT   print the id of the cluster; --config FILE has settings of the client
"""
NO_TOPICS = bytes(4)


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    verb = next((word for word in arguments if not word.startswith("-")), "")
    if verb != "cluster-id":
        raise not_supported(f"{tool} {verb}")
    words = list(arguments)
    words.remove(verb)
    options = parse(tool, {"b": VALUE, "bootstrap-server": VALUE, "c": VALUE, "config": VALUE}, words)
    bootstrap = options.value("bootstrap-server") or options.value("b")
    if bootstrap is None:
        raise CommandError('Missing required argument "[bootstrap-server]"')
    target = Target(bootstrap, client_properties(options.value("config") or options.value("c")))
    try:
        with target.connect() as connection:
            cluster_id = metadata(connection, NO_TOPICS).cluster_id
    except ClientError as error:
        raise CommandError(f"Timed out waiting for a node assignment: {error}") from error
    print("No cluster ID found. The Kafka version is probably too old." if cluster_id is None else f"Cluster ID: {cluster_id}")
    return 0
