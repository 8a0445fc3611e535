"""The dashboard queries only what the broker has: Debian's Prometheus scrapes a real broker, and every query has a result."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from testing.clients.stock import KafkaPython, create_topic
from testing.places import ROOT
from testing.process.broker import BrokerProcess
from testing.process.kafka_peer import free_port
from testing.samples import varied

DASHBOARD = ROOT / "container/grafana/dashboards/pybroker.json"
CONFIGURATION = ROOT / "container/prometheus/prometheus.yml"
TIMEOUT_S = 60
PAUSE_S = 0.2
UP = "min(count_over_time(up[1m])) >= 3 and min(up) == 1"


class Prometheus:
    """A Prometheus that scrapes the test's broker as docker-compose.yml's file sets it, but every half second."""

    def __init__(self, folder: Path, target: str) -> None:
        self.port = free_port()
        text = CONFIGURATION.read_text()
        assert "kafka:9404" in text
        assert "scrape_interval: 5s" in text
        configuration = folder / "prometheus.yml"
        configuration.write_text(text.replace("kafka:9404", target).replace("scrape_interval: 5s", "scrape_interval: 500ms"))
        options = [f"--config.file={configuration}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        with (folder / "prometheus.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", *options, f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log
            )

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series that an instant query has now. Raises urllib.error.HTTPError when Prometheus refuses the query."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
            body = json.load(response)
        assert body["status"] == "success", body
        return list(body["data"]["result"])

    def wait_for(self, expression: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                if self.query(expression):
                    return
            except OSError:
                assert self.process.poll() is None, "prometheus ended"
            assert time.monotonic() < deadline, expression
            time.sleep(PAUSE_S)


@pytest.fixture
def prometheus(tmp_path: Path, start_broker: Callable[..., BrokerProcess]) -> Iterator[Prometheus]:
    """Start a Prometheus that scrapes a broker which clients have used, and which they use again while it is scraped."""
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus (`make containers` installs Debian's)")
    target = f"127.0.0.1:{free_port()}"
    broker = start_broker({"metrics.listener": target})
    create_topic(broker.bootstrap, "measured", 2)
    client = KafkaPython()
    client.produce(broker.bootstrap, "measured", varied(20))
    commit(broker.bootstrap, "measured", 10)
    server = Prometheus(tmp_path, target)
    try:
        server.wait_for("up == 1")
        client.produce(broker.bootstrap, "measured", varied(20))
        assert len(client.consume(broker.bootstrap, "measured", 40)) == 40
        client.produce(broker.bootstrap, "measured", varied(20))
        server.wait_for(UP)
        yield server
    finally:
        server.process.terminate()
        server.process.wait(TIMEOUT_S)


def commit(bootstrap: str, topic: str, offset: int) -> None:
    """Commit an offset as a group without members."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def queries() -> list[tuple[str, str]]:
    """Return the title and the expression of everything that the dashboard draws, for all instances and topics."""
    board = json.loads(DASHBOARD.read_text())
    return [
        (panel["title"], re.sub(r"\$(instance|topic)", ".*", target["expr"]))
        for panel in board["panels"]
        for target in panel.get("targets", [])
    ]


def test_every_query_of_the_dashboard_has_numbers(prometheus: Prometheus) -> None:
    assert len(queries()) > 20
    empty = [(title, expression) for title, expression in queries() if not prometheus.query(expression)]
    errors_only = [(title, expression) for title, expression in empty if title == "Error codes, by API"]
    assert empty == errors_only, "these panels show nothing"
    # No response had an error, so the panel shows nothing, but it queries a metric that exists.
    for _, expression in errors_only:
        assert prometheus.query(expression.replace('error!="NONE"', ""))


def test_the_lag_is_what_the_group_has_left(prometheus: Prometheus) -> None:
    prometheus.wait_for('kafka_consumergroup_lag_sum{consumergroup="readers",topic="measured"} == 50')
