"""The versions that releases of Kafka accept and announce, by their own classes: makes `pybroker/api/releases.json`.

    python -m testing.process.releases > pybroker/api/releases.json

It needs a Java compiler, and Maven Central the first time.
"""

from __future__ import annotations

import os
import subprocess

from testing.places import JAVA_SOURCES
from testing.process.java import quick_java
from testing.process.maven import jar

JARS = {
    "0.8.2": "0.8.2.2", "0.9": "0.9.0.1", "0.10.2": "0.10.2.2", "1.1": "1.1.1", "2.8": "2.8.2", "3.9": "3.9.2", "4.3": "4.3.1",
}  # fmt: skip
"""The version of kafka-clients that stands for each release."""
NOT_OF_THE_BROKER = {"0.8.2": {11, 12}}
"""JoinGroup and Heartbeat are declared in 0.8.2, but its broker has no groups: `KafkaApis.handle` does not know them."""
SLF4J = ("org.slf4j", "slf4j-api", "1.7.36")

Ranges = dict[int, tuple[int, int]]


def declared(release: str) -> dict[str, Ranges]:
    """Return the lowest and the highest version by API key, under "accepted" and "announced"."""
    program = JAVA_SOURCES / "ApiRanges.java"
    classes = os.pathsep.join(str(one) for one in (jar("org.apache.kafka", "kafka-clients", JARS[release]), jar(*SLF4J)))
    done = subprocess.run([*quick_java(classes, program), program.stem], capture_output=True, text=True, timeout=120, check=True)
    ranges: dict[str, Ranges] = {"accepted": {}, "announced": {}}
    for word, *numbers in map(str.split, done.stdout.splitlines()):
        key, lowest, highest = map(int, numbers)
        if key not in NOT_OF_THE_BROKER.get(release, ()):
            ranges[word][key] = (lowest, highest)
    return ranges


def document() -> str:
    """Return the content of the file."""
    lines = []
    for release, version in JARS.items():
        words = [f'  "{word}": {{{_text(ranges)}}}' for word, ranges in declared(release).items()]
        lines.append(f'"{release}": {{\n  "kafka-clients": "{version}",\n' + ",\n".join(words) + "\n}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _text(ranges: Ranges) -> str:
    return ", ".join(f'"{key}": [{lowest}, {highest}]' for key, (lowest, highest) in sorted(ranges.items()))


if __name__ == "__main__":
    print(document(), end="")
