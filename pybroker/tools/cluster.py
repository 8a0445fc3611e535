"""kafka-cluster: prints the id of a cluster, and takes a broker out of it.

Source: org.apache.kafka.tools.ClusterTool.
"""

from __future__ import annotations

from pybroker.client.errors import ClientError
from pybroker.tools.errors import CommandError, not_supported
from pybroker.tools.metadata import metadata
from pybroker.tools.options import VALUE, Options, parse
from pybroker.tools.target import Target, client_properties

HELP = """The Kafka cluster tool.
cluster-id --bootstrap-server HOST:PORT          print the id of the cluster; --config FILE has settings of the client
unregister --bootstrap-server HOST:PORT --id N   delete the registration of a broker that is not live any more
"""
OPTIONS = {"b": VALUE, "bootstrap-server": VALUE, "c": VALUE, "config": VALUE}
NO_TOPICS = bytes(4)


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    verb = next((word for word in arguments if not word.startswith("-")), "")
    if verb not in ("cluster-id", "unregister"):
        raise not_supported(f"{tool} {verb}")
    words = list(arguments)
    words.remove(verb)
    kinds = {**OPTIONS, "i": VALUE, "id": VALUE} if verb == "unregister" else OPTIONS
    options = parse(tool, kinds, words)
    bootstrap = options.value("bootstrap-server") or options.value("b")
    if bootstrap is None:
        raise CommandError('Missing required argument "[bootstrap-server]"')
    target = Target(bootstrap, client_properties(options.value("config") or options.value("c")))
    try:
        if verb == "unregister":
            return _unregister(target, options)
        with target.connect() as connection:
            cluster_id = metadata(connection, NO_TOPICS).cluster_id
    except ClientError as error:
        raise CommandError(f"Timed out waiting for a node assignment: {error}") from error
    print("No cluster ID found. The Kafka version is probably too old." if cluster_id is None else f"Cluster ID: {cluster_id}")
    return 0


def _unregister(target: Target, options: Options) -> int:
    """Have the cluster forget a broker. Raises CommandError, ClientError."""
    broker_id = options.number("id") if options.has("id") else options.number("i")
    if broker_id is None:
        raise CommandError('Missing required argument "[id]"')
    from pybroker.protocol.messages.unregister_broker import UnregisterBrokerRequest
    from pybroker.tools.admin import Admin, RefusedError, check
    from pybroker.tools.kafka_errors import exception_of

    try:
        with Admin(target) as admin:
            response = admin.ask(UnregisterBrokerRequest(broker_id=broker_id), 0)
            check(response.error_code, response.error_message)
    except RefusedError as error:
        raise CommandError(f"{exception_of(error.code)}: {error}") from error
    print(f"Broker {broker_id} is no longer registered.")
    return 0
