"""kafka-run-class: runs the commands by the names of their Java classes, as older scripts call them."""

from __future__ import annotations

from pybroker.tools.errors import not_supported
from pybroker.tools.run import run

HELP = """kafka-run-class CLASS ARGUMENTS...   runs the command that stands for a class, such as kafka.tools.GetOffsetShell
"""

COMMANDS = {
    "AclCommand": "kafka-acls",
    "BrokerApiVersionsCommand": "kafka-broker-api-versions",
    "ClusterTool": "kafka-cluster",
    "ConfigCommand": "kafka-configs",
    "ConsoleConsumer": "kafka-console-consumer",
    "ConsoleProducer": "kafka-console-producer",
    "ConsumerGroupCommand": "kafka-consumer-groups",
    "DelegationTokenCommand": "kafka-delegation-tokens",
    "GetOffsetShell": "kafka-get-offsets",
    "LeaderElectionCommand": "kafka-leader-election",
    "StorageTool": "kafka-storage",
    "TopicCommand": "kafka-topics",
}
PACKAGES = (
    "kafka.admin",
    "kafka.tools",
    "org.apache.kafka.tools",
    "org.apache.kafka.tools.consumer",
    "org.apache.kafka.tools.consumer.group",
)


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    package, _, name = arguments[0].rpartition(".")
    if package not in PACKAGES or name not in COMMANDS:
        raise not_supported(f"{tool} {arguments[0]}")
    return run(COMMANDS[name], arguments[1:])
