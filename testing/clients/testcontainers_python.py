"""Does what Testcontainers for Python does with its KafkaContainer, without an engine; an interpreter that has the package runs
this.

    python testcontainers_python.py IMAGE MODE HOST PORT

The package's own `start` runs. The engine's client and the container's start are replaced by stubs that note their arguments.
HOST and PORT are where an engine would have published the broker's port. The program prints what a container would get, as JSON.
"""

from __future__ import annotations

import json
import sys
from unittest import mock

from testcontainers.community.kafka import KafkaContainer
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy


def main(image: str, mode: str, host: str, port: str) -> None:
    asked: dict[str, object] = {}

    def create_file(_self: KafkaContainer, content: bytes, path: str) -> None:
        asked.update(script=content.decode(), path=path)

    def wait_until_ready(self: LogMessageWaitStrategy, _container: object) -> None:
        asked.update(pattern=self._message.pattern)

    with (
        mock.patch("testcontainers.core.container.DockerClient"),
        mock.patch.object(DockerContainer, "start"),
        mock.patch.object(KafkaContainer, "get_container_host_ip", return_value=host),
        mock.patch.object(KafkaContainer, "get_exposed_port", return_value=int(port)),
        mock.patch.object(KafkaContainer, "create_file", create_file),
        mock.patch.object(LogMessageWaitStrategy, "wait_until_ready", wait_until_ready),
    ):
        container = KafkaContainer(image)
        if mode == "kraft":
            container.with_kraft()
        container.start()
    asked.update(environment={name: str(text) for name, text in container.env.items()}, command=container._command)
    asked.update(port=container.port)
    sys.stdout.write(json.dumps(asked))


if __name__ == "__main__":
    main(*sys.argv[1:])
