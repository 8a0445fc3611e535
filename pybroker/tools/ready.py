"""cub and ub: `kafka-ready`, the one verb of the Confluent images' helper with which init containers wait.

cub kafka-ready -b kafka:9092 1 40        number of brokers, seconds to wait
"""

from __future__ import annotations

import sys
import time

from pybroker.client.errors import ClientError
from pybroker.tools.errors import FAILED, CommandError, not_supported
from pybroker.tools.metadata import metadata
from pybroker.tools.options import FLAG, VALUE, parse
from pybroker.tools.target import Target, client_properties

KINDS = {
    **dict.fromkeys(("b", "bootstrap-servers", "c", "config", "z", "zookeeper-connect", "s", "security-protocol"), VALUE),
    "help": FLAG,
}
HELP = """kafka-ready -b HOST:PORT BROKERS SECONDS   wait for this many brokers; -c FILE has settings of the client
zk-ready HOST:PORT SECONDS                 return at once, because there is no ZooKeeper
"""
PAUSE_S = 0.1


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    verb = arguments[0]
    if verb == "zk-ready":
        print(f"{tool}: there is no ZooKeeper to wait for", file=sys.stderr)
        return 0
    if verb != "kafka-ready":
        raise not_supported(f"{tool} {verb}")
    options = parse(tool, KINDS, arguments[1:])
    bootstrap = options.value("b") or options.value("bootstrap-servers")
    if bootstrap is None:
        raise not_supported(f"{tool} kafka-ready without -b HOST:PORT")
    security = options.value("s") or options.value("security-protocol") or "PLAINTEXT"
    if security.upper() != "PLAINTEXT":
        raise not_supported(f"{tool} kafka-ready -s {security}", "the listeners are PLAINTEXT")
    if len(options.rest) != 2 or not all(word.isdecimal() for word in options.rest):
        raise CommandError(f"{tool} kafka-ready: BROKERS and SECONDS are two numbers, not {' '.join(options.rest) or 'missing'}")
    wanted, wait_s = (int(word) for word in options.rest)
    return _wait(
        Target(bootstrap, client_properties(options.value("c") or options.value("config"))), wanted=wanted, wait_s=wait_s
    )


def _wait(target: Target, *, wanted: int, wait_s: float) -> int:
    end = time.monotonic() + wait_s
    while True:
        reason, count = "", 0
        try:
            with target.connect(wait_s=max(0.0, end - time.monotonic())) as connection:
                count = len(metadata(connection).brokers)
        except (ClientError, CommandError) as error:  # a name may resolve once its container is up
            reason = f": {error}"
        if count >= wanted:
            return 0
        if time.monotonic() >= end:
            print(f"Expected {wanted} brokers but found only {count}{reason}", file=sys.stderr)
            return FAILED
        time.sleep(PAUSE_S)
