"""`pybroker adopt` as a command: its report, its refusals, and a dry run that prints the same as the run."""

from __future__ import annotations

import logging
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pybroker.cli import directories_command, start
from pybroker.cli.adopt_command import _start_line, command
from pybroker.clock import ManualClock
from pybroker.config.broker import BrokerConfig
from pybroker.config.topic import TopicConfig
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, Offset, ProducerEpoch, ProducerId
from pybroker.records.batch import Record
from pybroker.records.build import build_batch, build_message_set
from testing.scenes.logs import START_MS


@pytest.mark.parametrize("config", [Path("my server.properties"), None])
def test_the_start_has_the_configuration_of_the_adoption(config: Path | None) -> None:
    loaded = BrokerConfig(node_id=BrokerId(3), log_dirs=("/a", "/b"))
    head, _, line = _start_line(loaded, config, ("log.retention.ms=-1",), env=config is None).partition(": ")
    program, name, *arguments = shlex.split(line)
    assert (head, program, name) == ("Start with", "pybroker", "start")
    with start.command.make_context("start", arguments) as context:  # refuses what the command does not have
        given = context.params
    assert given["config"] == (config and config.absolute())
    assert given["env"] is (config is None)
    assert given["overrides"] == ("log.retention.ms=-1", "node.id=3", "log.dirs=/a,/b")


# --- the dry run ---


def old_kafka(folder: Path, **partitions: bytes) -> Path:
    """Make the directory of a Kafka of the time of ZooKeeper, whose partitions of the topic `orders` have one data file each."""
    folder.mkdir()
    (folder / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=theirs\n")
    for name, data in partitions.items():
        (folder / f"orders-{name.removeprefix('p')}").mkdir()
        (folder / f"orders-{name.removeprefix('p')}" / "00000000000000000000.log").write_bytes(data)
    return folder


def adopt(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(command, [str(folder), *options], standalone_mode=True)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


OLD = bytes(build_message_set([Record(Offset(n), n, b"k", b"v") for n in range(3)], magic=1))
IN_TRANSACTION = bytes(
    build_batch(
        [Record(Offset(7), 7, b"k", b"v")],
        is_transactional=True,
        producer_id=ProducerId(41),
        producer_epoch=ProducerEpoch(0),
        base_sequence=0,
    )
)


OLD_BEHIND = bytes(build_message_set([Record(Offset(8), 8, b"k", b"v")], magic=1))


def test_a_dry_run_prints_what_the_run_prints(tmp_path: Path) -> None:
    folder = old_kafka(tmp_path / "kafka", p0=OLD + IN_TRANSACTION, p1=OLD)
    before = files(folder)
    dry = adopt(folder, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert files(folder) == before
    assert "the next producer id is 42, the next leader epoch 1" in dry.output, "those of the converted files count"
    assert "the transaction of producer 41 from offset 7 on has no end" in dry.output
    real = adopt(folder)
    expected = dry.output.replace("would be converted", "converted").replace("would be adopted; nothing was changed", "adopted")
    assert real.output == expected
    assert files(folder) != before


def damaged(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("partition", "options", "reason"),
    [
        (damaged(OLD, 30), (), "cannot be converted to format 2; it is damaged at byte 0"),
        (OLD + damaged(IN_TRANSACTION, 65) + OLD, (), "the checksum of a batch is wrong"),
        (OLD + OLD, (), "offset 0 follows offset 2"),
        (OLD, ("--override", "metadata.store=memory:"), "there is nothing to work on"),
    ],
)
def test_what_the_run_refuses_the_dry_run_refuses_and_both_change_nothing(
    tmp_path: Path, partition: bytes, options: tuple[str, ...], reason: str
) -> None:
    folder = old_kafka(tmp_path / "kafka", p0=OLD, p1=partition)
    before = files(folder)
    dry, real = adopt(folder, "--dry-run", *options), adopt(folder, *options)
    assert (dry.exit_code, real.exit_code) == (1, 1), dry.output
    assert reason in dry.output
    assert dry.output == real.output
    assert files(folder) == before, "the other partition is not converted either"


def test_a_missing_partition_is_refused_with_the_option_of_this_command(tmp_path: Path) -> None:
    folder = old_kafka(tmp_path / "kafka", p0=IN_TRANSACTION, p2=IN_TRANSACTION)
    refused = adopt(folder, "--dry-run")
    assert refused.exit_code == 1
    (option,) = re.findall(r"With (--[a-z-]+), missing partitions are made again, empty", refused.output)
    allowed = adopt(folder, "--dry-run", option)
    assert allowed.exit_code == 0, allowed.output


def test_the_start_s_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = old_kafka(tmp_path / "kafka", p0=IN_TRANSACTION)
    monkeypatch.chdir(tmp_path)
    adopted = adopt(Path(folder.name))
    assert adopted.exit_code == 0, adopted.output
    assert adopted.output.splitlines()[-1].endswith(f" --override log.dirs={folder}")


def test_the_start_finds_the_indexes_of_converted_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = old_kafka(tmp_path / "kafka", p0=OLD, p1=OLD + IN_TRANSACTION)
    adopted = adopt(folder)
    assert adopted.exit_code == 0, adopted.output
    logs = LogManager(
        [str(folder)],
        cluster_id="theirs",
        node_id=BrokerId(1),
        services=LogServices(clock=ManualClock(START_MS)),
        config_of=lambda _: TopicConfig(),
    )
    with caplog.at_level("INFO", "pybroker"):
        logging.getLogger("pybroker").addHandler(caplog.handler)  # the command has replaced the handlers
        logs.start()
        logging.getLogger("pybroker").removeHandler(caplog.handler)
    assert {str(log.topic_partition): log.log_end_offset for log in logs.all_logs()} == {"orders-0": 3, "orders-1": 8}
    logs.stop()
    assert "2 logs after an unclean stop" in caplog.text, "the start's lines are seen"
    assert "indexes" not in caplog.text


# --- the other command, which knows no settings of Kafka ---


def by_names(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(directories_command.command, ["adopt", "--data-dir", str(folder), *options])


def test_the_command_for_a_lost_store_refuses_a_kafka_s_directory_and_leaves_no_trace(tmp_path: Path) -> None:
    folder = old_kafka(tmp_path / "kafka", p0=IN_TRANSACTION)
    before = files(folder)
    for _ in range(2):  # the first run leaves nothing that the second would take for a sign of this broker
        refused = by_names(folder, "--override", "node.id=1")
        assert refused.exit_code == 1
        assert f"run 'pybroker adopt {folder}'" in refused.output
        assert files(folder) == before


def test_the_command_for_a_lost_store_converts_nothing_and_refuses_old_formats_behind_others(tmp_path: Path) -> None:
    folder = old_kafka(tmp_path / "kafka", p0=IN_TRANSACTION + OLD_BEHIND)
    (folder / ".reserve").write_bytes(b"")  # this broker has used it
    refused = by_names(folder, "--override", "node.id=1")
    assert refused.exit_code == 1, refused.output
    assert "orders-0 has messages of format 0 or 1" in refused.output
    assert f"run 'pybroker adopt {folder}'" in refused.output
