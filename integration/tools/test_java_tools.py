"""Apache Kafka's own command line tools, of 3.9 and of 4.x, against the broker."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from testing.clients.stock import KafkaPython, create_topic, record_count, unique
from testing.process.tool_runner import Tool
from testing.samples import assert_equal, varied, without_headers

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
)


def test_the_console_consumer_reads_what_the_console_producer_wrote(
    tool: Tool, release: str, bootstrap: str, tmp_path: Path
) -> None:
    topic = unique(f"console-{release}")
    create_topic(bootstrap, topic, 2)
    lines = [f"key{n}\tvalue {n} ü" for n in range(200)]
    properties = ["--property", "parse.key=true"]
    tool(
        "console-producer", "--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", "zstd", *properties,
        given="\n".join(lines) + "\n",
    )  # fmt: skip
    client = tmp_path / "consumer.properties"
    client.write_text("enable.auto.commit=false\n")
    read: list[str] = []
    for partition in ("0", "1"):
        text = tool(
            "console-consumer", "--bootstrap-server", bootstrap, "--topic", topic,
            "--partition", partition, "--offset", "earliest", "--consumer.config", str(client), "--property", "print.key=true",
            "--max-messages", str(record_count(bootstrap, topic, int(partition))),
        )  # fmt: skip
        read += text.splitlines()
    assert sorted(read) == sorted(lines)
    assert KafkaPython().consume(bootstrap, topic, 1)[0].sample.value is not None


def test_the_console_consumer_reads_what_other_clients_wrote(tool: Tool, bootstrap: str, release: str) -> None:
    topic, samples = unique(f"read-{release}"), without_headers(varied(50))
    create_topic(bootstrap, topic)
    for codec in ("none", "lz4"):
        KafkaPython().produce(
            bootstrap, topic, [s._replace(key=b"k", value=b"v%d" % n) for n, s in enumerate(samples)], codec=codec
        )
    text = tool(
        "console-consumer", "--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0",
        "--offset", "earliest", "--max-messages", "100", "--property", "print.timestamp=true", "--property", "print.offset=true",
    )  # fmt: skip
    expected = [f"CreateTime:{s.timestamp_ms}\tOffset:{n}\tv{n % 50}" for n, s in enumerate([*samples, *samples])]
    assert text.splitlines() == expected


def test_the_verifiable_producer_gets_every_record_acknowledged(tool: Tool, bootstrap: str, release: str) -> None:
    topic = unique(f"verifiable-{release}")
    create_topic(bootstrap, topic, 3)
    text = tool(
        "verifiable-producer", "--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "500",
        "--acks", "-1",
    )  # fmt: skip
    printed = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    summary = next(line for line in printed if line["name"] == "tool_data")
    assert (summary["sent"], summary["acked"]) == (500, 500)
    acknowledged = {
        (line["partition"], line["offset"]): line["value"] for line in printed if line["name"] == "producer_send_success"
    }
    assert len(acknowledged) == 500
    for partition in range(3):
        expected = {offset: value for (p, offset), value in acknowledged.items() if p == partition}
        received = KafkaPython().consume(bootstrap, topic, len(expected), partition=partition)
        assert {r.offset: (r.sample.value or b"").decode() for r in received} == expected


@pytest.mark.parametrize("acks", ["1", "all"])
def test_the_performance_tool_of_producers_runs(tool: Tool, bootstrap: str, release: str, acks: str) -> None:
    topic = unique(f"performance-{release}")
    create_topic(bootstrap, topic, 3)
    text = tool(
        "producer-perf-test", "--topic", topic, "--num-records", "20000", "--record-size", "1000",
        "--throughput", "-1", "--producer-props", f"bootstrap.servers={bootstrap}", f"acks={acks}",
    )  # fmt: skip
    assert re.search(r"^20000 records sent", text, re.MULTILINE)
    text = tool("get-offsets", "--bootstrap-server", bootstrap, "--topic", topic)
    ends = dict(re.findall(r":(\d+):(\d+)$", text, re.MULTILINE))
    assert len(ends) == 3
    assert sum(map(int, ends.values())) == 20_000
    text = tool("get-offsets", "--bootstrap-server", bootstrap, "--topic", topic, "--time", "earliest")
    assert dict(re.findall(r":(\d+):(\d+)$", text, re.MULTILINE)) == {"0": "0", "1": "0", "2": "0"}


def test_the_performance_tool_commits_transactions(tool: Tool, bootstrap: str, release: str) -> None:
    topic = unique(f"transactions-{release}")
    create_topic(bootstrap, topic, 3)
    text = tool(
        "producer-perf-test", "--topic", topic, "--num-records", "2000", "--record-size", "100",
        "--throughput", "-1", "--producer-props", f"bootstrap.servers={bootstrap}",
        "--transactional-id", topic, "--transaction-duration-ms", "5",
    )  # fmt: skip
    assert re.search(r"^2000 records sent", text, re.MULTILINE)
    text = tool(
        "console-consumer", "--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning",
        "--isolation-level", "read_committed", "--max-messages", "2000",
    )  # fmt: skip
    assert len(text.split()) >= 2000
    text = tool("get-offsets", "--bootstrap-server", bootstrap, "--topic", topic)
    ends = dict(re.findall(r":(\d+):(\d+)$", text, re.MULTILINE))
    assert sum(map(int, ends.values())) > 2_000  # records, and at least a marker


def test_the_tool_for_topics_creates_lists_and_deletes(tool: Tool, bootstrap: str, release: str) -> None:
    topic = unique(f"command-{release}")
    name = "topics"
    tool(name, "--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1")
    assert topic in tool(name, "--bootstrap-server", bootstrap, "--list").splitlines()
    tool(name, "--bootstrap-server", bootstrap, "--delete", "--topic", topic)
    assert topic not in tool(name, "--bootstrap-server", bootstrap, "--list").splitlines()
    create_topic(bootstrap, topic)
    samples = varied(10)
    KafkaPython().produce(bootstrap, topic, samples)
    assert_equal(KafkaPython().consume(bootstrap, topic, 10), samples)
