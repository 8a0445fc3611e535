"""Topics before clients, the ready file and the lines, on a whole broker without sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.broker.lifecycle import LOADING, NO_ROOM, Lifecycle
from pybroker.broker.ready_file import ReadyFile
from pybroker.container.lifecycle import ContainerLifecycle
from pybroker.container.topics import wanted_topics
from pybroker.model import BrokerId
from pybroker.network.limits import BoundListener
from testing.scenes.api.whole import Whole

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


BOUND = [BoundListener(name="PLAINTEXT", host="0.0.0.0", port=9092), BoundListener(name="HOST", host="127.0.0.1", port=1)]


async def test_topics_are_made_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = await Whole(tmp_path / "data").start()
    lifecycle = ContainerLifecycle(wanted_topics({"PYBROKER_TOPICS": "a:3:1:compact,b"}), ReadyFile(tmp_path / "ready"))
    assert await lifecycle.before_sockets(whole.controller) is None
    topics = whole.controller.image.topics
    assert (len(topics["a"].partitions), topics["a"].configs, len(topics["b"].partitions)) == (
        3,
        {"cleanup.policy": "compact"},
        1,
    )
    ids = {name: topic.topic_id for name, topic in topics.items()}

    again = ContainerLifecycle(wanted_topics({"PYBROKER_TOPICS": "a:4,b,c"}), ReadyFile(tmp_path / "ready"))
    assert await again.before_sockets(whole.controller) is None
    assert {name: whole.controller.image.topics[name].topic_id for name in ids} == ids
    assert "c" in whole.controller.image.topics
    assert "PYBROKER_TOPICS: the topic a exists with 3 partitions, not 4, and stays as it is" in caplog.text


async def test_a_topic_that_cannot_be_made_is_why_it_does_not_start(tmp_path: Path) -> None:
    whole = await Whole(tmp_path / "data").start()
    lifecycle = ContainerLifecycle(wanted_topics({"PYBROKER_TOPICS": "a:retention.ms=soon"}), ReadyFile(tmp_path / "ready"))
    reason = await lifecycle.before_sockets(whole.controller)
    assert reason is not None
    assert reason.startswith("PYBROKER_TOPICS: the topic a cannot be created: Invalid value soon for configuration retention.ms")


async def test_it_is_ready_when_the_groups_are_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ready = tmp_path / "ready"
    ready.write_text("of an earlier run")
    file = ReadyFile(ready)
    file.forget("starting")
    lifecycle = ContainerLifecycle({}, file)

    async def groups_loaded() -> None:
        assert not ready.exists()
        assert (tmp_path / "ready.reason").read_text() == f"{LOADING}\n"
        assert capsys.readouterr().out == ""

    await lifecycle.announce(BrokerId(7), BOUND, groups_loaded)
    assert ready.read_text().split() == ["127.0.0.1", "9092"]
    assert capsys.readouterr().out.splitlines() == [
        "[BrokerLifecycleManager id=7] Transitioning from RECOVERY to RUNNING",
        "[KafkaRaftServer nodeId=7] Kafka Server started",
        "[KafkaServer id=7] started",
        "READY 127.0.0.1:9092",
    ]
    lifecycle.stopping()
    assert not ready.exists()


async def test_a_broker_without_a_container_keeps_the_file_too_where_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ready = tmp_path / "ready"
    lifecycle = Lifecycle(ReadyFile(ready))

    async def groups_loaded() -> None:
        assert not ready.exists()

    await lifecycle.announce(BrokerId(7), BOUND, groups_loaded)
    assert ready.read_text().split() == ["127.0.0.1", "9092"]
    assert capsys.readouterr().out == "READY 127.0.0.1:9092\n"
    lifecycle.stopping()
    assert not ready.exists()


async def test_a_ready_file_that_cannot_be_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def groups_loaded() -> None:
        pass

    await ContainerLifecycle({}, ReadyFile(tmp_path / "missing" / "ready")).announce(BrokerId(1), BOUND, groups_loaded)
    assert f"PYBROKER_READY_FILE={tmp_path}/missing/ready cannot be written (No such file or directory)" in caplog.text


async def test_it_is_not_ready_while_there_is_no_room(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    lifecycle = Lifecycle(ReadyFile(ready))

    async def groups_loaded() -> None:
        """Return at once."""

    reason = tmp_path / "ready.reason"
    lifecycle.room_changed(has_room=False)
    await lifecycle.announce(BrokerId(7), BOUND, groups_loaded)
    assert not ready.exists()
    assert reason.read_text() == f"{NO_ROOM}\n"
    lifecycle.room_changed(has_room=True)
    assert ready.read_text() == "127.0.0.1 9092\n"
    assert not reason.exists()
    lifecycle.room_changed(has_room=False)
    assert not ready.exists()
    assert reason.read_text() == f"{NO_ROOM}\n"
    lifecycle.room_changed(has_room=True)
    lifecycle.stopping()
    lifecycle.room_changed(has_room=False)
    lifecycle.room_changed(has_room=True)
    assert not ready.exists(), "it stops"
    assert reason.read_text() == "stopping\n"


async def test_a_topic_for_which_there_is_no_room_does_not_keep_it_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = await Whole(tmp_path / "data").start()
    for directory in whole.logs.directories:
        directory.room.is_full = True
    wanted = wanted_topics({"PYBROKER_TOPICS": "a"})
    reason = await ContainerLifecycle(wanted, ReadyFile(tmp_path / "ready")).before_sockets(whole.controller)
    assert reason is not None, "another failure of the disk does"
    lifecycle = ContainerLifecycle(wanted, ReadyFile(tmp_path / "ready"))
    lifecycle.room_changed(has_room=False)
    assert await lifecycle.before_sockets(whole.controller) is None
    assert "PYBROKER_TOPICS: the topic a cannot be created now" in caplog.text
    assert "a" not in whole.controller.image.topics
