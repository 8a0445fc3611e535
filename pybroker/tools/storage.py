"""kafka-storage: prints new ids; there is nothing else to prepare before a broker's first start."""

from __future__ import annotations

import base64
import sys
import uuid

from pybroker.tools.errors import not_supported

HELP = """This tool helps to prepare storage directories.
random-uuid    print a new id for a cluster
format         does nothing: a broker prepares its directories when it starts, with the id that CLUSTER_ID names
"""


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    verb = arguments[0]
    if verb == "random-uuid":
        print(random_id())
    elif verb == "format":
        print(
            f"{tool}: nothing was formatted: a broker prepares its directories when it starts, with the id in CLUSTER_ID",
            file=sys.stderr,
        )
    else:
        raise not_supported(f"{tool}: {verb}")
    return 0


def random_id() -> str:
    """Return an id in Kafka's form that does not look like an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
