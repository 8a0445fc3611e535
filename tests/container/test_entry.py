"""The entry point makes a configuration of environment and files, and checks the directories."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pybroker.config.load import ConfigFileError
from pybroker.config.setting import ConfigError
from pybroker.container.directories import DATA_DIRECTORY, default_directory, make_usable
from pybroker.container.entry import read_entry
from pybroker.container.files import FILES, SHIPPED, find_file


def test_nothing_given(tmp_path: Path) -> None:
    entry = read_entry({}, root=str(tmp_path))
    assert entry.loaded.config.log_dirs == (DATA_DIRECTORY,)
    assert (entry.loaded.warnings, entry.loaded.notices, dict(entry.topics)) == ((), (), {})
    assert entry.remarks == (f"Data directories: {DATA_DIRECTORY}",)


@pytest.mark.parametrize("name", FILES)
def test_a_mounted_file_is_read_and_the_environment_wins_over_it(tmp_path: Path, name: str) -> None:
    file = tmp_path / name.lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_text("num.partitions=2\nnode.id=5\nlog.dirs=/of-the-file\n")
    entry = read_entry({"KAFKA_NODE_ID": "6"}, overrides={"broker.rack": "r"}, root=str(tmp_path))
    config = entry.loaded.config
    assert (config.num_partitions, config.node_id, config.log_dirs, config.broker_rack) == (2, 6, ("/of-the-file",), "r")
    assert f"Properties are read from {file}" in entry.remarks


def test_a_file_is_checked_as_the_environment_is(tmp_path: Path) -> None:
    file = tmp_path / "f.properties"
    file.write_text("process.roles=controller\n")
    with pytest.raises(ConfigError, match=r"process\.roles=controller: .*f\.properties"):
        read_entry({}, file=file)


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_a_file_that_other_images_ship_means_the_defaults_when_it_is_not_mounted(tmp_path: Path, name: str) -> None:
    entry = read_entry({"KAFKA_NODE_ID": "6"}, file=Path(name), overrides={"num.partitions": "4"}, root=str(tmp_path))
    assert (entry.loaded.config.node_id, entry.loaded.config.num_partitions) == (6, 4)
    line = f"{name} is a file of Kafka's images that is not here; the defaults and the variables apply"
    assert entry.remarks.count(line) == 1


@pytest.mark.parametrize("name", ["config/server.properties", "./config/kraft/server.properties"])
def test_a_relative_file_is_looked_for_in_kafkas_folder_too(tmp_path: Path, name: str) -> None:
    (line,) = find_file(Path(name), str(tmp_path))[1]
    assert line.startswith(name.removeprefix("./"))
    mounted = tmp_path / "opt" / "kafka" / name
    mounted.parent.mkdir(parents=True)
    mounted.write_text("num.partitions=7\n")
    assert find_file(Path(name), str(tmp_path)) == (tmp_path / "opt/kafka" / name.removeprefix("./"), [])


@pytest.mark.parametrize("name", ["/opt/kafka/config/my.properties", "/opt/kafka/config/kraft/controller.properties", "other"])
def test_any_other_file_that_is_missing_is_an_error_with_what_to_do(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigFileError) as caught:
        read_entry({}, file=Path(name), root=str(tmp_path))
    assert str(caught.value).startswith(f"cannot read {name}: no such file in this container; mount it there, or ")


def test_the_controllers_listener_is_not_opened() -> None:
    environment = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    assert [endpoint.port for endpoint in read_entry(environment).loaded.config.endpoints] == [9092]


def test_a_container_listens_at_every_address() -> None:
    assert [str(endpoint) for endpoint in read_entry({}, root="/nonexistent").loaded.config.endpoints] == ["PLAINTEXT://:9092"]


@pytest.mark.parametrize("text", ["MkU3OEVBNTcwNTJENDM2Qk", "free text", "a=b", "é"])
def test_a_cluster_id_is_any_text_as_kafka_has_it(text: str) -> None:
    assert read_entry({"CLUSTER_ID": text}, root="/nonexistent").loaded.config.cluster_id == text


@pytest.mark.parametrize("text", ["two\nlines", "back\\slash", "x" * 256])
def test_a_cluster_id_that_a_properties_file_does_not_keep_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_entry({"CLUSTER_ID": text}, root="/nonexistent")
    (line,) = str(caught.value).splitlines()
    assert line.endswith(": must be at most 255 printable characters without a backslash (from CLUSTER_ID)")


@pytest.mark.parametrize(
    ("mounts", "directory"),
    [
        ((), DATA_DIRECTORY),
        ((DATA_DIRECTORY,), DATA_DIRECTORY),
        (("/bitnami/kafka", DATA_DIRECTORY), "/bitnami/kafka/data"),
        (("/bitnami",), "/bitnami/kafka/data"),
        (("/tmp/kraft-combined-logs",), "/tmp/kraft-combined-logs"),
        (("/kafka",), "/kafka/kafka-logs"),
    ],
)
def test_data_lie_on_the_volume_that_a_file_for_another_image_mounts(mounts: tuple[str, ...], directory: str) -> None:
    assert default_directory(lambda path: path in mounts) == directory


def test_directories_are_made(tmp_path: Path) -> None:
    directories = [str(tmp_path / "a" / "b"), str(tmp_path / "c")]
    assert make_usable(directories) is None
    assert (tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "c").iterdir()) == []
    assert make_usable(directories) is None


def test_a_directory_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reason = make_usable([str(tmp_path / "file" / "data")])
    assert reason is not None
    assert reason.startswith(f"log.dirs={tmp_path}/file/data: uid ")
    assert "\n" not in reason


@pytest.mark.parametrize("name", ["lost+found", ".gitkeep", "README", "backup.tar"])
def test_what_a_broker_never_opens_may_belong_to_any_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / name).write_text("")
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    assert make_usable([str(tmp_path)]) is None


@pytest.mark.parametrize(
    "name",
    [".lock", "metadata.sqlite", "metadata.sqlite-wal", "cleaner-offset-checkpoint.topic-ids", "orders-0", "a.b-12"],
)
def test_what_a_broker_opens_must_be_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / name).write_text("")
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    reason = make_usable([str(tmp_path)])
    assert reason is not None
    assert f"cannot write to {tmp_path / name}" in reason


def test_the_owner_of_what_cannot_be_written_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meta.properties").write_text("")
    monkeypatch.setattr("os.access", lambda path, _mode: path.name != "meta.properties")
    reason = make_usable([str(tmp_path)], lambda path: path == str(tmp_path))
    assert reason is not None
    assert f"cannot write to {tmp_path}/meta.properties: Permission denied" in reason
    assert f"belongs to uid {tmp_path.stat().st_uid} (mode 6" in reason


@pytest.mark.parametrize("name", ["", "a", "a/b"])
def test_what_belongs_to_the_image_is_not_to_be_given_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    directory = str(tmp_path / name)
    reason = make_usable([directory], lambda path: path == "/")
    assert reason is not None
    assert "chown" not in reason
    assert reason.endswith(
        f"; {tmp_path} belongs to the image: use a directory in /var/lib/kafka/data, which is a volume, "
        f"or mount a volume at {directory} that uid {os.getuid()} can write to"
    )
