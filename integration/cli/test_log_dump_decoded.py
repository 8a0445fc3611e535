"""`pybroker log dump --decode` beside Kafka's DumpLogSegments, of 3.9 and 4.3, on what older and newer releases have written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.adoption.old_directories import NAMES, unpack
from testing.process.broker import is_kafka
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath
from testing.process.kafka_tools import java

pytestmark = pytest.mark.skipif(is_kafka(), reason="is about files")

TIMEOUT_S = 120
TOOLS = {"3.9.2": "kafka.tools.DumpLogSegments", "4.3.1": "org.apache.kafka.tools.DumpLogSegments"}
OPTIONS = {
    "offsets": ("--offsets-decoder",),
    "transactions": ("--transaction-log-decoder",),
    "metadata": ("--cluster-metadata-decoder",),
    None: ("--deep-iteration", "--print-data-log"),
}
FOLDERS = {"offsets": "__consumer_offsets-*", "transactions": "__transaction_state-*", "metadata": "__cluster_metadata-*"}
Content = tuple[str, str, Any, Any]
"""The file, the offset, and what the key and the value contain."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all directories."""
    made = tmp_path_factory.mktemp("directories")
    for name in NAMES:
        unpack(name, made / name)
    return made


def files_of(folder: Path, decoder: str | None) -> list[Path]:
    """Return the data files that a decoder is for; for None, those of ordinary topics."""
    if decoder is not None:
        found = folder.glob(f"*/*/{FOLDERS[decoder]}/*.log")
        return sorted([*found, *(folder.glob("*/*/bootstrap.checkpoint") if decoder == "metadata" else [])])
    return sorted(path for path in folder.glob("*/*/*/*.log") if not path.parent.name.startswith("__"))


def ours(files: list[Path], decoder: str | None) -> list[str]:
    command = [sys.executable, "-m", "pybroker", "log", "dump", "--records", *(["--decode", decoder] if decoder else [])]
    run = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def theirs(files: list[Path], decoder: str | None, release: str) -> list[str]:
    command = [*quick_java(classpath(release), java=java()), "-Xmx512m", TOOLS[release], *OPTIONS[decoder]]
    arguments = ["--files", ",".join(map(str, files))]
    run = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def contents(lines: list[str]) -> list[Content]:
    """Return what is printed of each record in Kafka's JSON."""
    found, file = [], ""
    for line in lines:
        if line.startswith("Dumping "):
            file = line
        if (record := re.match(r"\| offset: (\d+) .*?(?:headerKeys|headers): \[.*?\] ?(.*)", line)) is not None:
            key = re.match(r"key: (\{.*?\}\}|\S+) payload: (.*)|payload: (.*)|(\w+):? (\{.*\})|(.*)", record[2])
            assert key is not None
            name, value = key[1] or key[4], key[2] or key[3] or key[5] or key[6]
            found.append((file, record[1], *map(parsed, (name, value))))
    return found


def parsed(text: str | None) -> Any:
    if text in {"null", "<DELETE>"}:
        return None
    return json.loads(text) if text is not None and text.startswith("{") else text


@pytest.mark.parametrize(
    ("decoder", "release"),
    [("offsets", "4.3.1"), ("transactions", "4.3.1"), ("metadata", "4.3.1"), ("offsets", "3.9.2"), ("metadata", "3.9.2")],
)
def test_decoded_records_read_as_in_kafkas_tools(folder: Path, decoder: str, release: str) -> None:
    files = readable(files_of(folder, decoder), release)
    found, expected = contents(ours(files, decoder)), contents(theirs(files, decoder, release))
    assert len(found) > 20
    for mine, one in zip(found, expected, strict=True):
        assert without_quorum(mine) == without_quorum(one)


def readable(files: list[Path], release: str) -> list[Path]:
    """Return the files that a release can read: those of older ones."""
    return [path for path in files if release.startswith("4") or "kafka-4" not in str(path)]


def without_quorum(one: Content) -> Content:
    """Return a record; of a change of KRaft's leader, 3.9 prints only that it is one."""
    is_change = one[2] == "LeaderChange" or one[3] == "controlType: LEADER_CHANGE(2)"
    return (*one[:2], "LeaderChange", None) if is_change else one


def test_transactions_read_as_in_the_text_of_3_9(folder: Path) -> None:
    files = readable(files_of(folder, "transactions"), "3.9.2")
    found, expected = contents(ours(files, "transactions")), theirs(files, "transactions", "3.9.2")
    assert len(found) > 20
    printed = [line.partition(" key: ")[2] for line in expected if line.startswith("| ")]
    words = [in_words(key["data"], value["data"]) for _, _, key, value in found]
    assert [in_order(line) for line in words] == [in_order(line) for line in printed]


def in_order(line: str) -> str:
    """Sort the partitions, which Kafka prints in the order of a hash set."""
    return re.sub(r"\[(.*)\]", lambda match: f"[{','.join(sorted(match[1].split(',')))}]", line)


def in_words(key: dict[str, Any], value: dict[str, Any]) -> str:
    """Return the text of Kafka 3.9 for the state of a transactional id."""
    partitions = [f"{one['topic']}-{number}" for one in value["transactionPartitions"] or () for number in one["partitionIds"]]
    state = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")[value["transactionStatus"]]
    return (
        f"transaction_metadata::transactionalId={key['transactionalId']} payload: producerId:{value['producerId']},"
        f"producerEpoch:{value['producerEpoch']},state={state},partitions=[{','.join(partitions)}],"
        f"txnLastUpdateTimestamp={value['transactionLastUpdateTimestampMs']},txnTimeoutMs={value['transactionTimeoutMs']}"
    )


def test_records_of_every_format_read_as_in_both_tools(folder: Path) -> None:
    files = files_of(folder, None)
    found = ours(files, None)
    for release in TOOLS:
        assert batches(found) == batches(theirs(files, None, release)), release


def batches(lines: list[str]) -> list[dict[str, str]]:
    """Return the fields of batches and records. The checksum of a message inside another is not printed by ours."""
    names = {"deleteHorizonMs", "headers", "headerKeys", "isValid"}
    chosen = [line for line in lines if line.startswith(("| ", "baseOffset", "offset"))]
    fields = [{name: value for name, value in re.findall(r"(\w+): (\S*)", line) if name not in names} for line in chosen]
    for one in fields:
        if "keySize" in one:
            one.pop("crc", None)
        if one.get("valueSize") == "-1":  # which Kafka does not print
            one.pop("payload", None)
        if one.get("keySize") == "-1":
            one.pop("key", None)
    return fields
