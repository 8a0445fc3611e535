"""`pybroker export`, `import` and `copy`: everything is there again, but for the offsets, which move."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pybroker.cli.main import cli
from pybroker.spark.mirror import job
from pybroker.spark.progress import Progress, Standing
from pybroker.testing import Broker, ThreadBroker
from tests.cli.cluster import commit, invoke, lines, objects, refusal

AT_MS = 1_795_248_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[ThreadBroker]:
    """Return a broker with a topic that has headers, nulls, an aborted transaction, and a group at its middle."""
    with Broker.in_thread() as broker:
        at = broker.bootstrap
        broker.create_topic("orders", 2, settings={"retention.ms": -1})
        broker.produce("orders", "0", "1", key="k", headers={"h": b"\xff"}, timestamp_ms=AT_MS)
        lines(at, "produce", "orders", "aborted", "-p", "0", "--transactional-id", "tx", "--abort")
        lines(at, "produce", "orders", "2", "3", "-p", "0", "--transactional-id", "tx")
        broker.produce("orders", None, partition=1, timestamp_ms=AT_MS)
        commit(at, "readers", "orders", {0: 5, 1: 1})
        commit(at, "early", "orders", {0: 1})
        yield broker


def seen(at: str, topic: str) -> list[dict[str, object]]:
    """Return the records of a topic without their names and offsets, by partition."""
    rows = sorted(objects(at, "consume", topic), key=lambda row: int(row["partition"]))
    return [{key: value for key, value in row.items() if key not in ("topic", "offset")} for row in rows]


@pytest.mark.parametrize("form", ["jsonl", "batches"])
def test_an_import_has_the_records_the_settings_and_the_commits(broker: ThreadBroker, tmp_path: Path, form: str) -> None:
    at, folder = broker.bootstrap, tmp_path / "export"
    (exported,) = objects(at, "export", str(folder), "orders", "--format", form)
    assert (exported["records"], exported["topics"], exported["groups"]) == (5, ["orders"], 2)
    (imported,) = objects(at, "import", str(folder), "--prefix", f"{form}.")
    assert (imported["records"], imported["groups"]) == (5, ["early", "readers"])
    assert seen(at, f"{form}.orders") == seen(at, "orders")
    assert [row["offset"] for row in objects(at, "consume", f"{form}.orders", "-p", "0")] == [0, 1, 2, 3]
    assert objects(at, "configs", "get", "--topic", f"{form}.orders")[0]["value"] == "-1"
    moved = {
        (row["group"], row["partition"]): row["offset"]
        for group in ("readers", "early")
        for row in objects(at, "groups", "describe", group)
        if row["topic"] == f"{form}.orders"
    }
    assert moved == {("readers", 0): 3, ("readers", 1): 1, ("early", 0): 1}, "offset 5 was the record '3', which is at 3 now"
    assert "has records already: give --append" in refusal(at, "import", str(folder), "--prefix", f"{form}.")
    lines(at, "import", str(folder), "--prefix", f"{form}.", "--append", "--no-groups")
    assert len(seen(at, f"{form}.orders")) == 10


def test_batches_are_a_log_as_it_lies(broker: ThreadBroker, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    lines(broker.bootstrap, "export", str(folder), "orders", "--format", "batches")
    dumped = CliRunner().invoke(cli, ["log", "dump", "--json", str(folder / "orders-0")])
    assert dumped.exit_code == 0
    found = [json.loads(line) for line in dumped.output.splitlines()]
    offsets = [one["baseOffset"] for one in found if one["type"] == "batch"]
    assert offsets == [one.base_offset for one in broker.batches("orders", 0)]


def test_an_export_has_what_lies_between_two_places(broker: ThreadBroker, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    lines(broker.bootstrap, "export", str(folder), "orders", "--from", "1", "--until", "5")
    file = folder / "orders-0" / f"{1:020d}.jsonl"
    assert [json.loads(line)["value"] for line in file.read_text().splitlines()] == ["1", "2"]


def test_what_cannot_be_is_refused(broker: ThreadBroker, tmp_path: Path) -> None:
    at = broker.bootstrap
    (tmp_path / "file").write_text("")
    assert refusal(at, "export", str(tmp_path), "orders") == f"{tmp_path} is not empty: name a new folder"
    assert refusal(at, "export", str(tmp_path / "new"), "none").startswith("topic none: UNKNOWN_TOPIC_OR_PARTITION")
    assert "is not the folder of a complete export" in refusal(at, "import", str(tmp_path))
    lines(at, "export", str(tmp_path / "cut"), "orders", "--format", "batches")
    file = next((tmp_path / "cut" / "orders-0").iterdir())
    file.write_bytes(file.read_bytes()[:-1])
    assert refusal(at, "import", str(tmp_path / "cut"), "--prefix", "cut.").endswith("is damaged: its last batch is cut")


def test_a_field_that_records_do_not_have_is_refused_with_its_line(broker: ThreadBroker, tmp_path: Path) -> None:
    at, folder = broker.bootstrap, tmp_path / "export"
    lines(at, "export", str(folder), "orders")
    (file,) = (folder / "orders-0").iterdir()
    file.write_text(file.read_text().replace('"value": "2"', '"Value": "2"'))
    message = f"{file}: line 3: a record has no field 'Value'. Did you mean 'value'?"
    assert refusal(at, "import", str(folder), "--prefix", "wrong.") == message


def test_a_topic_is_copied_and_the_copy_continues(broker: ThreadBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at, names = broker.bootstrap, list[str]()

    def progress(name: str, look: Callable[[], Standing], **options: Any) -> Progress:
        names.append(name)
        return Progress(name, look, **options)

    monkeypatch.setattr(job, "Progress", progress)
    broker.create_topic("from")
    broker.produce("from", "1", "2")
    words = ("copy", "from", "--from", at, "--to", at, "--prefix", "to.", "--state", str(tmp_path / "state"))
    assert invoke(at, *words).stdout.startswith("Copied 2 records in ")
    broker.produce("from", "3")
    assert invoke(at, *words).stdout.startswith("Copied 1 record in ")
    assert [one.value for one in broker.consume("to.from")] == [b"1", b"2", b"3"]
    assert names == ["copy", "copy"]
    broker.produce("from", "4")
    by_default = ("copy", "from", "--prefix", "to.", "--state", str(tmp_path / "state"), "--json")
    copied = json.loads(invoke(at, *by_default).stdout)
    assert {key: copied[key] for key in ("source", "target", "records", "lost")} == {
        "source": at, "target": at, "records": 1, "lost": 0,
    }  # fmt: skip
    assert "needs another name in the target" in invoke(at, "copy", "from", "--state", str(tmp_path / "other")).stderr
    refused = invoke(at, "copy", "from", "--from", "nowhere", "--to", at)
    assert (refused.exit_code, refused.stderr) == (2, "Error: profile nowhere: there is no file /nonexistent\n")
