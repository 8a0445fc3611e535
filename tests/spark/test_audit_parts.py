from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from pybroker.cli.spark_audit import command
from pybroker.spark.audit.folder import read_summary, replacing, write_summary
from pybroker.spark.audit.options import AuditOptions
from pybroker.spark.audit.sources import Tier, per_partition
from pybroker.spark.audit.summary import COLUMNS, Finding, Header, Summary
from pybroker.spark.errors import PipelineError

HERE = Tier("here", "localhost:9092")


def summary(header: Header | None = None, open_buckets: int = 0, **tiers: dict[str, int]) -> Summary:
    totals = {tier: dict.fromkeys(COLUMNS, 0) | found for tier, found in tiers.items()}
    findings = (Finding("p", "t", "mirror", "2026-11-21T07:00:00Z", 3, 0, ("ab/1-2", "ab/9"), ()),) if "mirror" in tiers else ()
    return Summary(header or Header(("t",), tuple(tiers), 60, 0, 0), totals, 1, 2, open_buckets, findings)


def test_a_summary_names_what_is_lost_and_ends_with_the_verdict() -> None:
    found = summary(cluster={"expected": 1000, "present": 1000}, mirror={"expected": 1000, "present": 997, "lost": 3})
    assert list(found.lines()) == [
        "t: 1 producers, 2 buckets of 60 s",
        "tier     expected  present  lost  doubled",
        "cluster     1,000    1,000     0        0",
        "mirror      1,000      997     3        0",
        "lost 3: p, t, mirror, 2026-11-21T07:00:00Z: ab/1-2, ab/9",
        "mirror: 3 lost, 0 doubled",
    ]
    assert not found.is_good


def test_a_summary_without_loss_names_what_it_did_not_judge() -> None:
    header = Header(("t",), ("cluster",), 60, 4, 1)
    found = summary(
        header, open_buckets=1, cluster={"expected": 5, "present": 5, "untagged": 2, "damaged": 1, "other_version": 3}
    )
    assert found.is_good
    assert list(found.lines())[-6:] == [
        "2 records without tags are not compared",
        "1 records have tags that are damaged or of another program",
        "3 records have tags of an unknown version",
        "4 messages in the topic of the producers' counts cannot be read",
        "1 incarnations of producers have not ended their counts: they still run, or were killed",
        "nothing is lost or doubled; open buckets are not judged",
    ]


def test_a_result_is_there_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "new" / "audit"
    with replacing(path) as staging:
        write_summary(staging, {"number": 1})
        assert not path.exists()
    assert read_summary(path)["number"] == 1

    def fail() -> None:
        with replacing(path) as staging:
            write_summary(staging, {"number": 2})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert read_summary(path)["number"] == 1
    with replacing(path) as staging:
        write_summary(staging, {"number": 3})
    assert read_summary(path)["number"] == 3
    assert [entry.name for entry in path.parent.iterdir()] == ["audit"]


def test_what_a_kill_has_left_is_swept_but_not_what_another_pass_writes(tmp_path: Path) -> None:
    left, busy = tmp_path / ".audit.1.new", tmp_path / ".audit.2.new"
    for folder in (left, busy, tmp_path / ".audit.3.old", tmp_path / ".other.1.new"):
        folder.mkdir()
        (folder / "file").touch()
    lock = os.open(busy, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        with replacing(tmp_path / "audit"):
            assert {entry.name for entry in tmp_path.iterdir()} >= {busy.name, ".other.1.new"}
            assert not left.exists()
    finally:
        os.close(lock)
    assert {entry.name for entry in tmp_path.iterdir()} == {"audit", ".audit.2.new", ".other.1.new"}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 2}'])
def test_a_folder_that_is_not_a_result_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "summary.json").write_text(content)
    with pytest.raises(PipelineError, match="is not the result of an audit"), replacing(tmp_path):
        pytest.fail("it must not come here")
    assert (tmp_path / "summary.json").read_text() == content
    with pytest.raises(PipelineError, match="is not a directory"), replacing(tmp_path / "summary.json"):
        pytest.fail("it must not come here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tiers": ()}, "an audit needs at least one tier"),
        ({"tiers": (HERE, HERE)}, "two tiers have the same name: here, here"),
        ({"topics": ()}, "either topics or a pattern must be given"),
        ({"topics": (), "pattern": "a", "tiers": (Tier("x", "archive:lake"),)}, "the first tier must be a cluster"),
        ({"topics": ("a", "b"), "tiers": (HERE, Tier("x", "h:1", "one"))}, "several topics cannot have the same name in a tier"),
        ({"bucket_s": 0}, "bucket_s must be at least 1"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        AuditOptions(**({"path": tmp_path, "tiers": (HERE,), "topics": ("t",)} | changes))  # type: ignore[arg-type]


def test_topics_have_other_names_in_other_tiers() -> None:
    assert Tier("m", "h:1", "dc1.{topic}").topic_there("orders") == "dc1.orders"
    assert Tier("m", "h:1", "copy").topic_there("orders") == "copy"
    assert Tier("l", "archive:some/lake").folder == Path("some/lake")
    assert HERE.folder is None


def test_offsets_as_the_connector_takes_them() -> None:
    assert per_partition([(("t", 0), 5), (("t", 1), 7), (("u", 0), 1)]) == '{"t": {"0": 5, "1": 7}, "u": {"0": 1}}'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["p", "--tier", "a=h:1"], "give either --topic or --pattern"),
        (["p", "--tier", "a=h:1", "--topic", "t", "--pattern", "t"], "give either --topic or --pattern"),
        (["p", "--topic", "t"], "Missing option '--tier'"),
        (["p", "--topic", "t", "--tier", "a"], "--tier a: must be NAME=VALUE"),
        (["p", "--topic", "t", "--tier", "a=h:1", "--rename", "b=c"], "--rename b: no --tier has this name"),
        (["p", "--topic", "t", "--tier", "a=archive:x"], "no tier is a cluster: give --counts"),
        (["p", "--topic", "t", "--tier", "a=h:1", "--tier", "a=h:2"], "two tiers have the same name: a, a"),
        (["p", "--topic", "t", "--tier", "producer=h:1"], "a tier cannot have the name 'producer'"),
        (["p", "--topic", "t", "--topic", "u", "--tier", "a=h:1", "--rename", "a=x"], "several topics cannot have the same name"),
    ],
)
def test_a_wrong_command_line_ends_before_spark_starts(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert (result.exit_code, message in result.output) == (2, True), result.output
