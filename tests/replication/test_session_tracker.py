"""A leader looks at the partitions of a follower's session that are not quiet, and misses no change of the others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pybroker.model import Offset
from pybroker.protocol.error_codes import ErrorCode
from pybroker.purgatory.timer import OperationTimer
from pybroker.replication.fetch_data import FetchResults
from pybroker.replication.replica_manager import ReplicaManager
from pybroker.replication.session_tracker import LOOK_AGAIN_MS
from testing.scenes.api.whole import Whole
from testing.scenes.replication.replicas import LAG_MS_MAX, TOPIC, Replicas
from testing.waiting import turned_until

WAIT_MS = 500
VERSION = 17


class Scene:
    """Three replicas whose followers have all, and know the high watermark. Broker 2 fetches as the test wants it."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas = replicas

    @property
    def leader(self) -> Whole:
        return self.replicas.brokers[1]

    def send(self, broker: int = 2) -> tuple[Any, Any]:
        request = self.replicas.request(broker)
        return request, self.leader.send(request.message, VERSION)

    async def read(self, sent: tuple[Any, Any]) -> Any:
        request, response = sent
        if isinstance(response, asyncio.Future):
            await turned_until(response.done, "the response")
            response = response.result()
        return self.leader.read(response, request.message, VERSION)

    async def follow(self, sent: tuple[Any, Any], broker: int = 2) -> Any:
        response = await self.read(sent)
        self.replicas.follow(broker, sent[0], response)
        return response

    async def fetch(self, broker: int = 2) -> Any:
        sent = self.send(broker)
        self.leader.pass_time(WAIT_MS)
        return await self.follow(sent, broker)

    def append(self, *values: bytes) -> None:
        for value in values:
            self.replicas.produce(1, value)


async def quiet(tmp_path: Path) -> Scene:
    replicas = await Replicas(tmp_path, replica_fetch_wait_max_ms=WAIT_MS).start()
    scene = Scene(replicas)
    replicas.produce(1, b"first")
    for number in (2, 3, 2, 3, 2):
        await scene.fetch(number)
    assert replicas.partition(2).high_watermark == 1
    return scene


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(OperationTimer, "soon", lambda _, work: asyncio.get_running_loop().call_soon(work))
    return await quiet(tmp_path)


async def test_a_quiet_partition_is_not_read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    read = ReplicaManager.read

    def counted(self: ReplicaManager, params: Any, partitions: Any, *rest: Any) -> FetchResults:
        found.append(len(partitions))
        return read(self, params, partitions, *rest)

    monkeypatch.setattr(ReplicaManager, "read", counted)
    assert (await scene.fetch()).responses == []
    assert found == [0, 0]
    assert scene.leader.replicas.follower_fetch_expirations > 0


async def test_what_a_turn_appends_comes_in_one_response(scene: Scene) -> None:
    sent = scene.send()
    scene.append(b"a", b"b", b"c")
    assert not sent[1].done()
    scene.leader.pass_time(1)
    await scene.follow(sent)
    assert scene.replicas.offsets()[:2] == [4, 4]


async def test_a_follower_that_had_all_stays_in_sync_when_the_log_grows_after_a_long_pause(scene: Scene) -> None:
    for _ in range(LAG_MS_MAX // WAIT_MS + 2):
        await scene.fetch()
    followers = scene.replicas.partition(1).followers
    assert followers is not None
    scene.append(b"a")
    now_ms = scene.replicas.clock.monotonic_ms()
    assert followers[scene.replicas.brokers[2].broker_id].lag_ms(Offset(2), now_ms) <= WAIT_MS


async def test_a_new_leader_ends_a_wait(scene: Scene) -> None:
    sent = scene.send()
    await scene.replicas.elect(3, isr=(1, 2, 3))
    scene.leader.pass_time(1)
    (topic,) = (await scene.read(sent)).responses
    assert topic.partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_a_log_start_that_moves_without_a_wake_up_is_seen_in_time(scene: Scene) -> None:
    leader = scene.replicas.partition(1)
    leader.log.increment_log_start_offset(Offset(1), high_watermark=leader.high_watermark)
    named = []
    for _ in range(LOOK_AGAIN_MS // WAIT_MS + 2):
        response = await scene.fetch()
        named += [one.log_start_offset for topic in response.responses for one in topic.partitions]
    assert named == [1]


async def test_another_session_ends_the_tracking_of_the_one_before(scene: Scene) -> None:
    scene.replicas._fetchers.pop(2)
    await scene.fetch()  # names all
    assert len(scene.leader.replicas.tracked[TOPIC]) == 2, "its old session, which it has forgotten, and that of broker 3"
    await scene.fetch()
    assert len(scene.leader.replicas.tracked[TOPIC]) == 3


async def test_a_request_that_forgets_a_partition_ends_the_tracking_and_the_next_one_begins_it(scene: Scene) -> None:
    fetcher = scene.replicas._fetchers[2]
    (followed,) = [one for _, one in fetcher]
    fetcher.remove(TOPIC)
    request = fetcher.request(scene.replicas.clock.monotonic_ms())
    assert request is None, "there is nothing to fetch"
    assert fetcher.add(TOPIC, followed)
    assert len(scene.leader.replicas.tracked[TOPIC]) == 2
    await scene.fetch()
    assert len(scene.leader.replicas.tracked[TOPIC]) == 2
