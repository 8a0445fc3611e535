"""Passes of the audit that are killed or stopped, or during which clusters go away and archives change."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from integration.spark.audits import BUCKET_MS, START_MS, Flow, follow, invoke, judged
from integration.spark.plans import interpreted_job
from pybroker.spark.archive.job import ArchiveOptions
from pybroker.spark.archive.job import run as archive
from pybroker.spark.audit import incremental
from pybroker.spark.audit.options import AuditOptions, Incremental
from pybroker.spark.audit.sources import Tier
from pybroker.spark.audit.state import State
from pybroker.spark.cluster import Cluster
from pybroker.spark.errors import PipelineError
from testing.waiting import LONG_WAIT_S, WAIT_S, joined, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.spark


@pytest.mark.usefixtures("interpreted")
def test_kills_neither_lose_nor_double_what_is_counted(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    path = tmp_path / "audits" / "flow"
    arguments = [
        *(str(path), "--topic", flow.topic, "--tier", f"cluster={flow.bootstrap}", "--tier", f"copy={flow.bootstrap}"),
        *("--rename", f"copy={flow.copy}", "--counts-topic", flow.counts, "--keep-s", "1e9"),
    ]
    command = interpreted_job("audit", *arguments, "--every", "0", "--pass-records", "600")
    rng = random.Random(3)
    flow.send(*sorted(rng.randrange(120_000) for _ in range(1800)))
    flow.pass_on(without=(9, 999), twice=(10, 1010))
    process = subprocess.Popen([*command, "--master", "local[1]"], stdout=subprocess.DEVNULL, process_group=0)
    try:
        words = partial(path.parent.glob, ".flow.*.new/state/words")
        until(lambda: process.poll() is not None or any(words()), "the moment of the kill, in the first pass", LONG_WAIT_S)
        assert process.poll() is None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)
    path = _left_by_a_kill_in_the_second_pass(spark, path, [*arguments, "--incremental", "--pass-records", "600"])
    arguments[0] = str(path)
    flow.producer.close()
    followed = invoke(spark, *arguments, "--incremental", "--close-all")
    assert followed.exit_code == 3, followed.output
    whole = invoke(spark, str(tmp_path / "whole"), *arguments[1:], "--close-all")
    assert followed.stdout == whole.stdout
    assert followed.stdout.splitlines()[-1] == "copy: 2 lost, 2 doubled"
    assert judged(path) == judged(tmp_path / "whole")
    assert [entry.name for entry in path.parent.iterdir()] == ["flow"]


def test_an_endless_run_closes_idle_tails_and_reports_what_is_lost(flow: Flow, tmp_path: Path) -> None:
    path = tmp_path / "audit"
    command = interpreted_job(
        *("audit", str(path), "--topic", flow.topic),
        *("--tier", f"cluster={flow.bootstrap}", "--tier", f"copy={flow.bootstrap}", "--rename", f"copy={flow.copy}"),
        *("--counts-topic", flow.counts, "--grace-s", "1", "--every", "0.2", "--master", "local[1]"),
    )
    lines: list[str] = []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")), daemon=True)  # type: ignore[union-attr]
    reader.start()
    try:
        until(lambda: bool(lines) or process.poll() is not None, "the first line", LONG_WAIT_S)
        now = time.time_ns() // 1_000_000 - START_MS
        flow.send(now - 2 * BUCKET_MS, now - 2 * BUCKET_MS, now - 2 * BUCKET_MS)
        flow.pass_on(without=(1,))
        until(
            lambda: any("copy: 1 lost, 0 doubled" in line for line in lines) or process.poll() is not None,
            "the line about the lost record",
            LONG_WAIT_S,
        )
        assert any(line.startswith(f"lost 1: p, {flow.topic}, copy, ") for line in lines)
        flow.catch_up(1)
        until(
            lambda: "nothing is lost or doubled" in lines[-1] or process.poll() is not None,
            "the line that nothing is lost",
            LONG_WAIT_S,
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait(WAIT_S)
        joined(reader, "the end of the audit's output")
        process.stdout.close()  # type: ignore[union-attr]
    assert lines[0].endswith("nothing is lost or doubled\n")
    assert (path / "summary.json").exists()


@pytest.mark.usefixtures("interpreted")
def test_the_audit_waits_for_a_cluster_that_goes_away_between_passes(
    spark: SparkSession, own_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = own_broker()
    plain = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce("t", b"v", headers=[])
    assert plain.flush(30) == 0
    record_counts: list[int] = []

    def note(passed: incremental.Passed) -> None:
        record_counts.append(passed.result.records)
        if len(record_counts) == 2:
            raise KeyboardInterrupt
        plain.produce("t", b"v")
        assert plain.flush(30) == 0
        broker.kill()

    wait = Cluster.wait_until_there

    def start_and_wait(cluster: Cluster, seconds: float) -> None:
        broker.start()
        wait(cluster, seconds)

    options = AuditOptions(
        path=tmp_path / "audit",
        tiers=(Tier("cluster", broker.bootstrap),),
        topics=("t",),
        incremental=Incremental(interval_s=0),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cluster, "wait_until_there", start_and_wait)
        with pytest.raises(KeyboardInterrupt):
            incremental.run(spark, options, note)
    plain.close()
    assert record_counts == [1, 1]


@pytest.mark.usefixtures("interpreted")
def test_the_audit_follows_an_archive_through_its_compactions(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    path, lake = tmp_path / "audit", tmp_path / "lake"

    def step(now_ms: int, compact_after: int) -> dict[str, Any]:
        archive(spark, ArchiveOptions(bootstrap=flow.bootstrap, path=lake, topics=(flow.copy,), compact_after=compact_after))
        options = flow.options(path, now_ms, incremental=follow(), is_all_closed=True)
        options = replace(options, tiers=(*options.tiers, Tier("lake", f"archive:{lake}", flow.copy)))
        return incremental.run(spark, options).summary.tiers

    for number in range(3):
        flow.send(*range(number * 1000, number * 1000 + 300))
        flow.pass_on(without=(number * 300 + 1,))
        found = step(BUCKET_MS * (number + 1), 0 if number == 0 else 1)
        for tier in ("copy", "lake"):
            assert (found[tier]["present"], found[tier]["lost"]) == (299 * (number + 1), number + 1)
            assert found[tier]["doubled"] == 0
        assert found["lake"]["lost_here"] == 0


@pytest.mark.usefixtures("interpreted")
def test_two_audits_at_once_are_refused(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    path = tmp_path / "audit"
    flow.send(*range(30))
    options = flow.options(path, BUCKET_MS, incremental=follow())
    report = vars(incremental)["write_report"]  # where the pass looks it up

    def report_after_another(*arguments: Any) -> None:
        with pytest.MonkeyPatch.context() as second:
            second.setattr(incremental, "write_report", report)
            incremental.run(spark, options)
        report(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental, "write_report", report_after_another)
        with pytest.raises(PipelineError, match="another audit is writing to"):
            incremental.run(spark, options)
    state = State.read(path)
    assert state is not None
    assert state.number == 1
    path.rename(tmp_path / ".audit.0.old")  # the state that a kill between the two renames leaves
    assert incremental.run(spark, options).summary.tiers["cluster"]["present"] == 30
    state = State.read(path)
    assert state is not None
    assert state.number == 2


def _left_by_a_kill_in_the_second_pass(spark: SparkSession, path: Path, arguments: list[str]) -> Path:
    """Run a whole pass, and the next one until it has written its report. Return a copy of the folder as a kill then leaves it.

    A process would have to compile the whole pass first. What a kill ends besides the folder, the lock on it, another kill shows.
    """
    killed = path.parent.with_name("killed")
    report = vars(incremental)["write_report"]

    def copy_after_report(*arguments: Any) -> None:
        report(*arguments)
        if State.read(path) is not None:
            shutil.copytree(path.parent, killed)
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental, "write_report", copy_after_report)
        assert "Aborted!" in invoke(spark, *arguments).output
    [left] = killed.glob(".flow.*.new")
    assert (left / "index.html").exists()
    state = State.read(killed / path.name)
    assert state is not None
    assert state.number == 1
    return killed / path.name
