"""The metrics page over HTTP."""

from __future__ import annotations

import socket
import urllib.request

import pytest

from pybroker.metrics.broker_metrics import BrokerMetrics
from pybroker.metrics.exporter import MetricsServer


def get(port: int) -> tuple[str, str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        return response.headers["Content-Type"], response.read().decode()


def test_the_metrics_page_starts_and_stops() -> None:
    metrics = BrokerMetrics()
    server = MetricsServer(metrics)
    port = server.start("127.0.0.1", 0)
    metrics.topic("t").messages_in = 42
    content_type, page = get(port)
    assert content_type.startswith("text/plain")
    assert "\nkafka_server_brokertopicmetrics_messagesin_total 42.0\n" in page
    server.stop()
    server.stop()
    with pytest.raises(OSError, match="refused"):
        get(port)


def test_the_error_of_a_taken_port_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"metrics\.listener=127\.0\.0\.1:{port}: cannot listen"):
            MetricsServer(BrokerMetrics()).start("127.0.0.1", port)
